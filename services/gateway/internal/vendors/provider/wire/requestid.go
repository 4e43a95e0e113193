package wire

import (
	"net/http"
)

// requestIDs are the headers with a vendor's ID of a call, first the one that its support asks for: Azure, AWS, Anthropic,
// OpenAI and vendors with the same headers.
var requestIDs = []string{"Apim-Request-Id", "X-Amzn-Requestid", "Request-Id", "X-Request-Id", "X-Ms-Request-Id"}

// maxRequestID bounds the length of an ID; a longer one is ignored, because a part of an ID would find nothing.
const maxRequestID = 128

// requestID returns the vendor's own ID of a call, or "" if there is none that can be shown.
func (c *Caller) requestID(header http.Header) string {
	for _, name := range requestIDs {
		if id := first(header, name); c.showable(id) {
			return id
		}
	}
	return ""
}

// showable reports whether an ID is printable ASCII without spaces, of a bounded length, and does not contain the key.
func (c *Caller) showable(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return !c.holdsSecret(id)
}
