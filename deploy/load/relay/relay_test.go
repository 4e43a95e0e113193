package relay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRelays(t *testing.T) {
	next := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append(body, r.URL.RequestURI()...))
		w.(http.Flusher).Flush()
		<-next
		_, _ = w.Write([]byte(" end"))
	}))
	defer upstream.Close()
	server := httptest.NewServer(New(upstream.URL))
	defer server.Close()
	answer, err := http.Post(server.URL+"/path?q=1", "application/json", strings.NewReader("body "))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	first := make([]byte, len("body /path?q=1"))
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != "body /path?q=1" {
		t.Errorf("first piece %q, error %v", first, err)
	}
	close(next) // the first piece came before the end
	rest, err := io.ReadAll(answer.Body)
	if err != nil || string(rest) != " end" || answer.StatusCode != http.StatusTeapot {
		t.Errorf("%q, status %d, %v", rest, answer.StatusCode, err)
	}
}
