package inference

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// execution is one request on its way through the pipeline.
type execution struct {
	*Engine
	fleet   *Fleet
	request *Request
	plan    routing.Plan
	// candidates have a key.
	candidates []candidate
	started    time.Time

	// inlined are the request's messages with the images in them, once a candidate
	// needed that.
	inlined []provider.Message

	// permit is that of the present attempt. streams keeps it beyond the attempt,
	// until the stream ends; answered tells that the vendor has begun to answer.
	permit            health.Permit
	streams, answered bool

	// place is where the response cache may keep the answer, for ttl; hit tells that
	// it was there.
	place cache.Place
	ttl   time.Duration
	hit   bool

	// approval that the request named, once a tool call has asked for it.
	approval *approval.Approval

	// hold is the memory that the request's answers and images take, until it has been
	// answered.
	hold *memory.Hold

	// now is the telemetry of the present call, finish why its answer ended.
	now    call
	finish provider.FinishReason

	// id is the ledger row's. grant is the request's admission, nil where none is
	// required; recorded reports whether the row is safe. worstCost is what was set
	// aside, where the terms require it. arrived is what came of an attempt's answer
	// before it began.
	id        uuid.UUID
	grant     admission.Grant
	recorded  bool
	worstCost price.Pico
	arrived   tally

	// record is handed to the recorder at the end; nil for none.
	record *record

	attempts int
	// unserved tells that no provider served the request, for the last one's fault.
	unserved bool
	// upstream is the time spent waiting for providers.
	upstream time.Duration
	served   candidate
	// state says where the usage comes from, and billed what was, once the completion
	// is settled; ended is when the request was over.
	state  ledger.State
	billed *bill
	ended  time.Time
}

// candidate is a planned one with what a call needs.
type candidate struct {
	routing.Candidate
	provider   provider.Provider
	credential provider.Credential
}

// chatProvider returns the candidate's provider where it can chat. Plans hold no other;
// a policy that says otherwise is answered like a vendor that can't.
func (c candidate) chatProvider() (provider.ChatProvider, error) {
	if p, ok := c.provider.(provider.ChatProvider); ok {
		return p, nil
	}
	return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the provider has no chat"}
}

// begin runs the steps before the first attempt. The context is the request's
// from then on: others may end it. The execution must be left.
func (e *Engine) begin(ctx context.Context, r *Request) (context.Context, *execution, error) {
	x := &execution{Engine: e, fleet: e.Fleet(), request: r, started: time.Now(), id: newID()}
	x.hold = e.Memory.Open(r.Organization, largest[r.Route.Operation])
	x.record = e.open(ctx, x)
	begun := false
	defer func() {
		if !begun {
			x.leaveUnserved(ctx)
		}
	}()
	ctx, err := x.enter(memory.NewContext(ctx, x.hold))
	if err == nil {
		err = x.prepare(ctx)
	}
	if err != nil {
		if cause := terminated(ctx); cause != nil { // It was ended from outside meanwhile.
			err = cause
		}
		x.record.failed(err)
		return nil, nil, err
	}
	begun = true
	return ctx, x, nil
}

// errBroken is the end of a request that panicked: the handler's chain has the
// panic itself.
var errBroken = apierr.Internal(errors.New("a step of the request panicked"))

// leaveUnserved leaves a request that was not begun or served, for the error that was
// noted or, without one, for a panic.
func (x *execution) leaveUnserved(ctx context.Context) {
	x.record.failed(errBroken)
	x.leave(ctx)
}

// prepare finds who may serve the request, and sets aside what it may cost.
func (x *execution) prepare(ctx context.Context) error {
	if err := x.admit(ctx); err != nil {
		return err
	}
	if err := x.checkImages(ctx, x.request); err != nil {
		return err
	}
	describe(x.request)
	var err error
	if x.plan, err = x.fleet.Planner.Plan(x.request.Route); err != nil {
		return err
	}
	x.record.planned(&x.plan)
	if err := x.resolve(ctx); err != nil {
		return err
	}
	localize(x.request)
	return x.reserve(ctx)
}

// largest answers by operation, in bytes. A chat with the log probabilities of
// thousands of tokens, or minutes of sound, has some ten million; ten images, or
// vectors of 2,048 texts in base64, have some forty.
var largest = map[provider.Operation]int64{
	provider.OperationChat: 16 << 20, provider.OperationVision: 16 << 20,
	provider.OperationEmbeddings: 48 << 20, provider.OperationImages: 48 << 20,
}

// newID makes an id in the order of time.
func newID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New() // Only the order of ids is lost.
	}
	return id
}

// admit refuses what could not be billed.
func (e *Engine) admit(ctx context.Context) error {
	if err := e.Ledger.Ready(ctx); err != nil {
		return errLedgerAway.Wrap(err)
	}
	return nil
}

