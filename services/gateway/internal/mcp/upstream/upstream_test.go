package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// The guard refuses what it refuses elsewhere, and nothing is sent.
func TestCallsAreGuarded(t *testing.T) {
	var reached atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(inner.Close)
	c := client(t, upstream.Options{})
	for _, url := range []string{inner.URL, "https://169.254.169.254/mcp", "https://localhost/mcp", "http://tools.example/mcp", "https://user:pass@tools.example/", "file:///etc/passwd", ""} {
		_, err := c.Call(t.Context(), &toolserver.Server{ID: "a", URL: url}, &upstream.Call{Tool: "a"})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseTarget || e.Sent {
			t.Errorf("%s: %+v", url, err)
		}
	}
	if reached.Load() != 0 {
		t.Errorf("an inner server was reached %d times", reached.Load())
	}
}

// A server that can't be reached is not asked again by each of many callers at once.
func TestFailuresAreShared(t *testing.T) {
	var asked atomic.Int32
	server, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}), nil)
	for range 10 {
		_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Sent || e.Status != http.StatusBadGateway {
			t.Fatalf("%+v", err)
		}
	}
	if asked.Load() > 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestKindsOfResults(t *testing.T) {
	offers := json.RawMessage(`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	for text, want := range map[string]upstream.Kind{
		`{"resultType":"complete","content":[],"structuredContent":7,"x":null}`:       upstream.KindComplete,
		`{"content":[{"type":"new kind","a":[1.0]}],"isError":true}`:                  upstream.KindComplete,
		`{"resultType":"input_required","inputRequests":{"a":{}},"requestState":"s"}`: upstream.KindInputRequired,
		`{"resultType":"input_required","requestState":""}`:                           upstream.KindInputRequired,
		taskOf("task", "a", "working", ``):                                            upstream.KindTask,
	} {
		server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
			if string(m.Params.Meta[wire.MetaCapabilities]) != string(offers) {
				t.Errorf("capabilities %s", m.Params.Meta[wire.MetaCapabilities])
			}
			document(w, m, `"result":`+text)
		}), nil)
		got, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Capabilities: offers, Inputs: json.RawMessage(`{"a":{}}`), State: "s"})
		if err != nil || got.Kind != want || string(got.Text) != text || got.IsError != strings.Contains(text, "true") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// Errors of the protocol are passed on with their data, whatever the status is. A server that refuses the headers of a
// call has another definition of the tool.
func TestErrorsOfTheProtocol(t *testing.T) {
	for status, code := range map[int]int64{
		http.StatusOK: -32000, http.StatusBadRequest: wire.CodeHeaderMismatch, http.StatusNotFound: wire.CodeMethodNotFound, http.StatusInternalServerError: wire.CodeInternal,
	} {
		var changed atomic.Int32
		server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, response(m, fmt.Sprintf(`"error":{"code":%d,"message":"m","data":{"a":[1.0]}}`, code)))
		}), func(o *upstream.Options) { o.Changed = func(toolserver.Key) { changed.Add(1) } })
		_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"})
		e, ok := errors.AsType[*wire.Error](err)
		if !ok || e.Code != code || e.Message != "m" || string(e.Data) != `{"a":[1.0]}` {
			t.Errorf("status %d: %v", status, err)
		}
		if (changed.Load() == 1) != (code == wire.CodeHeaderMismatch) {
			t.Errorf("status %d: %d changes", status, changed.Load())
		}
	}
}

// A legacy server may ask things on the stream of a call: it gets an answer, and the call goes on.
func TestRequestsOfLegacyServers(t *testing.T) {
	answers := make(chan string, 8)
	var changed atomic.Int32
	server, c := serve(t, legacyStub(func(w http.ResponseWriter, r *http.Request, m asked) {
		if m.Method == "" {
			answers <- string(m.ID)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-06-18" || r.Header.Get("Mcp-Method") != "" {
			t.Errorf("headers %v", r.Header)
		}
		stream(w, `{"jsonrpc":"2.0","id":"ask","method":"elicitation/create","params":{}}`, `{"jsonrpc":"2.0","id":9,"method":"ping"}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, response(m, good))
	}), func(o *upstream.Options) { o.Changed = func(toolserver.Key) { changed.Add(1) } })
	got, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"})
	if err != nil || got.Version != wire.Legacy20250618 || changed.Load() != 1 {
		t.Fatalf("%+v, %v, %d changes", got, err, changed.Load())
	}
	if first, second := <-answers, <-answers; first != `"ask"` || second != "9" {
		t.Errorf("answers to %s and %s", first, second)
	}
}

// A legacy server may end the stream of a call early; the call is not made again, but its stream is taken up.
func TestStreamsOfLegacyServersAreResumed(t *testing.T) {
	var calls, resumed atomic.Int32
	var id atomic.Pointer[asked]
	server, c := serve(t, legacyStub(func(w http.ResponseWriter, r *http.Request, m asked) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodGet {
			if n := resumed.Add(1); r.Header.Get("Last-Event-Id") != fmt.Sprint("e", n) || r.Header.Get("Mcp-Session-Id") != "s1" {
				t.Errorf("headers %v", r.Header)
			} else if n == 2 {
				_, _ = io.WriteString(w, "data: "+response(*id.Load(), good)+"\n\n")
				return
			}
			_, _ = io.WriteString(w, "id: e2\nretry: 1\ndata:\n\n")
			return
		}
		calls.Add(1)
		id.Store(&m)
		_, _ = io.WriteString(w, "id: e1\nretry: 1\ndata:\n\n")
	}), nil)
	if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"}); err != nil || calls.Load() != 1 || resumed.Load() != 2 {
		t.Errorf("%v after %d calls and %d resumptions", err, calls.Load(), resumed.Load())
	}
}

// Organizations share no session of a server for all of them, and a credential that changes gets a session of its own.
func TestSessionsAreNotShared(t *testing.T) {
	var opened atomic.Int32
	base := legacyStub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, good) })
	server, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			opened.Add(1)
		}
		base.ServeHTTP(w, r)
	}), nil)
	for _, organization := range []string{"org_a", "org_b", "org_a", "org_b"} {
		if _, err := c.Call(t.Context(), server, &upstream.Call{Organization: organization, Tool: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Load() != 4 { // server/discover and initialize, of each.
		t.Errorf("%d requests to open sessions", opened.Load())
	}
	c.Forget(server.Key())
	if _, err := c.Call(t.Context(), server, &upstream.Call{Organization: "org_a", Tool: "a"}); err != nil || opened.Load() != 6 {
		t.Errorf("%v, %d requests to open sessions", err, opened.Load())
	}
}

// A call whose time has passed before it begins is not sent.
func TestEndedContext(t *testing.T) {
	server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, good) }), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Call(ctx, server, &upstream.Call{Tool: "a"})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCanceled || e.Sent {
		t.Errorf("%+v", err)
	}
}
