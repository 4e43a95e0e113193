package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/proxy"
)

// BenchmarkRelay compares the relay with httputil.ReverseProxy over the same
// transport, a JSON answer and a stream of 20 events.
func BenchmarkRelay(b *testing.B) {
	forms := map[string]http.HandlerFunc{
		"json": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, strings.Repeat("x", 500))
		},
		"stream": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			for range 20 {
				_, _ = io.WriteString(w, "data: {\"content\":\"word\"}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
		},
	}
	for form, handler := range forms {
		upstream := httptest.NewServer(handler)
		b.Cleanup(upstream.Close)
		target, err := url.Parse(upstream.URL)
		if err != nil {
			b.Fatal(err)
		}
		transport := proxy.Transport(nil)
		b.Cleanup(transport.CloseIdleConnections)
		standard := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
		reverse := httptest.NewServer(standard)
		b.Cleanup(reverse.Close)
		for name, address := range map[string]string{"relay": relayTo(b, upstream.URL).URL, "reverseproxy": reverse.URL} {
			b.Run(form+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer client.CloseIdleConnections()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						answer, err := client.Post(address, "application/json", strings.NewReader(`{"model":"m","messages":[]}`))
						if err != nil {
							b.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, answer.Body)
						_ = answer.Body.Close()
					}
				})
			})
		}
	}
}
