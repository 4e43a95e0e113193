package provider

// Embedding asks for the vectors of texts, or of token sequences.
type Embedding struct {
	// Model by the vendor's own name.
	Model string
	// Input holds texts, none of them empty.
	Input []string
	// Tokens are there in place of texts, already cut up by the model's own
	// tokenizer: one sequence for each vector, none of them empty.
	Tokens [][]int32
	// Dimensions shortens the vectors; 0 leaves the model's own length.
	Dimensions int
}

// Len is how many vectors are asked for, at least one.
func (e *Embedding) Len() int { return len(e.Input) + len(e.Tokens) }

// TextsOnly is nil unless tokens are asked for: the error of a vendor that takes none.
func (e *Embedding) TextsOnly() error {
	if len(e.Tokens) == 0 {
		return nil
	}
	return Unsupported("input", "must be texts for this provider: it takes no tokens")
}

// Vectors are what an embedding made.
type Vectors struct {
	// Vectors in the order of the inputs, all of one length.
	Vectors [][]float32
	// Usage is nil when the vendor reported none.
	Usage *Usage
	// Model as the vendor names what it ran; may be empty.
	Model string
}