// resolve keeps the candidates that have a credential. An unreadable credential skips
// only its own candidate.
func (x *execution) resolve(ctx context.Context) error {
	scope := keyring.Scope{Organization: x.request.Organization, Byok: x.request.Byok, Provider: x.request.ByokProvider}
	var unreadable error
	for _, planned := range x.plan.Candidates {
		credential, err := x.fleet.Keys.Resolve(ctx, scope, planned.Provider)
		switch {
		case errors.Is(err, keyring.ErrNoKey):
			continue
		case err != nil:
			unreadable = err
			continue
		}
		x.candidates = append(x.candidates, candidate{planned, x.fleet.Providers[planned.Provider], credential})
		if len(x.candidates) == maxCandidates || !x.request.Route.Substitution {
			break
		}
	}
	if len(x.candidates) == 0 && unreadable != nil {
		return unreadable
	}
	if len(x.candidates) == 0 {
		return x.noCandidate(ctx, scope)
	}
	x.settleRequested()
	return nil
}

// noCandidate returns the error of a request without candidates: what was asked for lacks a
// key; or it can't serve such a request, or, where nothing was asked for, no provider
// that has a key can.
func (x *execution) noCandidate(ctx context.Context, scope keyring.Scope) error {
	asked := func(c routing.Candidate) bool { return !c.Substitute }
	if x.plan.Requested != "" && slices.ContainsFunc(x.plan.Candidates, asked) {
		return errMissingKeys
	}
	var unfit []routing.Exclusion
	for _, left := range x.plan.Excluded {
		if _, err := x.fleet.Keys.Resolve(ctx, scope, left.Provider); err == nil {
			unfit = append(unfit, left)
		}
	}
	if len(unfit) == 0 {
		return errMissingKeys
	}
	return routing.Refuse(&x.request.Route, unfit)
}

// settleRequested makes the requested provider the best host that can be called,
// where a model was asked for and several have it: one without a key for this
// caller was never meant.
func (x *execution) settleRequested() {
	if first := x.candidates[0]; x.plan.Requested != "" && !first.Substitute {
		x.plan.Requested = first.Provider
	}
}

// deadline is when the total clock runs out.
func (x *execution) deadline() time.Time { return x.started.Add(x.Clocks.Total) }

// chat is the request as a candidate gets it. A body in the caller's own words
// names images by URL, so that it can't go to a candidate that fetches none;
// unless only its dialect can carry it: then that vendor has the last word.
func (x *execution) chat(ctx context.Context, c candidate) (*provider.Chat, error) {
	chat := x.request.Chat
	chat.Model = c.Upstream
	if c.fetches() || !namesImages(chat.Messages) {
		return &chat, nil
	}
	if x.request.Route.Needs.Dialect == "" {
		chat.Native = nil
	}
	var err error
	chat.Messages, err = x.inline(ctx)
	return &chat, err
}

func (x *execution) route() Route {
	return Route{
		Provider: x.served.Provider, Model: x.served.Model,
		Attempts: x.attempts, Overhead: time.Since(x.started) - x.upstream, Warning: x.plan.Warning,
	}
}

// Chat serves a whole answer.
func (e *Engine) Chat(ctx context.Context, r *Request) (*Completion, error) {
	ctx, x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer x.leave(ctx)
	if answer := x.recall(ctx, false); answer != nil {
		return x.replay(ctx, answer)
	}
	var answer *provider.Answer
	err = x.tryWhole(ctx, func(ctx context.Context, c candidate) error {
		p, err := c.chatProvider()
		if err != nil {
			return err
		}
		chat, err := x.chat(ctx, c)
		if err != nil {
			return err
		}
		if answer, err = p.Chat(ctx, c.credential, chat); err == nil {
			x.permit.Learn(answer.Limits)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	x.finish = answer.FinishReason
	tally := tally{usage: answer.Usage}
	tally.output(&provider.Event{Text: answer.Text, Reasoning: answer.Reasoning, Other: answer.Other, ToolCalls: answer.ToolCalls, Native: answer.Native})
	if err := x.approveAnswer(ctx, answer.ToolCalls, answer.Native); err != nil {
		tally.whole = true
		x.record.failed(err)
		x.settle(ctx, ledger.OutcomeAborted, tally) // The vendor has been paid.
		return nil, err
	}
	completion := &Completion{
		Text: answer.Text, ToolCalls: answer.ToolCalls,
		FinishReason: finishReason(answer.FinishReason, len(answer.ToolCalls) > 0),
		Report:       x.settle(ctx, ledger.OutcomeCompleted, tally), Native: answer.Native, record: x.record,
	}
	completion.Route = x.route()
	x.record.answered(trace.Answer{Text: completion.Text, ToolCalls: completion.ToolCalls, FinishReason: completion.FinishReason})
	x.remember(ctx, kept{
		Text: completion.Text, ToolCalls: completion.ToolCalls, FinishReason: completion.FinishReason,
		Usage: completion.Report.Usage, State: x.state, Native: completion.Native,
	})
	return completion, nil
}

// finishReason fills in a finish reason that a provider left out.
func finishReason(reason provider.FinishReason, calls bool) provider.FinishReason {
	switch {
	case reason != "":
		return reason
	case calls:
		return provider.FinishToolCalls
	}
	return provider.FinishStop
}
