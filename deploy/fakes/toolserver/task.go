package toolserver

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
)

const (
	extensionTasks = "io.modelcontextprotocol/tasks"
	maxTasks       = 10_000
	// pollMS is how often the fake wants to be asked; listenEach is how often a stream looks at its tasks.
	pollMS     = 100
	listenEach = 20 * time.Millisecond
)

// task is what a call goes on as.
type task struct {
	id             string
	began, changed time.Time
	cancelled      bool
	// wait is how long it works, and text what comes out: as that of a tool that fails, or if failure is set as an error of
	// the protocol.
	wait    time.Duration
	text    string
	fails   bool
	failure map[string]any
	// asks is what it asks for first, by names; answers are what was given.
	asks    map[string]any
	answers map[string]json.RawMessage
}

// declares reports whether a client can take tasks.
func (m *request) declares() bool {
	var capabilities struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(m.meta["io.modelcontextprotocol/clientCapabilities"], &capabilities)
	_, declared := capabilities.Extensions[extensionTasks]
	return declared
}

// undeclared rejects what only a client that declares tasks may ask.
func undeclared(w http.ResponseWriter, m *request) {
	rejectWith(w, http.StatusBadRequest, m, codeCapability, "Missing required client capability", map[string]any{
		"requiredCapabilities": map[string]any{"extensions": map[string]any{extensionTasks: map[string]any{}}},
	})
}

// work waits as long as the call says.
func (x *execution) work() {
	t := task{wait: min(time.Duration(x.args.WaitMS)*time.Millisecond, maxWait), text: "worked"}
	if x.args.Ask {
		t.asks = map[string]any{"name": askName()}
	}
	x.task(t, x.args.Only)
}

// task goes on as a task where the client takes one, and answers at once otherwise, unless it is to be a task only.
func (x *execution) task(t task, only bool) {
	switch {
	case x.version == modernVersion && x.m.declares():
		x.result(x.server.begin(&t).state("task"))
	case x.version == modernVersion && only:
		undeclared(x.w, x.m)
	case x.pause(t.wait):
		x.text(t.text + " at once")
	}
}

// begin makes a task.
func (s *Server) begin(t *task) *task {
	t.id, t.began, t.answers = rand.Text(), time.Now(), make(map[string]json.RawMessage)
	t.changed = t.began
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) >= maxTasks {
		clear(s.tasks)
	}
	s.tasks[t.id] = t
	return t
}

// open returns what a task asks for that was not given.
func (t *task) open() map[string]any {
	open := maps.Clone(t.asks)
	maps.DeleteFunc(open, func(name string, _ any) bool { return t.answers[name] != nil })
	return open
}

// final reports whether a task has ended.
func (t *task) final() bool {
	return t.cancelled || len(t.open()) == 0 && time.Since(t.began) >= t.wait
}

// state returns a task as the protocol has it. Callers other than task hold the mutex.
func (t *task) state(kind string) map[string]any {
	state := map[string]any{
		"taskId": t.id, "status": "working", "createdAt": t.began.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.changed.UTC().Format(time.RFC3339Nano),
		"ttlMs": time.Hour.Milliseconds(), "pollIntervalMs": pollMS,
	}
	if kind != "" {
		state["resultType"] = kind
	}
	if kind == "task" { // The rest is said when it is asked for.
		return state
	}
	switch open := t.open(); {
	case t.cancelled:
		state["status"] = "cancelled"
	case len(open) > 0:
		state["status"], state["inputRequests"] = "input_required", open
	case !t.final():
	case t.failure != nil:
		state["status"], state["error"] = "failed", t.failure
	default:
		text := t.text
		if len(t.answers) > 0 {
			given, _ := json.Marshal(t.answers)
			text += " with " + string(given)
		}
		state["status"] = "completed"
		state["result"] = map[string]any{"resultType": "complete", "isError": t.fails, "content": []any{map[string]string{"type": "text", "text": text}}}
	}
	return state
}

// update takes the answers to what a task asks for, or its cancellation.
func (t *task) update(m *request) {
	if t.final() {
		return
	}
	t.changed = time.Now()
	if m.Method == "tasks/cancel" {
		t.cancelled = true
		return
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(m.Params.InputResponses, &given)
	for name := range t.open() {
		if given[name] != nil {
			t.answers[name] = given[name]
		}
	}
}

// serveTask answers a request about a task. It reports false for another method.
func (s *Server) serveTask(w http.ResponseWriter, r *http.Request, m *request) bool {
	switch m.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
	case "subscriptions/listen":
		if m.Params.Notifications.TaskIDs == nil {
			return false
		}
	default:
		return false
	}
	if !m.declares() {
		undeclared(w, m)
		return true
	}
	if m.Method == "subscriptions/listen" {
		s.listenTasks(w, r, m)
		return true
	}
	s.asked(r, m, modernVersion, m.Params.TaskID)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[m.Params.TaskID]
	if t == nil {
		reject(w, http.StatusOK, m, codeInvalidParams, "Task not found")
		return true
	}
	if m.Method == "tasks/get" {
		answer(w, m, t.state("complete"))
		return true
	}
	t.update(m)
	answer(w, m, map[string]any{"resultType": "complete"})
	return true
}

// listenTasks sends the state of tasks whenever their status changes, until the client leaves.
func (s *Server) listenTasks(w http.ResponseWriter, r *http.Request, m *request) {
	x := &execution{w: w, r: r, m: m, version: modernVersion}
	notify := func(method string, params map[string]any) {
		params["_meta"] = map[string]any{"io.modelcontextprotocol/subscriptionId": m.ID}
		x.event(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	}
	said := make(map[string]any)
	look := func() (changed []map[string]any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range m.Params.Notifications.TaskIDs {
			if t := s.tasks[id]; t != nil {
				if state := t.state(""); state["status"] != said[id] {
					said[id], changed = state["status"], append(changed, state)
				}
			}
		}
		return changed
	}
	look()
	known := slices.DeleteFunc(slices.Clone(m.Params.Notifications.TaskIDs), func(id string) bool { return said[id] == nil })
	notify("notifications/subscriptions/acknowledged", map[string]any{"notifications": map[string]any{"taskIds": known}})
	ticker := time.NewTicker(listenEach)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		for _, state := range look() {
			notify("notifications/tasks", state)
		}
	}
}
