package inference

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// execution is one request on its way through the pipeline. Each step passes on a value: admitted, selection, progress,
// served and account.
type execution struct {
	engine *Engine
	admitted
	selection
	tools   toolApprovals
	inliner inliner
	recalled
	progress
	quotas
	// served is the candidate that answered, and finish why its answer ended.
	served candidate
	finish provider.FinishReason
	account
	ended time.Time
}

// selection is the plan of a request and the candidates that may serve it.
type selection struct {
	plan routing.Plan
	// candidates are those of the plan that have a key.
	candidates []candidate
}

// progress is the state of the attempts of a request.
type progress struct {
	attempts int
	// upstream is the time spent waiting for providers.
	upstream time.Duration
	// present is the attempt that is being made or that served; nil before the first. It is at space.
	present *attempt
	space   attempt
	// race is the one of two attempts; nil where there was none.
	race *race
	// streams reports whether a permit is kept beyond its attempt, until the stream ends.
	streams bool
	// unserved reports whether no provider served the request, through the fault of the last one.
	unserved bool
}

// attempt is one call to a candidate, with its state. Only the goroutine that makes the call may use it until the call
// has returned.
type attempt struct {
	candidate

	// id is that of the ledger row, if the attempt has one, and number counts the attempts of the request.
	id     uuid.UUID
	number int
	// grace multiplies the clocks of the call.
	grace  time.Duration
	call   call
	permit health.Permit
	booked booking
	// hold charges the memory that the answer takes.
	hold *memory.Hold
	// answered reports whether the vendor has begun to answer. arrived is what came before its answer began.
	answered bool
	arrived  tally
	// answer is a whole answer. began is when the first content of a stream arrived.
	answer *provider.Answer
	began  time.Time
	// racer is what an attempt has that another one may outrun; nil for any other.
	racer *racer
}

// candidate is a planned candidate with its provider and credential.
type candidate struct {
	routing.Candidate
	provider   provider.Provider
	credential provider.Credential
	// others are those of the provider's pool that may take the credential's place, in the order in which they are tried.
	others []provider.Credential
	// held is what was booked for the call to it, and sent the chat that it got; nil until then.
	held *booking
	sent *sentChat
}

// chatProvider returns the candidate's provider if it can chat. Plans contain no other; a policy that claims otherwise
// gets the answer of a vendor that can't serve.
func (c *candidate) chatProvider() (provider.ChatProvider, error) {
	if p, ok := c.provider.(provider.ChatProvider); ok {
		return p, nil
	}
	return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the provider has no chat"}
}

// begin runs the steps before the first attempt. The request uses the returned context from then on; the gateway may
// end it. The caller must end the execution.
func (e *Engine) begin(ctx context.Context, r *Request) (context.Context, *execution, error) {
	x := e.newExecution(ctx, r)
	begun := false
	defer func() {
		if !begun {
			x.leaveUnserved(ctx)
		}
	}()
	ctx, err := x.admit(memory.NewContext(ctx, x.hold), e.Admission)
	if err == nil {
		x.selection, err = e.plan(ctx, &x.admitted)
	}
	if err == nil {
		localize(r)
		err = x.reserve(ctx)
	}
	if err != nil {
		if cause := admission.Termination(ctx); cause != nil { // The gateway ended the request meanwhile.
			err = cause
		}
		x.record.failed(err)
		return nil, nil, err
	}
	begun = true
	return ctx, x, nil
}

// newExecution returns the execution of a request before its first step.
func (e *Engine) newExecution(ctx context.Context, r *Request) *execution {
	x := &execution{engine: e, account: account{id: newID()}, admitted: admitted{
		request: r, fleet: e.Fleet(), started: time.Now(), hold: e.Memory.Open(r.Organization, largest[r.Route.Operation]),
	}}
	x.tools = toolApprovals{source: e.Approvals, needs: x.fleet.NeedsApproval, request: r}
	x.inliner = inliner{source: e.Images, request: r}
	x.record = e.open(ctx, &x.admitted, x.id)
	return x
}

// errBroken is the error of a request that panicked. The middleware reports the panic itself.
var errBroken = apierr.Internal(errors.New("a step of the request panicked"))

// leaveUnserved leaves a request that was not begun or not served. Its error is the one that was recorded or, without
// one, errBroken.
func (x *execution) leaveUnserved(ctx context.Context) {
	x.record.failed(errBroken)
	x.end(ctx)
}

