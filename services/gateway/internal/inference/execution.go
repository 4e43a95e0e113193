package inference

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/keyring"
	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/routing"
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

	attempts int
	// upstream is the time spent waiting for providers.
	upstream time.Duration
	served   candidate
}

// candidate is a planned one with what a call needs.
type candidate struct {
	routing.Candidate
	provider   provider.Provider
	credential provider.Credential
}

// chatter is the candidate's provider where it can chat. Plans hold no other;
// a policy that says otherwise is answered like a vendor that can't.
func (c candidate) chatter() (provider.Chatter, error) {
	if chatter, ok := c.provider.(provider.Chatter); ok {
		return chatter, nil
	}
	return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the provider has no chat"}
}

// begin runs the steps before the first attempt.
func (e *Engine) begin(ctx context.Context, r *Request) (*execution, error) {
	x := &execution{Engine: e, fleet: e.Fleet(), request: r, started: time.Now()}
	if err := e.admit(ctx); err != nil {
		return nil, err
	}
	var err error
	if x.plan, err = x.fleet.Planner.Plan(r.Route); err != nil {
		return nil, err
	}
	if err := x.resolve(); err != nil {
		return nil, err
	}
	localize(r)
	return x, nil
}

// admit refuses what could not be billed.
func (e *Engine) admit(ctx context.Context) error {
	if err := e.Ledger.Ready(ctx); err != nil {
		return errLedgerAway.Wrap(err)
	}
	return nil
}

// resolve keeps the candidates that have a credential.
func (x *execution) resolve() error {
	scope := keyring.Scope{Organization: x.request.Organization, Byok: x.request.Byok}
	for _, planned := range x.plan.Candidates {
		credential, err := x.Keys.Resolve(scope, planned.Provider)
		switch {
		case errors.Is(err, keyring.ErrNoKey):
			continue
		case err != nil:
			return err
		}
		x.candidates = append(x.candidates, candidate{planned, x.fleet.Providers[planned.Provider], credential})
		if len(x.candidates) == maxAttempts || !x.request.Route.Substitution {
			return nil
		}
	}
	if len(x.candidates) == 0 {
		return errMissingKeys
	}
	return nil
}

// bound starts the total clock.
func (x *execution) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, x.Clocks.Total, errTotal)
}

// try calls the candidates in turn until one serves: the one place that
// retries. grace multiplies the clocks of an attempt.
func (x *execution) try(ctx context.Context, call func(ctx context.Context, c candidate, grace time.Duration) error) error {
	var failures []failure
	for i, c := range x.candidates {
		grace := time.Duration(1)
		if i == len(x.candidates)-1 {
			grace = lastGrace
		}
		x.attempts++
		start := time.Now()
		err := call(ctx, c, grace)
		x.upstream += time.Since(start)
		if err == nil {
			x.served = c
			return nil
		}
		f := newFailure(c, err)
		failures = append(failures, f)
		x.failed(ctx, f)
		if ctx.Err() != nil {
			x.metrics.request(ctx, c.Provider, outcomeFailed)
			return ended(ctx)
		}
		if !f.Failover() {
			break
		}
	}
	x.metrics.request(ctx, failures[len(failures)-1].provider, outcomeFailed)
	return refusal(failures, x.request.Route.Substitution)
}

// failed counts and logs one attempt that failed.
func (x *execution) failed(ctx context.Context, f failure) {
	if ctx.Err() != nil {
		return
	}
	x.metrics.attemptFailed(ctx, f.provider, f.Class)
	x.Log.WarnContext(ctx, "attempt failed",
		slog.String("provider", f.provider), slog.String("model", f.model),
		slog.Int("attempt", x.attempts), slog.String("error", f.Error.Error()))
}

// chat is the request as a candidate gets it.
func (x *execution) chat(c candidate) *provider.Chat {
	chat := x.request.Chat
	chat.Model = c.Upstream
	return &chat
}

func (x *execution) route() Route {
	return Route{
		Provider: x.served.Provider, Model: x.served.Model,
		Attempts: x.attempts, Overhead: time.Since(x.started) - x.upstream,
	}
}

// Chat serves a whole answer.
func (e *Engine) Chat(ctx context.Context, r *Request) (*Completion, error) {
	x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	bounded, cancel := x.bound(ctx)
	defer cancel()
	var answer *provider.Answer
	err = x.try(bounded, func(ctx context.Context, c candidate, grace time.Duration) (err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, x.Clocks.Answer*grace, errAnswer)
		defer cancel()
		chatter, err := c.chatter()
		if err != nil {
			return err
		}
		answer, err = chatter.Chat(ctx, c.credential, x.chat(c))
		return err
	})
	if err != nil {
		return nil, err
	}
	tally := tally{usage: answer.Usage, bytes: len(answer.Text)}
	tally.add(answer.ToolCalls)
	completion := &Completion{
		Text: answer.Text, ToolCalls: answer.ToolCalls,
		FinishReason: finishReason(answer.FinishReason, len(answer.ToolCalls) > 0),
		Report:       x.settle(ctx, ledger.OutcomeCompleted, tally), Native: answer.Native,
	}
	completion.Route = x.route()
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
