package rpc_test

import (
	"net/http"
	"testing"

	"switchyard.dev/services/platform/rpc"
)

// What is taken is in no part of the request that other code reads; the rest stays.
func TestTakeQuery(t *testing.T) {
	for _, c := range []struct{ url, name, want, rest string }{
		{"/a?key=s%2Fx&alt=sse", "key", "s/x", "/a?alt=sse"},
		{"/a?key=s", "key", "s", "/a"},
		{"/a?key=", "key", "", "/a"},
		{"/a?alt=sse", "key", "", "/a?alt=sse"},
		{"/a?key=s&key=t", "key", "s", "/a"},
		{"/a?key=s", "", "", "/a?key=s"},
		{"/a", "key", "", "/a"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RequestURI = c.url
		if got := rpc.TakeQuery(r, c.name); got != c.want || r.URL.String() != c.rest || r.RequestURI != c.rest {
			t.Errorf("%s: %q, then %s and %s, want %q, then %s", c.url, got, r.URL, r.RequestURI, c.want, c.rest)
		}
	}
}