// plan returns the candidates of a request. It refuses a request whose row the ledger can't take, or with bad images.
func (e *Engine) plan(ctx context.Context, a *admitted) (selection, error) {
	if err := e.ledgerReady(ctx); err != nil {
		return selection{}, err
	}
	if err := e.checkMedia(ctx, a.request); err != nil {
		return selection{}, err
	}
	describe(a.request)
	plan, err := a.fleet.Planner.Plan(a.request.Route)
	if err != nil {
		return selection{}, err
	}
	a.record.planned(&plan)
	s := selection{plan: plan}
	err = e.resolve(ctx, &s, a)
	return s, err
}

// largest is the size of the largest answers by operation, in bytes. A chat with the log probabilities of thousands of
// tokens, or minutes of sound, has some ten million; ten images, or vectors of 2,048 texts in base64, have some forty, and a
// reranker may repeat the documents. Sound is passed on as it arrives.
var largest = map[provider.Operation]int64{
	provider.OperationChat: 16 << 20, provider.OperationVision: 16 << 20,
	provider.OperationEmbeddings: 48 << 20, provider.OperationImages: 48 << 20, provider.OperationRerank: 48 << 20,
	provider.OperationCompletions: 16 << 20, provider.OperationModerations: 16 << 20,
	provider.OperationSpeech: 16 << 20, provider.OperationTranscriptions: 16 << 20,
}

// newID returns an id; ids sort by time.
func newID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New() // Only the order of ids is lost.
	}
	return id
}

// ledgerReady refuses requests while the ledger can't take their rows.
func (e *Engine) ledgerReady(ctx context.Context) error {
	if err := e.Ledger.Ready(ctx); err != nil {
		return errLedgerAway.Wrap(err)
	}
	return nil
}

// resolve keeps the candidates that have a credential. An unreadable credential skips
// only its own candidate.
func (e *Engine) resolve(ctx context.Context, s *selection, a *admitted) error {
	scope := keyring.Scope{Organization: a.request.Organization, Byok: a.request.Byok, Provider: a.request.ByokProvider}
	var unreadable error
	var missing missingKeys
	for _, planned := range s.plan.Candidates {
		credentials, err := a.fleet.Keys.Resolve(ctx, scope, planned.Provider)
		switch {
		case errors.Is(err, keyring.ErrNoKey):
			missing.add(err)
			continue
		case err != nil:
			unreadable = err
			continue
		}
		if len(credentials) > 1 {
			credentials = e.orderPool(a, &planned, credentials)
		}
		s.candidates = append(s.candidates, candidate{Candidate: planned, provider: a.fleet.Providers[planned.Provider], credential: credentials[0], others: credentials[1:]})
		if len(s.candidates) == maxCandidates || !a.request.Route.Substitution {
			break
		}
	}
	if len(s.candidates) == 0 && unreadable != nil {
		return unreadable
	}
	if len(s.candidates) == 0 {
		return s.noCandidate(ctx, a, scope, missing)
	}
	s.settleRequested()
	return nil
}

// noCandidate returns the error of a request without candidates: the target that was asked for lacks a key or can't
// serve such a request; where none was asked for, no provider that has a key can. A missing capability is therefore
// reported before the missing keys of substitutes.
func (s *selection) noCandidate(ctx context.Context, a *admitted, scope keyring.Scope, missing missingKeys) error {
	asked := func(c routing.Candidate) bool { return !c.Substitute }
	if s.plan.Requested != "" && slices.ContainsFunc(s.plan.Candidates, asked) {
		return missing.refuse()
	}
	var unfit []routing.Exclusion
	for _, left := range s.plan.Excluded {
		_, err := a.fleet.Keys.Resolve(ctx, scope, left.Provider)
		if err == nil {
			unfit = append(unfit, left)
		}
		missing.add(err)
	}
	if len(unfit) == 0 {
		return missing.refuse()
	}
	return routing.Refuse(&a.request.Route, unfit)
}

// settleRequested sets the requested provider to the best host that can be called, where a model was asked for and
// several providers have it: a provider without a key for this caller can't have been meant.
func (s *selection) settleRequested() {
	if first := s.candidates[0]; s.plan.Requested != "" && !first.Substitute {
		s.plan.Requested = first.Provider
	}
}

func (x *execution) route() Route {
	return Route{
		Provider: x.served.Provider, Model: x.served.Model,
		Attempts: x.attempts, Hedged: x.race.loserTarget(), Queued: x.queued, Overhead: time.Since(x.started) - x.upstream - x.queued, Warning: x.plan.Warning, Ignored: x.ignored(),
	}
}
