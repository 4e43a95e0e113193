package toolcall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// TaskRequest is one request about a task. Who makes it must have made the call that became the task.
type TaskRequest struct {
	Asker
	// Server is the one of the path; empty for all.
	Server string
	// Method is wire.MethodGetTask, wire.MethodUpdateTask or wire.MethodCancelTask.
	Method string
	// ID is the caller's id of the task.
	ID string
	// Client has the answers of an update.
	Client Client
}

// Errors of requests about tasks.
var (
	// ErrTaskUnknown is the error of an id that is none, of another caller's task, and of one that has expired.
	ErrTaskUnknown = apierr.Invalid("params.taskId", "is no task of this caller")

	errTaskAway = apierr.Unavailable("the server gave no answer about the task; it may be asked again", nil)
	errTaskLost = &apierr.Error{
		Kind: apierr.KindUpstream, Reason: apierr.ReasonUnavailable, Class: apierr.ClassServerError,
		Text: "the call was made and goes on as a task, of which the gateway can give no id",
	}
)

// principalOf returns who may use what a caller is given.
func principalOf(a *Asker) task.Principal {
	return task.Principal{Key: cmp.Or(a.KeyTerms.Key, a.Key), Service: a.Service, User: a.User, Run: a.Run}
}

// placeOf identifies where a server is.
func placeOf(s *toolserver.Server) string {
	sum := sha256.Sum256([]byte(s.URL + "\x00" + s.Command))
	return hex.EncodeToString(sum[:8])
}

// takesTask reports whether the call may be answered with a task.
func (x *execution) takesTask() bool {
	return x.method == wire.MethodCallTool && x.request.Client.Tasks && x.caller.seals() && x.server.Offers(toolserver.FeatureTasks)
}

// keepTask gives the task that a call has become another id, which only its caller can use.
func (x *execution) keepTask(result *upstream.Result) error {
	h := task.Handle{
		Server: x.server.ID, Owner: x.server.Organization, Place: placeOf(x.server), ID: result.Task.ID,
		Tool: x.tool, Definition: x.definition.Digest.String(), Of: principalOf(&x.request.Asker), Call: x.id.String(), Request: x.request.RequestID,
	}
	id, err := h.Seal(x.caller.Tickets, x.request.Organization, time.Now())
	if err != nil {
		*result = upstream.Result{}
		return errTaskLost.Wrap(err)
	}
	result.Text = result.Task.Append(nil, &task.Shown{Kind: wire.ResultTask, ID: id})
	return nil
}

// taskTurn is one request about a task under way.
type taskTurn struct {
	execution

	of     *TaskRequest
	handle *task.Handle
}

// Task makes a request about a task, if every check lets it pass. Nothing is billed: the call was. The error is an
// *apierr.Error, or a *wire.Error where the server answered with an error of the protocol.
func (c *Caller) Task(ctx context.Context, r *TaskRequest) (Answer, error) {
	x := taskTurn{of: r, execution: execution{
		caller: c, request: &Request{Asker: r.Asker, Client: r.Client}, started: time.Now(), hold: c.Memory.Open(r.Organization, maxAnswer),
	}}
	result, err := x.serve(ctx)
	x.release(ctx)
	if x.booked != nil && x.sent {
		x.booked.Settle(0)
	} else if x.booked != nil {
		x.booked.Cancel()
	}
	if x.grant != nil {
		x.grant.End(false)
	}
	c.After(ctx, x.hold.Close)
	return Answer{result, x.serverID(), x.tool}, err
}

// serve makes the checks in their order, then the request.
func (x *taskTurn) serve(ctx context.Context) (upstream.Result, error) {
	var err error
	if x.handle, x.entry, err = x.caller.openTask(&x.of.Asker, x.of.Server, x.of.ID); err != nil {
		return upstream.Result{}, err
	}
	x.server, x.tool = &x.entry.Server, x.handle.Tool
	x.caller.Listings.Used(x.server.Key())
	x.policy = x.caller.Policy()
	if x.grant, err = x.caller.Admission.Admit(memory.NewContext(ctx, x.hold), x.of.Organization, x.of.Run, x.of.KeyTerms); err != nil {
		return upstream.Result{}, err
	}
	ctx = x.grant.Context()
	f := facts{authority: x.grant.Terms().Run, entry: x.entry}
	if err := x.allow(ctx, &f); err != nil {
		return upstream.Result{}, err
	}
	if x.booked, err = x.caller.Limits.TryReserve(ctx, demand(x.of.Organization, x.server)); err != nil {
		return upstream.Result{}, refusedByLimit(err)
	}
	if err := x.acquire(ctx); err != nil {
		return upstream.Result{}, err
	}
	switch x.of.Method {
	case wire.MethodUpdateTask:
		return x.update(ctx)
	case wire.MethodCancelTask:
		_, err := x.query(ctx, wire.MethodCancelTask, nil)
		return acknowledged(), err
	}
	return x.get(ctx)
}

