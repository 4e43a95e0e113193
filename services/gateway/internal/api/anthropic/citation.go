package anthropic

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
)

// citation is a source that another vendor gave for a text block: a web page or a document in the request.
// EncryptedIndex or FileID marks the citation as the gateway's, so that it is never sent to Anthropic.
type citation struct {
	Type           string  `json:"type"`
	CitedText      string  `json:"cited_text"`
	URL            string  `json:"url,omitempty"`
	Title          *string `json:"title,omitempty"`
	EncryptedIndex string  `json:"encrypted_index,omitempty"`
	*documentPlace
}

// documentPlace locates a passage in a document. Index, Start and End stay 0, because other vendors don't report them.
type documentPlace struct {
	Index  int    `json:"document_index"`
	Title  string `json:"document_title"`
	Start  int    `json:"start_char_index"`
	End    int    `json:"end_char_index"`
	FileID string `json:"file_id"`
}

func toCitation(c provider.Citation) citation {
	if c.URL == "" {
		return citation{Type: "char_location", CitedText: c.Quote, documentPlace: &documentPlace{Title: c.Title, FileID: vendor.OwnSignature}}
	}
	return citation{
		Type: "web_search_result_location", CitedText: c.Quote, URL: c.URL, Title: &c.Title, EncryptedIndex: vendor.OwnSignature,
	}
}

func toCitations(found []provider.Citation) (out []citation) {
	for _, c := range found {
		out = append(out, toCitation(c))
	}
	return out
}
