package upstream_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// asked is a request as a stub of a server reads it.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name   string                     `json:"name"`
		Cursor string                     `json:"cursor"`
		Level  string                     `json:"level"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

// stub is a modern server that answers all but server/discover with handle.
func stub(handle func(w http.ResponseWriter, r *http.Request, m asked)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m asked
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		if m.Method == wire.MethodDiscover {
			document(w, m, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
			return
		}
		handle(w, r, m)
	})
}

// legacyStub is a server of sessions that answers calls with handle.
func legacyStub(handle func(w http.ResponseWriter, r *http.Request, m asked)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m asked
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		switch m.Method {
		case wire.MethodDiscover:
			http.Error(w, "Bad Request: no valid session ID provided", http.StatusBadRequest)
		case wire.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "s1")
			document(w, m, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
		case wire.MethodInitialized:
			w.WriteHeader(http.StatusAccepted)
		default:
			handle(w, r, m)
		}
	})
}

// document answers with a response as a document.
func document(w http.ResponseWriter, m asked, members string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, members)
}

// stream answers with events. It reports whether the client still listens.
func stream(w http.ResponseWriter, events ...string) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range events {
		if _, err := io.WriteString(w, "data: "+event+"\n\n"); err != nil {
			return false
		}
	}
	return http.NewResponseController(w).Flush() == nil
}

const good = `"result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}`

