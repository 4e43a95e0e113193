package provider

// Embedding asks for the vectors of texts.
type Embedding struct {
	// Model by the vendor's own name.
	Model string
	// Input holds at least one text, none of them empty.
	Input []string
	// Dimensions shortens the vectors; 0 leaves the model's own length.
	Dimensions int
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
