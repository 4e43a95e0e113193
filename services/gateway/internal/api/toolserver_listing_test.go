package api

import (
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// A server is shown with the listing that its tools are of, also while the registry hasn't read the latest one: a reviewer
// of a digest approves what was shown, and a server that isn't listed yet has no digest.
func TestListingIsTheToolsOwn(t *testing.T) {
	server := toolserver.Server{ID: "files", Organization: "acme"}
	known := []definition.Known{{Name: "read", Digest: definition.Digest{1}, Present: true, Status: definition.Pending}}
	listed := definition.Sum([]definition.Definition{{Name: "read", Digest: definition.Digest{1}}})
	for name, c := range map[string]struct {
		state, shown definition.Digest
		known        []definition.Known
		review       string
	}{
		"read":                      {listed, listed, known, "pending"},
		"the first isn't read yet":  {listed, definition.Digest{}, nil, "unlisted"},
		"the second isn't read yet": {definition.Digest{2}, listed, known, "pending"},
		"a server without tools":    {definition.Sum(nil), definition.Sum(nil), nil, "reviewed"},
	} {
		got := fromToolServer(&server, definition.State{Digest: c.state, ListedAt: time.Now()}, definition.NewEntry(server, 1, c.known))
		want := c.shown.String()
		if c.review == "unlisted" {
			want = ""
		}
		if got.ListingDigest != want || got.ReviewState != c.review || int(got.Tools) != len(c.known) {
			t.Errorf("%s: %s, %q with %d tools; want %s, %q", name, got.ReviewState, got.ListingDigest, got.Tools, c.review, want)
		}
	}
}
