package wire

import (
	"net/http"
	"strings"
)

// requestIDs are the headers that vendors name a call by, the one that their
// support asks for first: Azure, Anthropic, OpenAI and those who follow it.
var requestIDs = []string{"Apim-Request-Id", "Request-Id", "X-Request-Id", "X-Ms-Request-Id"}

// maxRequestID bounds an id; a part of one would find nothing.
const maxRequestID = 128

// requestID is the vendor's own id of a call; empty where it gave none that can
// be shown.
func (c *Caller) requestID(header http.Header) string {
	for _, name := range requestIDs {
		if id := first(header, name); c.showable(id) {
			return id
		}
	}
	return ""
}

// showable reports whether an id is one: printable ASCII without spaces, of a
// bounded length, and not the key in disguise of one.
func (c *Caller) showable(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return c.key.IsZero() || !strings.Contains(id, c.key.Reveal())
}