// openTask returns what an id holds and the server of its task. The error is ErrTaskUnknown, whatever is wrong.
func (c *Caller) openTask(a *Asker, server, id string) (*task.Handle, *definition.Entry, error) {
	if !c.seals() {
		return nil, nil, ErrTaskUnknown
	}
	h, _, err := task.Open(c.Tickets, a.Organization, id)
	if err != nil || h.Of != principalOf(a) || server != "" && server != h.Server {
		return nil, nil, ErrTaskUnknown
	}
	entry := c.Registry.Find(a.Organization, h.Server)
	if entry == nil || entry.Server.Key() != (toolserver.Key{Organization: h.Owner, ID: h.Server}) || placeOf(&entry.Server) != h.Place {
		return nil, nil, ErrTaskUnknown
	}
	return h, entry, nil
}

// allow makes the checks of the tool that are made of a call, but for its arguments and what is counted.
func (x *taskTurn) allow(ctx context.Context, f *facts) error {
	x.caller.ask(f, &x.of.Asker, x.policy, x.tool)
	if err := decideRun(f); err != nil {
		return err
	}
	if err := x.trust(f); err != nil {
		return err
	}
	if err := x.define(ctx, f); err != nil {
		return err
	}
	return decideTask(f, x.definition.Digest, x.handle)
}

// decideTask returns why a task of a tool that may be called by its present definition may not be used; nil if it may.
func decideTask(f *facts, present definition.Digest, h *task.Handle) error {
	switch {
	case !f.entry.Server.Offers(toolserver.FeatureTasks):
		return ErrNotOffered
	case present.String() != h.Definition: // Another one has been approved since.
		return definition.ErrChanged
	}
	return nil
}

// get answers with the present state of the task.
func (x *taskTurn) get(ctx context.Context) (upstream.Result, error) {
	t, err := x.query(ctx, wire.MethodGetTask, nil)
	if err != nil {
		return upstream.Result{}, err
	}
	text, err := x.shown().show(ctx, t, &task.Shown{Kind: wire.ResultComplete, ID: x.of.ID})
	if err != nil {
		return upstream.Result{}, err
	}
	return upstream.Result{Kind: upstream.KindComplete, Text: text}, nil
}

// update passes the caller's answers to what the server asks for at present. Others are left out, as the protocol has it.
func (x *taskTurn) update(ctx context.Context) (upstream.Result, error) {
	t, err := x.query(ctx, wire.MethodGetTask, nil)
	if err != nil {
		return upstream.Result{}, err
	}
	asked, err := x.shown().asked(t)
	if err != nil {
		return upstream.Result{}, err
	}
	answers, err := answersOf(asked, x.of.Client.Inputs)
	if err != nil || len(answers) == 0 {
		return acknowledged(), err
	}
	_, err = x.query(ctx, wire.MethodUpdateTask, merged(asked, answers, nil))
	return acknowledged(), err
}

// acknowledged is the result of an update and of a cancellation.
func acknowledged() upstream.Result {
	return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"resultType":"complete"}`)}
}

// query asks the server once.
func (x *taskTurn) query(ctx context.Context, method string, inputs json.RawMessage) (*task.Task, error) {
	t, err := x.caller.queryTask(ctx, x.server, &upstream.TaskQuery{
		Organization: x.of.Organization, Method: method, ID: x.handle.ID, Inputs: inputs, Capabilities: x.shown().offered(),
	})
	x.verdict = verdictOf(err)
	if err == nil {
		x.sent = true
		return t, nil
	}
	if ended := ended(ctx); ended != nil {
		return nil, ended
	}
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		if x.sent = true; answer.Code == wire.CodeInvalidParams {
			return nil, ErrTaskUnknown.Wrap(err) // Its text may name the server's id.
		}
		return nil, answer
	}
	if unsent, ok := errors.AsType[*upstream.Error](err); ok && !unsent.Sent {
		return nil, x.unsent(ctx, unsent)
	}
	x.sent = true
	x.caller.Log.WarnContext(ctx, "a server gave no answer about a task", slog.String("server", x.server.ID), slog.String("error", err.Error()))
	return nil, errTaskAway.Wrap(err)
}

// queryTask asks a server. A panic becomes an error, which the circuit counts.
func (c *Caller) queryTask(ctx context.Context, server *toolserver.Server, q *upstream.TaskQuery) (t *task.Task, err error) {
	defer panics.Recover(&err)
	return c.Upstream.Task(ctx, server, q)
}

// shown returns whom the task is shown to.
func (x *taskTurn) shown() *taskViewer {
	return &taskViewer{
		caller: x.caller, asker: &x.of.Asker, server: x.server, handle: x.handle, policy: x.policy, capabilities: x.of.Client.Capabilities,
	}
}
