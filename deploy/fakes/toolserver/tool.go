package toolserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

// tool is a tool of the fake.
type tool struct {
	name, description string
	// properties are the arguments, as JSON.
	properties string
	// run carries a call out and answers it.
	run func(x *execution)
}

// Bounds of what a caller may ask for.
const (
	maxSteps = 100
	maxWait  = time.Minute
	maxSize  = 32 << 20
)

// tools are the tools, in the order of the list.
var tools = []tool{
	{"echo", "Returns its text.", `{"text":{"type":"string"}}`, func(x *execution) { x.text(x.args.Text) }},
	{"pay", "Pays an amount to a payee. It has an effect each time.", `{"to":{"type":"string"},"amount":{"type":"number"}}`, func(x *execution) {
		x.text(fmt.Sprintf("paid %v to %s", x.args.Amount, x.args.To))
	}},
	{"delete_file", "Deletes a file for good.", `{"path":{"type":"string"}}`, func(x *execution) { x.text("deleted " + x.args.Path) }},
	{"query", "Queries a region, which is mirrored into a header.", `{"region":{"type":"string","x-mcp-header":"Region"}}`, func(x *execution) {
		x.text("rows of " + x.args.Region)
	}},
	{"structured", "Returns content of several kinds.", `{}`, func(x *execution) {
		x.result(map[string]any{
			"content": []any{
				map[string]string{"type": "text", "text": `{"sum":1}`},
				map[string]string{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
				map[string]any{"type": "resource_link", "uri": "fake://a", "name": "a"},
				map[string]any{"type": "hologram", "of": "a kind that clients don't know"},
			},
			"structuredContent": map[string]any{"sum": 1},
		})
	}},
	{"fail", "Fails, as a tool.", `{}`, func(x *execution) { x.fail("the tool failed") }},
	{"error", "Answers with an error of the protocol.", `{}`, func(x *execution) {
		reject(x.w, http.StatusOK, x.m, -31999, "the server failed")
	}},
	{"progress", "Reports steps, then ends.", `{"steps":{"type":"integer"},"wait_ms":{"type":"integer"}}`, (*execution).progress},
	{"slow", "Waits, then answers.", `{"wait_ms":{"type":"integer"}}`, func(x *execution) {
		if x.wait() {
			x.text("waited")
		}
	}},
	{"large", "Returns a text of a size in bytes.", `{"size":{"type":"integer"}}`, func(x *execution) {
		x.text(string(bytes.Repeat([]byte{'x'}, min(max(x.args.Size, 0), maxSize))))
	}},
	{"ask", "Requires input once, where the client can give it.", `{}`, (*execution).ask},
	{"work", "Works for a time, in a task where the client takes one.", `{"wait_ms":{"type":"integer"},"ask":{"type":"boolean"},"only":{"type":"boolean"}}`, (*execution).work},
	{"ask_model", "Asks a model through the client.", `{"text":{"type":"string"},"steps":{"type":"integer"},"size":{"type":"integer"}}`, (*execution).askModel},
	{"cut", "Has its effect, and ends the connection before the answer.", `{}`, func(*execution) { panic(http.ErrAbortHandler) }},
}

// execution is a call of a tool.
type execution struct {
	w       http.ResponseWriter
	r       *http.Request
	m       *request
	version string
	server  *Server
	session string // empty for the revision without sessions
	streams bool
	args    struct {
		Text   string  `json:"text"`
		To     string  `json:"to"`
		Path   string  `json:"path"`
		Region string  `json:"region"`
		Amount float64 `json:"amount"`
		Steps  int     `json:"steps"`
		WaitMS int     `json:"wait_ms"`
		Size   int     `json:"size"`
		Ask    bool    `json:"ask"`
		Only   bool    `json:"only"`
		// The rest is of fixtures.
		Name     string  `json:"name"`
		Filename string  `json:"filename"`
		Seconds  float64 `json:"seconds"`
	}
}

// call carries a call out and answers it.
func (s *Server) call(w http.ResponseWriter, r *http.Request, m *request, version string) {
	tools := toolsAt(r.URL.Path)
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == m.Params.Name && !s.removed(t.name) })
	x := &execution{w: w, r: r, m: m, version: version, server: s, session: r.Header.Get("Mcp-Session-Id")}
	if i < 0 {
		reject(w, http.StatusOK, m, codeInvalidParams, "Unknown tool")
		return
	}
	if len(m.Params.Arguments) > 0 && json.Unmarshal(m.Params.Arguments, &x.args) != nil {
		x.fail("the arguments are of other types")
		return
	}
	s.calls.Add(Call{
		Time: time.Now().UTC(), Path: r.URL.Path, Version: version, Tool: m.Params.Name, Arguments: m.Params.Arguments, Meta: m.Params.Meta,
		Headers: fault.RedactHeader(r.Header),
	}, len(m.Params.Arguments)+len(m.Params.Meta)+512)
	tools[i].run(x)
}

