package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
)

// A call that becomes a task is billed once. Its caller reads the task's end, under an id of the gateway; the end is
// recorded once.
func TestTask(t *testing.T) {
	c, w := working(t)
	id := becomesTask(t, c)
	if strings.Contains(id, "theirs") || len(w.rows) != 1 || w.rows[0].Outcome != ledger.OutcomeCompleted || w.rows[0].Cost != 7e9 {
		t.Errorf("%s, rows %+v", id, w.rows)
	}
	for range 3 {
		answer, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
		if err != nil || gjson.GetBytes(answer.Text, "taskId").Str != id || gjson.GetBytes(answer.Text, "result.content.0.text").Str != "done" || gjson.GetBytes(answer.Text, "resultType").Str != "complete" {
			t.Fatalf("%s, %v", answer.Text, err)
		}
	}
	for _, method := range []string{wire.MethodUpdateTask, wire.MethodCancelTask} {
		r := taskRequest(method, id)
		r.Client.Inputs = json.RawMessage(`{"unasked":{}}`)
		if answer, err := c.Task(t.Context(), r); err != nil || string(answer.Text) != `{"resultType":"complete"}` {
			t.Errorf("%s: %s, %v", method, answer.Text, err)
		}
	}
	if len(w.rows) != 1 || len(w.sent) != 1 {
		t.Errorf("billed %d, called %d", len(w.rows), len(w.sent))
	}
	var asked []string
	for _, q := range w.tasks.queries {
		asked = append(asked, q.Method)
		if q.ID != "theirs" || q.Organization != "acme" || !strings.Contains(string(q.Capabilities), wire.ExtensionTasks) {
			t.Errorf("%+v", q)
		}
	}
	if want := []string{wire.MethodGetTask, wire.MethodGetTask, wire.MethodGetTask, wire.MethodGetTask, wire.MethodCancelTask}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if len(w.records) != 2 || string(w.records[1].Answer.Written) != `{"content":[{"type":"text","text":"done"}]}` || w.records[1].Report != nil || w.records[1].ID == w.records[0].ID {
		t.Errorf("%d records", len(w.records))
	}
	again := w.replica(t)
	if _, err := again.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); err != nil || len(w.records) != 3 || w.records[2].ID != w.records[1].ID {
		t.Errorf("%v: another replica records the end as another one", err)
	}
}

// The approval of a call is used up when the call becomes a task, which needs none.
func TestTaskOfAnApprovedCall(t *testing.T) {
	_, w := working(t)
	w.approvals = &approvals{world: w, state: approval.Claimed}
	w.rule(toolrule.Rule{Approval: true, Approvers: "ops"})
	c := w.replica(t)
	id := becomesTask(t, c)
	if w.approvals.sent != 1 || !slices.Equal(w.approvals.settled, []approval.State{approval.Done}) {
		t.Errorf("sent %d, settled %v", w.approvals.sent, w.approvals.settled)
	}
	if _, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); err != nil || len(w.approvals.asked) != 1 {
		t.Errorf("%v, asked %d times", err, len(w.approvals.asked))
	}
}

// Every end of a task is recorded, and what changes afterwards is not.
func TestEndsOfTasks(t *testing.T) {
	for status, want := range map[string]struct {
		more   string
		status trace.Status
	}{
		"completed": {`,"result":{"content":[]}`, trace.StatusOK},
		"failed":    {`,"error":{"code":-32603,"message":"their text"}`, trace.StatusFailed},
		"cancelled": {"", trace.StatusCancelled},
	} {
		c, w := working(t)
		id := becomesTask(t, c)
		for _, now := range []struct{ status, more string }{{"working", ""}, {status, want.more}, {"working", ""}, {"completed", `,"result":{"content":[1]}`}} {
			w.tasks.answer = func(*upstream.TaskQuery) (*task.Task, error) { return taskOf(t, now.status, now.more), nil }
			answer, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
			if err != nil || gjson.GetBytes(answer.Text, "status").Str != now.status {
				t.Errorf("%s: %s, %v", now.status, answer.Text, err)
			}
		}
		if len(w.records) != 2 || w.records[1].Status != want.status || w.records[1].Err != nil && strings.Contains(w.records[1].Err.Error(), "their text") {
			t.Errorf("%s: %d records, %+v", status, len(w.records), w.records[len(w.records)-1])
		}
	}
}

