package inference

import (
	"context"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// CountTokens asks the provider that would serve a chat first how many tokens its input has, where that one takes the
// request as it came and counts. Nothing is billed for it. Without such a provider, or without an answer, counted is
// false; an error is that the request may not run.
func (e *Engine) CountTokens(ctx context.Context, r *Request) (tokens int64, counted bool, err error) {
	a := admitted{request: r, fleet: e.Fleet()}
	ctx, err = a.admit(ctx, e.Admission)
	if err != nil {
		return 0, false, err
	}
	if a.grant != nil {
		defer a.grant.End(false)
	}
	describe(r)
	plan, err := a.fleet.Planner.Plan(r.Route)
	if err != nil || len(plan.Candidates) == 0 {
		return 0, false, nil // Such a request has an estimate too.
	}
	s := selection{plan: plan}
	if err := e.resolve(ctx, &s, &a); err != nil {
		return 0, false, nil
	}
	if s.allow(&a) != nil {
		return 0, false, nil
	}
	first := s.candidates[0]
	counter, ok := first.provider.(provider.TokenCounter)
	if !ok || !first.Native {
		return 0, false, nil
	}
	tokens, err = e.askCount(ctx, r, first, counter)
	return tokens, err == nil, nil
}

func (e *Engine) askCount(ctx context.Context, r *Request, c candidate, counter provider.TokenCounter) (tokens int64, err error) {
	permit, refused := e.Health.Acquire(ctx, health.Call{
		Target: c.Target, Unlisted: c.Unlisted, Organization: r.Organization,
		Credential: c.credential.Fingerprint, Byok: c.credential.Source == keyring.SourceByok, Tokens: r.Route.Needs.Context,
	})
	if refused != nil {
		return 0, malformed("no count: " + refused.Text())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.Clocks.FirstToken, errAnswer)
	defer cancel()
	defer func() { permit.End(ctx, health.Verdict{}) }() // How long a count takes says nothing about answers.
	defer guard(&err)
	chat := r.Chat
	chat.Model = c.Upstream
	return counter.CountTokens(ctx, c.credential, &chat)
}
