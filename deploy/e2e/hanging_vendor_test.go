//go:build e2e

package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// hangingVendor is a vendor that never finishes an answer. It records when its caller disconnects, which the fakes
// don't report.
type hangingVendor struct {
	url string

	mu    sync.Mutex
	calls map[string]*hangingCall // by a text in the last message of the call
}

type hangingCall struct{ begun, gone chan struct{} }

// hangingProvider is the vendor in the gateway's configuration, and hangingServer the server that it names.
var (
	hangingProvider = addVendor(vendor{name: "leaving", dialect: "openai", model: "leaving"})
	hangingServer   = newHangingVendor()
)

func newHangingVendor() *hangingVendor {
	w := &hangingVendor{calls: map[string]*hangingCall{}}
	w.url = httptest.NewServer(w).URL // runs as long as the tests
	return w
}

// expect returns the next call whose body holds a text.
func (w *hangingVendor) expect(text string) *hangingCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := &hangingCall{make(chan struct{}), make(chan struct{})}
	w.calls[text] = call
	return call
}

func (w *hangingVendor) find(body string) *hangingCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	for text, call := range w.calls {
		if strings.Contains(body, text) {
			delete(w.calls, text)
			return call
		}
	}
	return nil
}

// ServeHTTP streams one word and then waits until the caller disconnects.
func (w *hangingVendor) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	call := w.find(string(body))
	if err != nil || call == nil {
		http.Error(to, "no test expects this call", http.StatusBadRequest)
		return
	}
	to.Header().Set("Content-Type", "text/event-stream")
	if strings.Contains(string(body), `"stream":true`) {
		_, _ = io.WriteString(to, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"leaving","choices":[{"index":0,"delta":{"role":"assistant","content":"Wait"},"finish_reason":null}]}`+"\n\n")
	}
	_ = http.NewResponseController(to).Flush()
	close(call.begun)
	<-r.Context().Done()
	close(call.gone)
}