// A task is its caller's alone. All ids that aren't are refused alike, before anything is sent.
func TestTasksOfOthers(t *testing.T) {
	c, w := working(t)
	id := becomesTask(t, c)
	for name, change := range map[string]func(r *TaskRequest){
		"another organization": func(r *TaskRequest) { r.Organization = "other" },
		"another key":          func(r *TaskRequest) { r.Key = "k2" },
		"another service":      func(r *TaskRequest) { r.Service = "other" },
		"another user":         func(r *TaskRequest) { r.User = "bob" },
		"another run":          func(r *TaskRequest) { r.Run = "run-2" },
		"no run":               func(r *TaskRequest) { r.Run = "" },
		"another path":         func(r *TaskRequest) { r.Server = "other" },
		"the server's id":      func(r *TaskRequest) { r.ID = "theirs" },
		"no id":                func(r *TaskRequest) { r.ID = "" },
		"a changed id":         func(r *TaskRequest) { r.ID = id[:len(id)-2] + "AA" },
		"a cut id":             func(r *TaskRequest) { r.ID = id[:len(id)-4] },
		"a long id":            func(r *TaskRequest) { r.ID = strings.Repeat("a", task.MaxHandle+1) },
		"another address":      func(*TaskRequest) { w.servers[0].URL = "https://elsewhere.example" },
		"no server":            func(*TaskRequest) { w.servers = nil },
	} {
		servers, at := w.servers, w.servers[0].URL
		for _, method := range []string{wire.MethodGetTask, wire.MethodUpdateTask, wire.MethodCancelTask} {
			r := taskRequest(method, id)
			change(r)
			if _, err := c.Task(t.Context(), r); !errors.Is(err, ErrTaskUnknown) {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
		w.servers = servers
		w.servers[0].URL = at
	}
	if len(w.tasks.queries) > 0 {
		t.Errorf("sent %+v", w.tasks.queries[0])
	}
	if _, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); err != nil {
		t.Error(err)
	}
	if _, err := w.caller(t).Task(t.Context(), taskRequest(wire.MethodGetTask, id)); !errors.Is(err, ErrTaskUnknown) {
		t.Errorf("without keys: %v", err)
	}
}

// An id is of use for a day.
func TestTaskExpires(t *testing.T) {
	c, w := working(t)
	synctest.Test(t, func(t *testing.T) {
		id := becomesTask(t, c)
		time.Sleep(task.Life - time.Second)
		if _, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); !errors.Is(err, ErrTaskUnknown) {
			t.Error(err)
		}
	})
	if len(w.tasks.queries) != 1 {
		t.Errorf("asked %d times", len(w.tasks.queries))
	}
}

// Each check of a call is one of requests about its task, too.
func TestTaskChecks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		reason apierr.Reason
	}{
		"suspension":        {func(w *world) { w.refused = denied("org_suspended", "suspended") }, "org_suspended"},
		"the run's tools":   {func(w *world) { w.grant.Run = &run.Run{Limits: run.Limits{AllowedTools: []string{"files/write"}}} }, run.ReasonToolNotAllowed},
		"trust":             {(*world).distrust, ReasonUntrusted},
		"levels are away":   {func(w *world) { w.stale = errors.New("old") }, apierr.ReasonUnavailable},
		"a rule":            {func(w *world) { w.rule(toolrule.Rule{Tools: []string{"read"}, Deny: true}) }, toolrule.ReasonDenied},
		"a run is demanded": {func(w *world) { w.rule(toolrule.Rule{MinimumTrust: trust.FirstParty}) }, ReasonUntrusted},
		"the tool is gone":  {func(w *world) { w.tools[w.servers[0].Key()][0].Present = false }, definition.ErrToolNotFound.Reason},
		"back in review": {func(w *world) {
			files := w.servers[0]
			before, now := tool(files, "other"), tool(files, "other")
			before.Digest[31], before.Present, now.Status = 1, false, definition.Pending
			w.tools[files.Key()] = append(w.tools[files.Key()], before, now)
		}, definition.ErrChanged.Reason},
		"another definition": {func(w *world) { w.tools[w.servers[0].Key()][0].Digest[31] = 9 }, definition.ErrChanged.Reason},
		"no tasks any more":  {func(w *world) { w.servers[0].Features = nil }, ReasonNotOffered},
		"the server's limit": {func(w *world) { w.servers[0].PerMinute = 1 }, apierr.ReasonRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			caller, w := working(t)
			id := becomesTask(t, caller)
			if c.change(w); c.reason == apierr.ReasonRateLimited {
				if _, err := caller.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); err != nil {
					t.Fatal(err)
				}
				w.tasks.queries = nil
			}
			for _, method := range []string{wire.MethodGetTask, wire.MethodUpdateTask, wire.MethodCancelTask} {
				_, err := caller.Task(t.Context(), taskRequest(method, id))
				wants(t, err, c.reason)
			}
			if len(w.tasks.queries) > 0 {
				t.Errorf("sent %+v", w.tasks.queries[0])
			}
		})
	}
}

