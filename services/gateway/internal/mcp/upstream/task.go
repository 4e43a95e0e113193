package upstream

import (
	"cmp"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// TaskQuery is a request about a task.
type TaskQuery struct {
	// Organization is the one that asks. Organizations share no session.
	Organization string
	// Method is wire.MethodGetTask, wire.MethodUpdateTask or wire.MethodCancelTask.
	Method string
	// ID is the server's own id of the task.
	ID string
	// Inputs are the answers to what the server asks for, an object; for an update alone.
	Inputs json.RawMessage
	// Capabilities are what the caller can do in answer to the server, an object that has wire.ExtensionTasks.
	Capabilities json.RawMessage
}

// errNoTasks is the error of a server of an older revision, which has no tasks.
var errNoTasks = &Error{Cause: CauseRefused, Text: "the server's version has no such tasks"}

// Errors of answers about tasks.
var (
	errOtherTask = protocol("the server answered about another task")
	errTaskKind  = protocol("the server's answer about a task is not complete")
)

// noTask returns the error of a server's task that breaks a rule.
func noTask(err error) *Error {
	e := protocol("the server's task breaks a rule: " + err.Error())
	e.Err = err
	return e
}

// Task asks about a task, once. It returns the task of wire.MethodGetTask, and nil for the other methods. The errors are
// those of Call. The answer is charged to the memory.Hold of ctx.
func (c *Client) Task(ctx context.Context, server *toolserver.Server, q *TaskQuery) (*task.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, min(cmp.Or(server.Timeout, defaultTimeout), controlTime))
	defer cancel()
	ctx, span := c.startSpan(ctx, server, q.Method, []attribute.KeyValue{attribute.String("mcp.method.name", q.Method)})
	t, failed := (*task.Task)(nil), false
	p, err := c.peer(ctx, server, q.Organization, nil)
	if err == nil {
		var got response
		_, got, err = c.do(ctx, p, func() *conversation { return &conversation{} }, func(s *session) (*request, error) {
			if !s.modern {
				return nil, errNoTasks
			}
			r := c.taskRequest(s, q, traceparent(ctx, span))
			annotate(span, s, r)
			return r, nil
		})
		if err == nil {
			t, failed, err = readTask(q, got.result)
		}
	}
	finish(span, Result{IsError: failed}, err)
	return t, err
}

// taskRequest returns the request of a query.
func (c *Client) taskRequest(s *session, q *TaskQuery, span string) *request {
	var params object
	params.add("taskId", jsontext.AppendText(nil, q.ID))
	if q.Method == wire.MethodUpdateTask {
		params.add("inputResponses", orEmpty(q.Inputs))
	}
	r := c.newRequest(s, q.Method, params, about{capabilities: q.Capabilities, span: span})
	r.name = q.ID
	return r
}

// readTask reads the answer to a query. failed reports that the task's tool has failed.
func readTask(q *TaskQuery, text json.RawMessage) (t *task.Task, failed bool, err error) {
	kind := wire.ResultComplete
	wire.Members(text, func(name string, value []byte) bool {
		if name == "resultType" {
			kind, _ = wire.Text(value)
		}
		return true
	})
	if q.Method != wire.MethodGetTask {
		if kind != wire.ResultComplete {
			return nil, false, errTaskKind
		}
		return nil, false, nil
	}
	// Examples of the extension have "task" here, which says the same.
	if kind != wire.ResultComplete && kind != wire.ResultTask {
		return nil, false, errTaskKind
	}
	return readWhole(text, q.ID)
}

// readWhole reads a task of an id with its result.
func readWhole(text json.RawMessage, id string) (t *task.Task, failed bool, err error) {
	if t, err = task.Read(text, true); err != nil {
		return nil, false, noTask(err)
	}
	if t.ID != id {
		return nil, false, errOtherTask
	}
	if t.Result != nil {
		failed, err = checkResult(t.Result)
	}
	if err != nil {
		return nil, false, err
	}
	return t, failed, nil
}

// checkResult checks the result of a task as that of a call is. It reports whether the tool has failed.
func checkResult(text json.RawMessage) (failed bool, err error) {
	r, err := readResult(&session{modern: true}, text, nil)
	if err == nil && r.Kind != KindComplete {
		err = errKind
	}
	return r.IsError, err
}
