package toolcall

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// tasks are the tasks of a world's servers.
type tasks struct {
	// answer answers a query, and queries is what was asked.
	answer  func(q *upstream.TaskQuery) (*task.Task, error)
	queries []*upstream.TaskQuery
	follow  func(ctx context.Context, f *upstream.TaskFollow) error
}

func (w *world) Task(ctx context.Context, _ *toolserver.Server, q *upstream.TaskQuery) (*task.Task, error) {
	w.step("task")
	w.mu.Lock()
	w.tasks.queries = append(w.tasks.queries, q)
	w.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return w.tasks.answer(q)
}

func (w *world) FollowTasks(ctx context.Context, _ *toolserver.Server, f *upstream.TaskFollow) error {
	return w.tasks.follow(ctx, f)
}

// taskOf returns a task as a server describes it.
func taskOf(tb testing.TB, status, more string) *task.Task {
	tb.Helper()
	t, err := task.Read([]byte(`{"taskId":"theirs","status":"`+status+`","createdAt":"2026-11-25T10:30:00Z","lastUpdatedAt":"2026-11-25T10:30:00Z","ttlMs":1000`+more+`}`), true)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

const tasksDeclared = `{"elicitation":{},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// taskClient is a client that takes tasks.
func taskClient() Client { return Client{Capabilities: json.RawMessage(tasksDeclared), Tasks: true} }

// working returns a Caller of a world whose calls become tasks.
func working(tb testing.TB) (*Caller, *world) {
	tb.Helper()
	_, w := open(tb)
	w.servers[0].Features = []toolserver.Feature{toolserver.FeatureTools, toolserver.FeatureTasks}
	w.answer = func(_ context.Context, call *upstream.Call) (upstream.Result, error) {
		if !strings.Contains(string(call.Capabilities), wire.ExtensionTasks) {
			return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"content":[]}`)}, nil
		}
		return upstream.Result{Kind: upstream.KindTask, Task: taskOf(tb, "working", "")}, nil
	}
	w.tasks.answer = func(q *upstream.TaskQuery) (*task.Task, error) {
		if q.Method != wire.MethodGetTask {
			return nil, nil
		}
		return taskOf(tb, "completed", `,"result":{"content":[{"type":"text","text":"done"}]}`), nil
	}
	return w.replica(tb), w
}

// replica returns a Caller that seals what callers keep, as every other one does.
func (w *world) replica(tb testing.TB) *Caller {
	tb.Helper()
	c := w.caller(tb)
	seals(tb, c)
	return c
}

// becomesTask makes a call that becomes a task, and returns the caller's id of it.
func becomesTask(tb testing.TB, c *Caller) string {
	tb.Helper()
	r := request(read, `{"n":1}`)
	r.Client = taskClient()
	answer, err := c.Call(tb.Context(), r)
	id := gjson.GetBytes(answer.Text, "taskId").Str
	if err != nil || id == "" || gjson.GetBytes(answer.Text, "resultType").Str != "task" {
		tb.Fatalf("%s, %v", answer.Text, err)
	}
	return id
}

func taskRequest(method, id string) *TaskRequest {
	return &TaskRequest{Asker: request(read, "").Asker, Method: method, ID: id, Client: taskClient()}
}