// What a server says of a task that it doesn't know says nothing of its own id; the rest is as for calls.
func TestTaskErrors(t *testing.T) {
	c, w := working(t)
	id := becomesTask(t, c)
	for _, test := range []struct {
		err    error
		reason apierr.Reason
	}{
		{&wire.Error{Code: wire.CodeInvalidParams, Message: "no task theirs"}, ErrTaskUnknown.Reason},
		{&upstream.Error{Cause: upstream.CauseUnreachable, Text: "refused"}, apierr.ReasonUnavailable},
		{&upstream.Error{Cause: upstream.CauseUnauthorized, Text: "no token"}, ReasonUnauthorized},
		{&upstream.Error{Cause: upstream.CauseTimeout, Text: "late", Sent: true}, apierr.ReasonUnavailable},
		{&upstream.Error{Cause: upstream.CauseTooLarge, Text: "17 MiB", Sent: true}, apierr.ReasonUnavailable},
	} {
		w.tasks.answer = func(*upstream.TaskQuery) (*task.Task, error) { return nil, test.err }
		_, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
		wants(t, err, test.reason)
		if strings.Contains(apierr.From(err).Text, "theirs") {
			t.Errorf("shows %v", err)
		}
	}
	w.tasks.answer = func(*upstream.TaskQuery) (*task.Task, error) {
		return nil, &wire.Error{Code: -32603, Message: "their text"}
	}
	if _, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id)); wireCode(err) != -32603 {
		t.Error(err)
	}
	w.tasks.answer = func(*upstream.TaskQuery) (*task.Task, error) { panic("a bug") }
	_, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
	wants(t, err, apierr.ReasonUnavailable)
}

func wireCode(err error) int64 {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return 0
}

// A task is offered to those alone who can use it.
func TestTasksAreOffered(t *testing.T) {
	for name, change := range map[string]func(c *Caller, w *world, r *Request){
		"undeclared":      func(_ *Caller, _ *world, r *Request) { r.Client = Client{} },
		"not registered":  func(_ *Caller, w *world, _ *Request) { w.servers[0].Features = nil },
		"nothing to seal": func(c *Caller, _ *world, _ *Request) { c.Tickets = nil },
		"an older client": func(_ *Caller, _ *world, r *Request) { r.Client.Tasks = false },
	} {
		c, w := working(t)
		r := request(read, "")
		r.Client = taskClient()
		change(c, w, r)
		answer, err := c.Call(t.Context(), r)
		if err != nil || answer.Kind != upstream.KindComplete || strings.Contains(string(w.sent[0].Capabilities), wire.ExtensionTasks) {
			t.Errorf("%s: %s, %v, with %s", name, answer.Text, err, w.sent[0].Capabilities)
		}
	}
	c, w := working(t)
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		long := taskOf(t, "working", "")
		long.ID = strings.Repeat("\x01", task.MaxID)
		return upstream.Result{Kind: upstream.KindTask, Task: long}, nil
	}
	r := request(read, "")
	r.Client = taskClient()
	if _, err := c.Call(t.Context(), r); err == nil || apierr.From(err).Text != errTaskLost.Text || len(w.rows) != 1 {
		t.Errorf("an id that can't be sealed: %v, %d rows", err, len(w.rows))
	}
}