func notice(m asked, progress string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}`, m.ID, progress)
}

func response(m asked, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, members)
}

// hostile are answers to a call that no correct server gives.
var hostile = map[string]struct {
	handle func(w http.ResponseWriter, r *http.Request, m asked)
	cause  upstream.Cause
	sent   bool
}{
	"events without end": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		for stream(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+strings.Repeat("x", 60_000)+`"}}`) {
		}
	}, upstream.CauseTooLarge, true},
	"comments without end": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		for stream(w) {
			_, _ = io.WriteString(w, ": "+strings.Repeat("x", 60_000)+"\n\n")
		}
	}, upstream.CauseTooLarge, true},
	"a line without end": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		for stream(w) {
			_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 1<<20))
		}
	}, upstream.CauseTooLarge, true},
	"100 MB of JSON": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[`, m.ID)
		for range 100 {
			if _, err := io.WriteString(w, `"`+strings.Repeat("x", 1<<20)+`",`); err != nil {
				return
			}
		}
	}, upstream.CauseTooLarge, true},
	"100 MB that are announced": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100000000")
		_, _ = io.WriteString(w, "{")
	}, upstream.CauseTooLarge, true},
	"headers without end": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, err = out.WriteString("HTTP/1.1 200 OK\r\n")
		for err == nil {
			_, err = out.WriteString("X-A: " + strings.Repeat("a", 1000) + "\r\n")
		}
	}, upstream.CauseUnreachable, true},
	"a drip": {func(w http.ResponseWriter, r *http.Request, _ asked) {
		for pause := time.NewTicker(10 * time.Millisecond); stream(w); {
			select {
			case <-pause.C:
				_, _ = io.WriteString(w, ":")
			case <-r.Context().Done():
				pause.Stop()
				return
			}
		}
	}, upstream.CauseTimeout, true},
	"silence": {func(_ http.ResponseWriter, r *http.Request, _ asked) { <-r.Context().Done() }, upstream.CauseTimeout, true},
	"a gzip bomb": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 1<<20))
		_ = z.Close()
	}, upstream.CauseProtocol, true},
	"a redirect to the metadata server": {func(w http.ResponseWriter, r *http.Request, _ asked) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
	}, upstream.CauseRefused, true},
	"authentication elsewhere": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://10.0.0.1/.well-known/oauth-protected-resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	}, upstream.CauseRefused, false},
	"a page":     {func(w http.ResponseWriter, _ *http.Request, _ asked) { _, _ = io.WriteString(w, "<html>hello") }, upstream.CauseProtocol, true},
	"no content": {func(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(http.StatusAccepted) }, upstream.CauseProtocol, true},
	"a batch": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "["+response(m, good)+"]")
	}, upstream.CauseProtocol, true},
	"two answers": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, good)
		_, _ = io.WriteString(w, response(m, good))
	}, upstream.CauseProtocol, true},
	"a deep answer": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"content":[],"a":`+strings.Repeat("[", 500_000)+strings.Repeat("]", 500_000)+`}`)
	}, upstream.CauseProtocol, true},
	"names twice": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"content":[],"isError":true,"isError":false}`)
	}, upstream.CauseProtocol, true},
	"no UTF-8": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, "\"result\":{\"content\":[],\"a\":\"\xff\"}")
	}, upstream.CauseProtocol, true},
	"another id": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		document(w, asked{ID: json.RawMessage("99")}, good)
	}, upstream.CauseProtocol, true},
	"an id as a text": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, asked{ID: json.RawMessage(`"` + string(m.ID) + `"`)}, good)
	}, upstream.CauseProtocol, true},
	"another id in a stream": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		stream(w, response(asked{ID: json.RawMessage("99")}, good), response(m, good))
	}, upstream.CauseProtocol, true},
	"a request in a modern stream": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		stream(w, `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`, response(m, good))
	}, upstream.CauseProtocol, true},
	"progress backwards": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		stream(w, notice(m, "1"), notice(m, "1"), response(m, good))
	}, upstream.CauseProtocol, true},
	"progress beyond numbers": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		stream(w, notice(m, "1e999"), response(m, good))
	}, upstream.CauseProtocol, true},
	"garbage in a stream": {func(w http.ResponseWriter, _ *http.Request, m asked) { stream(w, "{", response(m, good)) }, upstream.CauseProtocol, true},
	"a stream that ends":  {func(w http.ResponseWriter, _ *http.Request, m asked) { stream(w, notice(m, "1")) }, upstream.CauseUnreachable, true},
	"20,000 notices": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		for range 20 {
			stream(w, strings.Repeat(`{"jsonrpc":"2.0","method":"a"}`+"\n\ndata: ", 1000)+`{"jsonrpc":"2.0","method":"a"}`)
		}
	}, upstream.CauseTooLarge, true},
	"an unknown kind": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"resultType":"later"}`)
	}, upstream.CauseProtocol, true},
	"a task, unoffered": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"resultType":"task","taskId":"a"}`)
	}, upstream.CauseProtocol, true},
	"no contents": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"resultType":"complete"}`)
	}, upstream.CauseProtocol, true},
	"contents untyped": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"content":[{"text":"a"}]}`)
	}, upstream.CauseProtocol, true},
	"isError as a text": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"content":[],"isError":"no"}`)
	}, upstream.CauseProtocol, true},
	"input without what": {func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"resultType":"input_required"}`)
	}, upstream.CauseProtocol, true},
	"a cut document": {func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"jsonrpc":`)
	}, upstream.CauseUnreachable, true},
	"busy":   {func(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(http.StatusTooManyRequests) }, upstream.CauseRefused, false},
	"broken": {func(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(http.StatusInternalServerError) }, upstream.CauseRefused, true},
	"gone":   {func(w http.ResponseWriter, _ *http.Request, _ asked) { http.NotFound(w, nil) }, upstream.CauseRefused, false},
}

func TestHostileServers(t *testing.T) {
	for name, tt := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server, c := serve(t, stub(func(w http.ResponseWriter, r *http.Request, m asked) {
				calls.Add(1)
				tt.handle(w, r, m)
			}), nil)
			server.Timeout = 5 * time.Minute
			if tt.cause == upstream.CauseTimeout {
				if _, err := c.Probe(t.Context(), server); err != nil { // The time is that of the call alone.
					t.Fatal(err)
				}
				server.Timeout = 2 * time.Second
			}
			_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Progress: func(upstream.Progress) {}})
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.Cause != tt.cause || e.Sent != tt.sent {
				t.Fatalf("%+v, want %s, sent %t", err, tt.cause, tt.sent)
			}
			if calls.Load() != 1 {
				t.Errorf("the server was called %d times", calls.Load())
			}
			testkit.NoLeak(t, "xxxxxxxx", e.Text)
			testkit.NoLeak(t, "169.254.169.254", e.Text)
		})
	}
}

