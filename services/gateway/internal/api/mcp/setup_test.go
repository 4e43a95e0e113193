package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tools is a Tools of a test.
type tools struct {
	list  toolcall.List
	err   error // of List
	calls []*toolcall.Request
	call  func(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error)
	asked []string // the servers that were listed

	features map[toolserver.Feature]bool
	offers   toolcall.Offers
	queries  []*toolcall.Query
	follows  []toolcall.Followed
	mu       sync.Mutex // of Follows
	query    func(q *toolcall.Query) (toolcall.Answer, error)
	tasks    []*toolcall.TaskRequest
	task     func(r *toolcall.TaskRequest) (toolcall.Answer, error)
	// taskFollows are those of FollowTasks, and followed is what was asked for.
	taskFollows []toolcall.FollowedTasks
	followed    []string
}

func (s *tools) Features(_, server string) map[toolserver.Feature]bool {
	if server == "" {
		return s.features
	}
	return map[toolserver.Feature]bool{toolserver.FeaturePrompts: true}
}

func (s *tools) Offers(_ context.Context, _ *toolcall.Asker, server string, of upstream.Offer) (toolcall.Offers, error) {
	s.asked = append(s.asked, server+" "+string(of))
	return s.offers, s.err
}

func (s *tools) Follows(_ context.Context, _ *toolcall.Asker, _ string, uris []string) ([]toolcall.Followed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, uris...)
	return s.follows, s.err
}

func (s *tools) Query(_ context.Context, q *toolcall.Query) (toolcall.Answer, error) {
	s.queries = append(s.queries, q)
	return s.query(q)
}

func (s *tools) Knows(_, server string) bool { return server == "files" }

func (s *tools) List(_ context.Context, _ *toolcall.Asker, server string) (toolcall.List, error) {
	s.asked = append(s.asked, server)
	return s.list, s.err
}

func (s *tools) Call(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error) {
	s.calls = append(s.calls, r)
	return s.call(ctx, r)
}

func (s *tools) Definition(_ context.Context, _ *toolcall.Asker, name toolcall.Name) (json.RawMessage, bool) {
	for _, tool := range s.list.Tools {
		if tool.Name == name.Tool {
			return tool.Definition, true
		}
	}
	return nil, false
}

// stream is an Events that writes at once.
type stream struct{ w http.ResponseWriter }

func (s stream) Send(text []byte) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	_, _ = s.w.Write(text)
	_ = http.NewResponseController(s.w).Flush()
}

func (stream) Close() {}

const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`

// open returns a server of both paths, with the tool fs__read.
func open(t *testing.T) (*httptest.Server, *tools, *Handler) {
	t.Helper()
	s := &tools{
		list: toolcall.List{Tools: []toolcall.Tool{{Name: "fs__read", Definition: json.RawMessage(`{"name": "read", "title":"\u0041", "inputSchema":` + schema + `, "x":{"y":1}}`)}}},
		call: func(context.Context, *toolcall.Request) (toolcall.Answer, error) {
			return answerOf(`{"content":[{"type":"text","text":"done"}]}`), nil
		},
	}
	h, err := New(Options{
		Tools: s, Asker: func(context.Context) (toolcall.Asker, error) {
			return toolcall.Asker{RequestID: "r1", Organization: "acme"}, nil
		},
		Events: func(w http.ResponseWriter) Events { return stream{w} }, Origins: []string{"https://console.example"},
		Tracer: tracenoop.Tracer{}, Meter: noop.Meter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if err := h.Serve(w, r, r.PathValue("server"), body); err != nil {
			http.Error(w, err.Error(), apierr.From(err).Kind.HTTPStatus())
		}
	}
	end := func(w http.ResponseWriter, r *http.Request) {
		if err := h.End(w, r, r.PathValue("server")); err != nil {
			http.Error(w, err.Error(), apierr.From(err).Kind.HTTPStatus())
		}
	}
	listen := func(w http.ResponseWriter, r *http.Request) {
		if err := h.Listen(w, r, r.PathValue("server")); err != nil {
			http.Error(w, err.Error(), apierr.From(err).Kind.HTTPStatus())
		}
	}
	mux.HandleFunc("GET /mcp", listen)
	mux.HandleFunc("DELETE /mcp", end)
	mux.HandleFunc("DELETE /mcp/{server}", end)
	mux.HandleFunc("POST /mcp", serve)
	mux.HandleFunc("POST /mcp/{server}", serve)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server, s, h
}

func answerOf(text string) toolcall.Answer {
	return toolcall.Answer{Result: upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(text)}, Server: "files", Tool: "read"}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// post sends a body; headers are pairs, and an empty value removes one.
func post(t *testing.T, url, body string, headers ...string) (status int, answer string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	return testkit.Do(t, client, r)
}

// modern are the headers of a request without a name.
func modern(method string, more ...string) []string {
	return append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, more...)
}
