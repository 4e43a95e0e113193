package provider

import (
	"slices"
	"unicode/utf8"
)

// Citation is a source for a part of an answer's text.
type Citation struct {
	// URL is empty for a document in the request.
	URL string `json:",omitzero"`
	// Title is the source's title, and Quote the passage of the source that the vendor quotes; both may be empty.
	Title string `json:",omitzero"`
	Quote string `json:",omitzero"`
	// Start and End delimit the cited part of the answer's text, in characters; both are 0 if the vendor doesn't say.
	Start int `json:",omitzero"`
	End   int `json:",omitzero"`
}

// CitationBytes returns approximately how many bytes of memory citations take.
func CitationBytes(citations []Citation) (n int) {
	const each = 64
	for i := range citations {
		n += each + len(citations[i].URL) + len(citations[i].Title) + len(citations[i].Quote)
	}
	return n
}

// ToCharacters converts the places of citations from byte offsets in text to character offsets, in time proportional to
// the text. It moves a place beyond the text to its end. ToBytes is the reverse.
func ToCharacters(text string, citations []Citation) { place(text, citations, true) }

// ToBytes converts the places of citations from character offsets in text to byte offsets.
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
