package toolcall

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	oteltrace "go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
)

// taskViewer is a caller to whom a task of a server is shown, under the policy of the moment.
type taskViewer struct {
	caller       *Caller
	asker        *Asker
	server       *toolserver.Server
	handle       *task.Handle
	policy       Policy
	capabilities json.RawMessage
}

// offered returns the capabilities that the server is shown. Samplings are for callers alone: the gateway answers none of
// a task, which no request of the caller waits for.
func (v *taskViewer) offered() json.RawMessage {
	sampling := v.policy.Rules.Sampling(v.server.ID).By == toolrule.SamplingByClient
	return input.Offered(v.capabilities, input.Offer{Elicitation: true, Roots: true, Sampling: sampling, SamplingTools: sampling, Tasks: true})
}

// asked returns what the server asks for and the caller may be asked. The rest is left out: the task waits for it, as
// nothing else can answer.
func (v *taskViewer) asked(t *task.Task) ([]input.Request, error) {
	if t.Status != task.InputRequired {
		return nil, nil
	}
	all, err := input.Read(t.Inputs)
	if err != nil {
		return nil, refusedInput(err)
	}
	offered, screen := v.offered(), v.policy.Screen(v.server)
	shown := make([]input.Request, 0, len(all))
	for i := range all {
		if !all[i].Able(offered) {
			continue
		}
		if one, err := all[i].Screen(screen); err == nil {
			shown = append(shown, one)
		}
	}
	return shown, nil
}

// show returns a task as its caller gets it. The end of a task is recorded.
func (v *taskViewer) show(ctx context.Context, t *task.Task, shown *task.Shown) (json.RawMessage, error) {
	asked, err := v.asked(t)
	if err != nil {
		return nil, err
	}
	if t.Status == task.InputRequired {
		shown.Inputs = input.Encode(asked)
	}
	if t.Status.Final() && v.caller.Recorder != nil {
		v.record(ctx, t)
	}
	return t.Append(nil, shown), nil
}

// maxFinished is how many tasks are known whose end was recorded. Beyond it, the store knows them.
const maxFinished = 4096

// finished are the calls whose tasks' ends were recorded. Safe for concurrent use.
type finished struct {
	mu    sync.Mutex
	calls *simplelru.LRU[string, struct{}]
}

func newFinished() *finished {
	calls, _ := simplelru.NewLRU[string, struct{}](maxFinished, nil) // It fails for a size below 1 only.
	return &finished{calls: calls}
}

// first reports whether the end of a call's task was not recorded before.
func (f *finished) first(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls.Contains(call) {
		return false
	}
	f.calls.Add(call, struct{}{})
	return true
}

// record records the end of a task. Its id is made of the call's, so that every replica records the same one.
func (v *taskViewer) record(ctx context.Context, t *task.Task) {
	call, err := uuid.Parse(v.handle.Call)
	if err != nil || !v.caller.finished.first(v.handle.Call) {
		return
	}
	keep, ok := v.caller.Recorder.Observe(v.asker.Organization)
	if !ok {
		return
	}
	now := time.Now()
	o := &trace.Observation{
		ID: uuid.NewSHA1(call, []byte("the end of its task")), Started: now, Ended: now, Keep: keep, Policy: v.policy.Version, Status: trace.StatusOK,
		Request: trace.Request{
			ID: v.asker.RequestID, Organization: v.asker.Organization, Key: v.asker.Key, Service: v.asker.Service, Run: v.asker.Run, Tools: 1,
			Route: routing.Request{
				Operation: ledger.OperationTool, Organization: v.asker.Organization, Provider: Provider(v.server.ID), Model: v.handle.Tool,
			},
		},
	}
	if span := oteltrace.SpanContextFromContext(ctx); span.HasTraceID() {
		o.TraceID = span.TraceID().String()
	}
	if body, err := jsontext.Marshal(captured{Server: v.server.ID, Tool: v.handle.Tool, Call: v.handle.Request}); err == nil {
		o.Request.Raw = trace.RawRequest{Form: Form, Body: body}
	}
	switch {
	case t.Error != nil:
		o.Status, o.Err = trace.StatusFailed, shown(t.Error)
	case t.Status == task.Cancelled:
		o.Status = trace.StatusCancelled
	case t.Result != nil:
		o.Answer, o.AnswerBytes = &trace.Answer{Written: t.Result}, len(t.Result)
	}
	v.caller.Recorder.Record(context.WithoutCancel(ctx), o)
}
