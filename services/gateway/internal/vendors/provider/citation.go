package provider

import (
	"slices"
	"unicode/utf8"
)

// Citation is a source that a part of an answer's text refers to.
type Citation struct {
	// URL of the source; empty for a document of the request.
	URL string `json:",omitzero"`
	// Title of the source, and the passage of it that the vendor quotes; may be empty.
	Title string `json:",omitzero"`
	Quote string `json:",omitzero"`
	// Start and End are where the cited part is in the answer's text, in characters; both 0 where the vendor doesn't say.
	Start int `json:",omitzero"`
	End   int `json:",omitzero"`
}

// CitationBytes returns about how many bytes citations take.
func CitationBytes(citations []Citation) (n int) {
	const each = 64
	for i := range citations {
		n += each + len(citations[i].URL) + len(citations[i].Title) + len(citations[i].Quote)
	}
	return n
}

// ToCharacters changes the places of citations from bytes of a text to characters, in time proportional to the text.
// ToBytes is the reverse. A place beyond the text is at its end.
func ToCharacters(text string, citations []Citation) { place(text, citations, true) }

// ToBytes changes the places of citations from characters of a text to bytes.
func ToBytes(text string, citations []Citation) { place(text, citations, false) }

func place(text string, citations []Citation, inBytes bool) {
	places := make([]*int, 0, 2*len(citations))
	for i := range citations {
		places = append(places, &citations[i].Start, &citations[i].End)
	}
	slices.SortFunc(places, func(a, b *int) int { return *a - *b })
	at, characters := 0, 0
	for _, p := range places {
		for at < len(text) && (inBytes && at < *p || !inBytes && characters < *p) {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			characters++
		}
		if inBytes {
			*p = characters
		} else {
			*p = at
		}
	}
}
