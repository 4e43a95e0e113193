package toolserver

import (
	"crypto/rand"
	"encoding/json"
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

// task is what a call of the tool work goes on as.
type task struct {
	id                   string
	began, ends, changed time.Time
	cancelled, asks      bool
	// inputs is what was given.
	inputs json.RawMessage
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

// work waits as long as the call says: in a task where the client takes one.
func (x *execution) work() {
	switch {
	case x.version == modernVersion && x.m.declares():
		x.result(x.server.begin(x.args.WaitMS, x.args.Ask).state("task"))
	case x.version == modernVersion && x.args.Only:
		undeclared(x.w, x.m)
	case x.wait():
		x.text("worked at once")
	}
}

// begin makes a task.
func (s *Server) begin(waitMS int, asks bool) *task {
	now := time.Now()
	t := &task{id: rand.Text(), began: now, changed: now, ends: now.Add(min(time.Duration(waitMS)*time.Millisecond, maxWait)), asks: asks}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) >= maxTasks {
		clear(s.tasks)
	}
	s.tasks[t.id] = t
	return t
}

// state returns a task as the protocol has it. Callers other than begin hold the mutex.
func (t *task) state(kind string) map[string]any {
	state := map[string]any{
		"taskId": t.id, "status": "working", "createdAt": t.began.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.changed.UTC().Format(time.RFC3339Nano),
		"ttlMs": time.Hour.Milliseconds(), "pollIntervalMs": pollMS,
	}
	if kind != "" {
		state["resultType"] = kind
	}
	switch {
	case t.cancelled:
		state["status"] = "cancelled"
	case t.asks && t.inputs == nil:
		state["status"] = "input_required"
		if kind != "task" {
			state["inputRequests"] = map[string]any{"name": askName()}
		}
	case kind != "task" && !time.Now().Before(t.ends):
		state["status"] = "completed"
		text := "worked"
		if t.inputs != nil {
			text += " with " + string(t.inputs)
		}
		state["result"] = map[string]any{"resultType": "complete", "content": []any{map[string]string{"type": "text", "text": text}}}
	}
	return state
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
	if final := t.cancelled || !t.asks && !time.Now().Before(t.ends); !final {
		if t.changed = time.Now(); m.Method == "tasks/cancel" {
			t.cancelled = true
		} else if t.asks && t.inputs == nil {
			t.inputs = m.Params.InputResponses
		}
	}
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