// text answers with a text.
func (x *execution) text(text string) {
	x.result(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}})
}

// result answers with a result.
func (x *execution) result(result map[string]any) {
	if _, ok := result["resultType"]; !ok && x.version == modernVersion {
		result["resultType"] = "complete"
	}
	if !x.streams {
		answer(x.w, x.m, result)
		return
	}
	x.event(map[string]any{"jsonrpc": "2.0", "id": x.m.ID, "result": result})
}

// event sends an event of a stream.
func (x *execution) event(message any) {
	if !x.streams {
		x.streams = true
		x.w.Header().Set("Content-Type", "text/event-stream")
		x.w.Header().Set("X-Accel-Buffering", "no")
	}
	text, _ := json.Marshal(message)
	_, _ = io.WriteString(x.w, "event: message\ndata: "+string(text)+"\n\n")
	_ = http.NewResponseController(x.w).Flush()
}

// wait waits as long as the call says. It reports whether the client is still there.
func (x *execution) wait() bool { return x.pause(time.Duration(x.args.WaitMS) * time.Millisecond) }

// pause waits for a time. It reports whether the client is still there.
func (x *execution) pause(d time.Duration) bool {
	pause := time.NewTimer(min(d, maxWait))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

func (x *execution) progress() {
	steps := min(max(x.args.Steps, 1), maxSteps)
	for i := range steps {
		if token, ok := x.m.meta["progressToken"]; ok {
			x.event(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{
				"progressToken": token, "progress": i + 1, "total": steps, "message": "step " + strconv.Itoa(i+1),
			}})
		}
		if !x.wait() {
			return
		}
	}
	x.text(strconv.Itoa(steps) + " steps")
}

// state is what the fake gives with its request for input.
const state = "asked"

func (x *execution) ask() {
	switch {
	case x.version != modernVersion:
		x.text("nothing to ask")
	case x.m.Params.RequestState == state && x.m.Params.InputResponses != nil:
		x.text("got " + string(x.m.Params.InputResponses))
	default:
		x.result(map[string]any{"resultType": "input_required", "requestState": state, "inputRequests": map[string]any{"name": askName()}})
	}
}

// askName returns the request for a name.
func askName() map[string]any {
	return askFor("What is your name?", map[string]string{"name": "string"})
}

// askFor returns a request for fields of types.
func askFor(message string, fields map[string]string) map[string]any {
	properties := make(map[string]any)
	for name, of := range fields {
		properties[name] = map[string]string{"type": of}
	}
	return map[string]any{"method": "elicitation/create", "params": map[string]any{
		"mode": "form", "message": message, "requestedSchema": map[string]any{"type": "object", "properties": properties},
	}}
}

// removed reports whether a tool was removed.
func (s *Server) removed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	members, changed := s.changes[name]
	return changed && members == nil
}

// list answers with a page of the tools that are left, with their present definitions.
func (s *Server) list(w http.ResponseWriter, r *http.Request, m *request, result map[string]any) {
	tools := toolsAt(r.URL.Path)
	from, err := strconv.Atoi(m.Params.Cursor)
	if m.Params.Cursor != "" && (err != nil || from < 1 || from >= len(tools)) {
		reject(w, http.StatusOK, m, codeInvalidParams, "cursor: is not one of this server's")
		return
	}
	page := []map[string]any{}
	to := min(from+pageSize, len(tools))
	for _, t := range tools[from:to] {
		if !s.removed(t.name) {
			page = append(page, s.definition(t))
		}
	}
	result["tools"] = page
	if to < len(tools) {
		result["nextCursor"] = strconv.Itoa(to)
	}
	answer(w, m, result)
}

// definition returns the present definition of a tool.
func (s *Server) definition(t tool) map[string]any {
	d := map[string]any{
		"name": t.name, "description": t.description,
		"inputSchema": json.RawMessage(`{"type":"object","properties":` + t.properties + `}`),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for member, value := range s.changes[t.name] {
		d[member] = value
	}
	return d
}
