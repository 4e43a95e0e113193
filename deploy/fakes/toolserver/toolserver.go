// Package toolserver fakes a server of the Model Context Protocol over streamable HTTP. Under /mcp it speaks the
// stateless revision 2026-07-28 and, after initialize, those with sessions; under /modern and /legacy one of both. It
// checks what the protocol demands of a client, and lists the calls that its tools have carried out.
package toolserver

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxCalls    = 10_000
	maxBytes    = 64 << 20
	maxSessions = 10_000
	// pageSize is how many tools a page of the list has.
	pageSize = 4
)

// Call is a call that a tool has carried out.
type Call struct {
	Time      time.Time       `json:"time"`
	Path      string          `json:"path"`
	Version   string          `json:"version"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      json.RawMessage `json:"meta"`
	// Headers have credentials hashed.
	Headers http.Header `json:"headers"`
}

// Server is the fake. Its embedded Injector scripts it.
type Server struct {
	*fault.Injector
	calls   *journal.Journal[Call]
	handler http.Handler

	mu sync.Mutex
	// changes are members of definitions that replace their own, by tool; a null removes the tool.
	changes  map[string]map[string]json.RawMessage
	sessions map[string]session
	tasks    map[string]*task // by their ids
	opened   int
	// expected are answers of clients that calls wait for, by the ids of their questions.
	expected  map[string]expected
	questions int
}

// New returns a server that follows script. It panics on an invalid one.
func New(script fault.Script) *Server {
	s := &Server{
		calls: journal.New[Call](maxCalls, maxBytes), changes: make(map[string]map[string]json.RawMessage), sessions: make(map[string]session),
		expected: make(map[string]expected), tasks: make(map[string]*task),
	}
	s.Injector = fault.NewInjector(script, fault.Options{ErrorBody: errorBody})
	control := http.NewServeMux()
	fault.ServeJournal(control, "executed", s.calls, byTool)
	control.HandleFunc("PUT /_definitions", s.change)
	control.HandleFunc("DELETE /_definitions", s.restore)
	control.HandleFunc("DELETE /_sessions", s.endSessions)
	face := http.NewServeMux()
	face.HandleFunc("/mcp", s.serve)
	face.HandleFunc("/modern", s.serve)
	face.HandleFunc("/legacy", s.serve)
	face.HandleFunc(fixturesPath, s.serve)
	face.HandleFunc("/secured", authorized(s.serve))
	of := newIssuer()
	of.serve(face, control)
	face.HandleFunc(guardedPath, of.guard(s.serve))
	s.handler = s.Handler(control, face)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Executed returns the newest calls that tools have carried out, at most limit, oldest first.
func (s *Server) Executed(limit int) []Call { return s.calls.Last(limit, nil) }

// byTool selects the calls of a tool.
func byTool(q url.Values) func(Call) bool {
	tool := q.Get("tool")
	return func(c Call) bool { return tool == "" || c.Tool == tool }
}

// errorBody returns an error as a server sends it before it has read a request.
func errorBody(_ *http.Request, status int, _ string) (contentType, body string) {
	return "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":%q}}`, http.StatusText(status))
}

func authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || key == "" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://auth.invalid/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// change changes definitions: a body {"echo": {"description": "x"}} replaces that member, {"echo": null} removes the tool.
func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	var changes map[string]map[string]json.RawMessage
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&changes); err != nil {
		fault.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	s.Change(changes)
	w.WriteHeader(http.StatusNoContent)
}

// Change changes definitions, as PUT /_definitions does.
func (s *Server) Change(changes map[string]map[string]json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.changes, changes)
}

func (s *Server) restore(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.changes)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) endSessions(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
	w.WriteHeader(http.StatusNoContent)
}

// session is a session of a client.
type session struct {
	version string
	samples bool // as the client declared
}

// request is a message of a client.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		URI       string          `json:"uri"`
		Argument  struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
		Cursor          string          `json:"cursor"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ProtocolVersion string          `json:"protocolVersion"`
		InputResponses  json.RawMessage `json:"inputResponses"`
		RequestState    string          `json:"requestState"`
		TaskID          string          `json:"taskId"`
		Notifications   struct {
			TaskIDs []string `json:"taskIds"`
		} `json:"notifications"`
		Meta json.RawMessage `json:"_meta"`
	} `json:"params"`
	// Result and Error are of an answer to a question of the fake.
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	meta   map[string]json.RawMessage
}

// serve answers a request of either era.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete && s.endSession(r.Header.Get("Mcp-Session-Id")) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	accept := r.Header.Get("Accept")
	if !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream") {
		http.Error(w, "Not Acceptable: client must accept both application/json and text/event-stream", http.StatusNotAcceptable)
		return
	}
	var m request
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err == nil && m.Params.Meta != nil {
		err = json.Unmarshal(m.Params.Meta, &m.meta)
	}
	if err != nil {
		reject(w, http.StatusBadRequest, &m, codeParse, "parse error")
		return
	}
	_, modern := m.meta["io.modelcontextprotocol/protocolVersion"]
	switch modern = modern || r.Header.Get("Mcp-Protocol-Version") == modernVersion; {
	case modern && r.URL.Path != "/legacy":
		s.modern(w, r, &m)
	case !modern && r.URL.Path != "/modern" && r.URL.Path != fixturesPath:
		s.legacy(w, r, &m)
	case modern:
		http.Error(w, "Bad Request: Unsupported protocol version", http.StatusBadRequest)
	default:
		reject(w, http.StatusBadRequest, &m, codeInvalidParams, "_meta: io.modelcontextprotocol/protocolVersion is required")
	}
}

// Codes of errors.
const (
	codeParse          = -32700
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeHeaderMismatch = -32020
	codeCapability     = -32021
	codeVersion        = -32022
)

// reject answers with an error.
func reject(w http.ResponseWriter, status int, m *request, code int, text string) {
	rejectWith(w, status, m, code, text, nil)
}

// rejectWith answers with an error that has data, unless it is nil.
func rejectWith(w http.ResponseWriter, status int, m *request, code int, text string, data any) {
	id := m.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	failure := map[string]any{"code": code, "message": text}
	if data != nil {
		failure["data"] = data
	}
	fault.WriteJSON(w, status, map[string]any{"jsonrpc": "2.0", "id": id, "error": failure})
}

// answer answers with a result, as a document.
func answer(w http.ResponseWriter, m *request, result any) {
	fault.WriteJSON(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}
