package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"switchyard.dev/services/edge/internal/route"
)

// catalog is the route table as customers see it. It is public: it says nothing
// of who may use a route but by which product, and needs no key.
type catalog struct {
	body []byte
	etag string
}

func newCatalog(table route.Table) (*catalog, error) {
	body, err := json.Marshal(table)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	sum := sha256.Sum256(body)
	return &catalog{body: append(body, '\n'), etag: `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

func (c *catalog) serve(w http.ResponseWriter, r *http.Request, _ *line) error {
	h := w.Header()
	h.Set("ETag", c.etag)
	h.Set("Cache-Control", "public, max-age=60")
	if c.known(r.Header.Get("If-None-Match")) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(c.body) // to a client that has left
	return nil
}

// known tells whether an If-None-Match (RFC 9110, section 13.1.2) names the
// catalog as it is.
func (c *catalog) known(header string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == c.etag || tag == "*" {
			return true
		}
	}
	return false
}
