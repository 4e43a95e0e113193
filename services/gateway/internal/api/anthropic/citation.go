package anthropic

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
)

// citation is a source of a text block that another vendor named: a page, or a document of the request. EncryptedIndex and
// FileID are the gateway's mark: the vendor of this dialect is never sent the citation.
type citation struct {
	Type           string  `json:"type"`
	CitedText      string  `json:"cited_text"`
	URL            string  `json:"url,omitempty"`
	Title          *string `json:"title,omitempty"`
	EncryptedIndex string  `json:"encrypted_index,omitempty"`
	*documentPlace
}

// documentPlace is where a passage is in a document, which other vendors don't say.
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
