// Package relay is the floor for measurements of the gateway: the least that a Go service with net/http on both sides
// can do. It reads the bounded body, sends it on over kept connections and relays the answer, flushing what streams.
package relay

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

const (
	maxBody     = 32 << 20
	connections = 1024
	bufferSize  = 32 << 10
)

// New returns a handler that relays every request to the same path of an upstream.
func New(upstream string) http.Handler {
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, DisableCompression: true,
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, upstream+r.URL.RequestURI(), bytes.NewReader(body)) //nolint:gosec // It relays to the one upstream that it was started with.
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		request.Header.Set("Authorization", r.Header.Get("Authorization"))
		answer, err := client.Do(request) //nolint:gosec // likewise
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		pass(w, answer)
	})
}

// NewReverse returns the standard library's own proxy over the same connections.
func NewReverse(upstream *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: &http.Transport{
			MaxIdleConns: connections, MaxIdleConnsPerHost: connections, DisableCompression: true,
		},
		FlushInterval: -1,
	}
}

func pass(w http.ResponseWriter, answer *http.Response) {
	for _, name := range []string{"Content-Type", "Content-Length"} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	stream := answer.ContentLength < 0
	control, buffer := http.NewResponseController(w), make([]byte, bufferSize)
	for {
		n, err := answer.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
		}
		if stream && n > 0 && control.Flush() != nil {
			return
		}
		if err != nil {
			return
		}
	}
}
