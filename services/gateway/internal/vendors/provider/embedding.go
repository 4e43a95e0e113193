package provider

import "switchyard.dev/services/platform/apierr"

// Embedding is a request for the vectors of texts, or of token sequences.
type Embedding struct {
	// Model is the vendor's own name of the model.
	Model string
	// Input holds texts, none of them empty.
	Input []string
	// Tokens replaces Input with texts that were already divided by the model's own tokenizer: one sequence for each
	// vector, none of them empty.
	Tokens [][]int32
	// Dimensions shortens the vectors; 0 is the model's own length.
	Dimensions int
}

// Len returns the number of requested vectors, at least one.
func (e *Embedding) Len() int { return len(e.Input) + len(e.Tokens) }

// TextsOnly returns the error of a vendor that accepts no tokens, or nil if the request has none.
func (e *Embedding) TextsOnly() error {
	if len(e.Tokens) == 0 {
		return nil
	}
	return Unsupported("input", "must be texts for this provider: it accepts no tokens")
}

// Vectors are the answer to an Embedding.
type Vectors struct {
	// Vectors are in the order of the inputs, all of one length.
	Vectors [][]float32
	// Usage is nil if the vendor reported none.
	Usage *Usage
	// Model is the vendor's name of the model that it ran; may be empty.
	Model string
}

// Check returns the failure of a vendor whose vectors are empty, or not all of one length.
func (v *Vectors) Check() error {
	for _, vector := range v.Vectors {
		switch len(vector) {
		case 0:
			return &Error{Class: apierr.ClassServerError, Text: "the answer lacks a vector"}
		case len(v.Vectors[0]):
		default:
			return &Error{Class: apierr.ClassServerError, Text: "the vectors differ in length"}
		}
	}
	return nil
}