// What an answer holds in memory is charged to the caller, and given back by the caller.
func TestMemoryIsCharged(t *testing.T) {
	budget := memory.New(1<<20, 100)
	for name, handle := range map[string]func(w http.ResponseWriter, m asked){
		"a document": func(w http.ResponseWriter, m asked) {
			document(w, m, `"result":{"content":[],"a":"`+strings.Repeat("x", 2<<20)+`"}`)
		},
		"an event": func(w http.ResponseWriter, m asked) {
			stream(w, response(m, `"result":{"content":[],"a":"`+strings.Repeat("x", 900<<10)+`"}`))
		},
	} {
		server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) { handle(w, m) }), nil)
		hold := budget.Open("org_a", 16<<20)
		_, err := c.Call(memory.NewContext(t.Context(), hold), server, &upstream.Call{Tool: "a"})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseMemory || !errors.Is(err, memory.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
		hold.Close()
		if budget.Held() != 0 {
			t.Errorf("%s: %d bytes are held", name, budget.Held())
		}
	}
}

func TestHostileListings(t *testing.T) {
	tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	page := func(tools, cursor string) string {
		return `"result":{"tools":[` + tools + `],"nextCursor":"` + cursor + `"}`
	}
	for name, tt := range map[string]struct {
		answer func(m asked) string
		cause  upstream.Cause
		text   string
	}{
		"a loop":       {func(m asked) string { return page("", "a") }, upstream.CauseProtocol, "leads back"},
		"a long loop":  {func(m asked) string { return page("", map[string]string{"": "a", "a": "b", "b": "a"}[m.Params.Cursor]) }, upstream.CauseProtocol, "leads back"},
		"pages":        {func(m asked) string { return page("", m.Params.Cursor+"a") }, upstream.CauseTooLarge, "100 pages"},
		"10,000 tools": {func(asked) string { return page(numbered(10_000, tool), "") }, upstream.CauseTooLarge, "1000 tools"},
		"large tools": {func(asked) string {
			return page(numbered(100, func(n string) string {
				return `{"name":"` + n + `","inputSchema":{},"description":"` + strings.Repeat("x", 60<<10) + `"}`
			}), "")
		}, upstream.CauseTooLarge, "4 MiB"},
		"a long cursor":  {func(asked) string { return page("", strings.Repeat("a", 5000)) }, upstream.CauseProtocol, "cursor"},
		"a wrong cursor": {func(asked) string { return `"result":{"tools":[],"nextCursor":1}` }, upstream.CauseProtocol, "cursor"},
		"no list":        {func(asked) string { return `"result":{}` }, upstream.CauseProtocol, "no list"},
		"no name":        {func(asked) string { return page(`{"inputSchema":{}}`, "") }, upstream.CauseProtocol, "without a name"},
		"a long name":    {func(asked) string { return page(tool(strings.Repeat("a", 129)), "") }, upstream.CauseProtocol, "without a name"},
		"a name twice":   {func(asked) string { return page(tool("a")+","+tool("a"), "") }, upstream.CauseProtocol, "two tools"},
		"no tools":       {func(asked) string { return page(`1`, "") }, upstream.CauseProtocol, "without a name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, tt.answer(m)) }), nil)
			got, err := c.List(t.Context(), server)
			if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != tt.cause || !strings.Contains(e.Text, tt.text) {
				t.Fatalf("%d tools, %v", len(got.Tools), err)
			}
		})
	}
}

func numbered(n int, one func(name string) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = one(fmt.Sprint("t", i))
	}
	return strings.Join(all, ",")
}

// A definition that can't be used is left out, and others that are strange are listed as they came.
func TestStrangeDefinitions(t *testing.T) {
	const recursive = `{"name":"recursive","inputSchema":{"type":"object","$ref":"#","unknown":[1.50]},"execution":{"taskSupport":"required"}}`
	tools := []string{
		recursive, `{"name":"none"}`, `{"name":"array","inputSchema":[]}`, `{"name":"header","inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}}`,
		`{"name":"large","inputSchema":{},"description":"` + strings.Repeat("x", 65<<10) + `"}`,
	}
	server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"result":{"ttlMs":1500,"tools":[`+strings.Join(tools, ",")+`]}`)
	}), nil)
	got, err := c.List(t.Context(), server)
	if err != nil || len(got.Tools) != 1 || string(got.Tools[0].Text) != recursive || len(got.Omitted) != 4 || got.TTL != 1500*time.Millisecond {
		t.Errorf("%+v, %v", got, err)
	}
}
