package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

const tasksCapability = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// taskOf returns a task's members.
func taskOf(kind, id, status, more string) string {
	return fmt.Sprintf(`{"resultType":%q,"taskId":%q,"status":%q,"createdAt":"2026-11-25T10:30:00Z","lastUpdatedAt":"2026-11-25T10:30:00Z","ttlMs":60000%s}`, kind, id, status, more)
}

// A call may be answered with a task where that was offered; then the task is asked for by the server's own id.
func TestTask(t *testing.T) {
	var seen []string
	server, c := serve(t, stub(func(w http.ResponseWriter, r *http.Request, m asked) {
		seen = append(seen, fmt.Sprintf("%s %s %s", m.Method, r.Header.Get("Mcp-Name"), m.Params.Meta[wire.MetaCapabilities]))
		switch m.Method {
		case wire.MethodCallTool:
			document(w, m, `"result":`+taskOf("task", "t 1ä", "working", ``))
		case wire.MethodGetTask:
			document(w, m, `"result":`+taskOf("complete", "t 1ä", "completed", `,"result":{"content":[{"type":"text","text":"done"}],"isError":true}`))
		default:
			document(w, m, `"result":{"resultType":"complete"}`)
		}
	}), nil)
	called, err := c.Call(t.Context(), server, &upstream.Call{Organization: "acme", Tool: "a", Capabilities: []byte(tasksCapability)})
	if err != nil || called.Kind != upstream.KindTask || called.Task.ID != "t 1ä" || called.Task.Status != task.Working {
		t.Fatalf("%+v, %v", called, err)
	}
	q := &upstream.TaskQuery{Organization: "acme", Method: wire.MethodGetTask, ID: called.Task.ID, Capabilities: []byte(tasksCapability)}
	got, err := c.Task(t.Context(), server, q)
	if err != nil || got.Status != task.Completed || !strings.Contains(string(got.Result), "done") {
		t.Errorf("%+v, %v", got, err)
	}
	for _, method := range []string{wire.MethodUpdateTask, wire.MethodCancelTask} {
		q.Method = method
		if got, err := c.Task(t.Context(), server, q); err != nil || got != nil {
			t.Errorf("%s: %+v, %v", method, got, err)
		}
	}
	name := wire.EncodeHeader("t 1ä")
	want := []string{
		"tools/call a " + tasksCapability, "tasks/get " + name + " " + tasksCapability,
		"tasks/update " + name + " " + tasksCapability, "tasks/cancel " + name + " " + tasksCapability,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("sent %q, want %q", seen, want)
	}
	if called, err := c.Call(t.Context(), server, &upstream.Call{Organization: "acme", Tool: "a"}); err == nil {
		t.Errorf("a task that was not offered: %+v", called)
	}
}

// What is no task of the extension is refused as a whole.
func TestHostileTasks(t *testing.T) {
	get := wire.MethodGetTask
	for name, c := range map[string]struct {
		method, answer string
		cause          upstream.Cause
	}{
		"a negative ttl":       {get, `"result":` + strings.Replace(taskOf("complete", "t1", "working", ``), "60000", "-1", 1), upstream.CauseProtocol},
		"another id":           {get, `"result":` + taskOf("complete", "t2", "working", ``), upstream.CauseProtocol},
		"another kind":         {get, `"result":` + taskOf("input_required", "t1", "working", ``), upstream.CauseProtocol},
		"no contents":          {get, `"result":` + taskOf("complete", "t1", "completed", `,"result":{"content":1}`), upstream.CauseProtocol},
		"a task in a task":     {get, `"result":` + taskOf("complete", "t1", "completed", `,"result":`+taskOf("task", "t3", "working", ``)), upstream.CauseProtocol},
		"no result":            {get, `"result":` + taskOf("complete", "t1", "completed", ``), upstream.CauseProtocol},
		"no error":             {get, `"result":` + taskOf("complete", "t1", "failed", `,"error":{"message":"x"}`), upstream.CauseProtocol},
		"an update that works": {wire.MethodUpdateTask, `"result":` + taskOf("task", "t1", "working", ``), upstream.CauseProtocol},
		"17 MiB":               {get, `"result":` + taskOf("complete", "t1", "completed", `,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 17<<20)+`"}]}`), upstream.CauseTooLarge},
	} {
		server, client := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, c.answer) }), nil)
		got, err := client.Task(t.Context(), server, &upstream.TaskQuery{Organization: "acme", Method: c.method, ID: "t1"})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != c.cause || !e.Sent {
			t.Errorf("%s: %+v, %v, want %s", name, got, err, c.cause)
		}
	}
	for name, answer := range map[string]string{"no id": `{"resultType":"task"}`, "no ttl that is one": strings.Replace(taskOf("task", "t1", "working", ``), "60000", `"1"`, 1)} {
		server, client := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, `"result":`+answer) }), nil)
		if got, err := client.Call(t.Context(), server, &upstream.Call{Organization: "acme", Tool: "a", Capabilities: []byte(tasksCapability)}); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A server of sessions has no such tasks, and an error of the protocol is the server's own.
func TestTasksOfOthers(t *testing.T) {
	server, c := serve(t, legacyStub(func(_ http.ResponseWriter, _ *http.Request, m asked) {
		t.Errorf("a server of sessions is asked: %s", m.Method)
	}), nil)
	q := &upstream.TaskQuery{Organization: "acme", Method: wire.MethodGetTask, ID: "t1"}
	if _, err := c.Task(t.Context(), server, q); err == nil {
		t.Error("a task of a server of sessions")
	}
	server, c = serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
		document(w, m, `"error":{"code":-32602,"message":"no such task"}`)
	}), nil)
	if err, ok := errors.AsType[*wire.Error](second(c.Task(t.Context(), server, q))); !ok || err.Code != wire.CodeInvalidParams {
		t.Errorf("%v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// Notices count behind the acknowledgement, for tasks that are followed, if they are tasks.
func TestFollowTasks(t *testing.T) {
	server, c := serve(t, stub(func(w http.ResponseWriter, r *http.Request, m asked) {
		changed := func(id, status, more string) string {
			return `{"jsonrpc":"2.0","method":"notifications/tasks","params":` + taskOf("", id, status, more) + `}`
		}
		stream(w, changed("t1", "working", ``),
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["t1","t2","t9"]}}}`,
			changed("t9", "working", ``), changed("t1", "completed", ``), changed("t1", "completed", `,"result":{"content":[]}`),
			changed("t1", "submitted", ``), `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":1}}`, changed("t2", "cancelled", ``))
		<-r.Context().Done()
	}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	err := c.FollowTasks(ctx, server, &upstream.TaskFollow{
		Organization: "acme", IDs: []string{"t1", "t2", "t3"}, Capabilities: []byte(tasksCapability),
		Begun: func(ids []string) { got = append(got, fmt.Sprint(ids)) },
		Changed: func(of *task.Task) {
			if got = append(got, of.ID+" "+string(of.Status)); of.ID == "t2" {
				cancel()
			}
		},
	})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCanceled || !slices.Equal(got, []string{"[t1 t2]", "t1 completed", "t2 cancelled"}) {
		t.Errorf("%v, %v", got, err)
	}
}
