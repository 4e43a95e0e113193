package connpool_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/testkit"
)

// counted is a connection that counts its writes.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A small body leaves together with the head of its request, whatever type of reader it is.
func TestSmallRequestIsOneWrite(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	var writes atomic.Int64
	pool := connpool.New(connpool.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counted{made, &writes}, err
	}})
	defer pool.CloseIdleConnections()
	for _, c := range []struct {
		name string
		body string
		want int64
	}{
		{"no body", "", 1},
		{"a question", strings.Repeat("q", 900), 1},
		{"more than the buffer", strings.Repeat("q", 6000), 2},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.body != "" {
			request.Body, request.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(c.body))), int64(len(c.body))
		}
		before := writes.Load()
		_, text, _ := testkit.Do(t, &http.Client{Transport: pool}, request)
		if got := writes.Load() - before; got != c.want || text != c.body {
			t.Errorf("%s: %d writes, %d bytes came back, want %d and %d", c.name, got, len(text), c.want, len(c.body))
		}
	}
}
