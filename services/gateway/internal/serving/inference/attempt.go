package inference

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

const (
	// maxAttempts bounds the calls that one request may make, maxCandidates the candidates that it may consider.
	maxAttempts   = 4
	maxCandidates = 8
	// lastGrace multiplies the clocks of the last candidate: after it the request fails, so that a slow answer is worth
	// waiting for.
	lastGrace = 2
)

// ask makes the call of an attempt.
type ask func(ctx context.Context, a *attempt) error

// round tries the candidates of one request. It is the only place that retries.
type round struct {
	*execution

	ask      ask
	failures []failure
	// switched counts the calls that failed through a credential whose place another one of the pool took. They don't count
	// as attempts.
	switched int
	// spared are candidates that were skipped because the vendor last reported that little of its limit is left. They are
	// tried after all others.
	spared []candidate
	// err ends the round: it is the request's own error, not a vendor's failure.
	err error
}

// try calls the candidates in turn until one serves.
func (x *execution) try(ctx context.Context, call ask) error {
	r := round{execution: x, ask: call}
	candidates, err := r.choose(ctx, x.candidates)
	if err != nil {
		r.end(x.candidates[0], err)
		return err
	}
	if r.each(ctx, candidates, false) || r.each(ctx, r.spared, true) || r.await(ctx) {
		return r.err
	}
	last := r.failures[len(r.failures)-1]
	x.unserved = last.Failover()
	x.engine.metrics.request(last.provider, outcomeFailed)
	err = refusal(r.failures, x.request.Route.Substitution)
	x.record.failed(err)
	return err
}

// tryWhole is try for whole answers, where one clock bounds each attempt: Clocks.Answer, or what is left of
// Clocks.Total.
func (x *execution) tryWhole(ctx context.Context, call ask) error {
	return x.try(ctx, func(ctx context.Context, a *attempt) error {
		end, cause := time.Now().Add(x.engine.Clocks.Answer*a.grace), errAnswer
		if x.deadline(x.engine.Clocks).Before(end) {
			end, cause = x.deadline(x.engine.Clocks), errTotal
		}
		ctx, cancel := context.WithDeadlineCause(ctx, end, cause)
		defer cancel()
		return call(ctx, a)
	})
}

// verdict is the result of an attempt.
type verdict int

const (
	next   verdict = iota // another candidate may do better
	over                  // the request is served, or has ended
	failed                // no other candidate may be called
)

// each tries candidates in turn, and reports whether the request is served or has ended.
func (r *round) each(ctx context.Context, candidates []candidate, insist bool) (done bool) {
	for i, c := range candidates {
		if r.left() == 0 {
			return false
		}
		if r.race.called(&c) {
			if len(c.others) == 0 {
				continue
			}
			c = c.another()
		}
		switch r.serve(ctx, c, candidates[i+1:], insist) {
		case over:
			return true
		case failed:
			r.spared, r.full = nil, nil
			return false
		case next:
		}
	}
	return false
}

// left returns how many calls the request may still make.
func (r *round) left() int { return maxAttempts + r.switched - r.attempts }

// serve calls a candidate, with one credential of its pool after the other as long as the failure is the credential's.
func (r *round) serve(ctx context.Context, c candidate, rest []candidate, insist bool) verdict {
	for {
		last := !r.more(rest) && !r.spare(c)
		before := r.attempts
		v := r.attempt(ctx, c, rest, last, insist)
		if v == next && r.repeats(ctx, c, last) {
			v = r.attempt(ctx, c, rest, last, insist)
		}
		if v != next || !r.switches(&c) {
			return v
		}
		r.switched += r.attempts - before
		if c = c.another(); r.race.called(&c) {
			if len(c.others) == 0 {
				return v
			}
			c = c.another()
		}
	}
}

// more reports whether one of the candidates may be called too.
func (r *round) more(candidates []candidate) bool {
	if r.left() <= 1 {
		return false
	}
	for i := range candidates {
		if r.engine.Health.Admits(r.asks(&candidates[i], false)) {
			return true
		}
	}
	return false
}

func (r *round) asks(c *candidate, insist bool) health.Call {
	return health.Call{
		Target: c.Target, Unlisted: c.Unlisted, Organization: r.request.Organization, Credential: c.credential.Fingerprint, Byok: c.credential.Source == keyring.SourceByok,
		Renews: c.credential.Refused != nil, Pooled: c.credential.Name, Tokens: r.request.Route.Needs.Context, Insist: insist,
	}
}

// attempt acquires a permit, makes the call and records its result.
func (r *round) attempt(ctx context.Context, c candidate, rest []candidate, last, insist bool) verdict {
	if err := r.over(ctx); err != nil {
		return r.end(c, err)
	}
	if err := r.renew(ctx); err != nil {
		return r.end(c, err)
	}
	permit, booked, refused := r.acquire(ctx, &c, r.asks(&c, insist))
	if refused != nil {
		return r.skip(ctx, c, refused)
	}
	if !r.called(c.Provider) {
		permit.First()
	}
	grace := time.Duration(1)
	if last {
		grace = lastGrace
	}
	kind := attemptFirst
	if r.attempts > 0 {
		kind = attemptFailover
	}
	r.attempts++
	r.engine.metrics.attempt(c.Provider, kind)
	made := attempt{candidate: c, id: r.id, number: r.attempts, grace: grace, permit: permit, booked: booked, hold: r.hold}
	if !insist {
		if h := r.mayHedge(&made.candidate, rest); h != nil {
			return r.raceOf(ctx, made, h)
		}
	}
	a := &r.space
	*a, r.present = made, a
	err := r.call(ctx, a, r.ask)
	r.upstream += time.Since(a.call.started)
	return r.conclude(ctx, a, err)
}

// acquire returns a permit for a call and what it books of limits, or why it may not be made now. Every call to a vendor
// takes both here.
func (r *round) acquire(ctx context.Context, c *candidate, call health.Call) (health.Permit, booking, *health.Refusal) {
	permit, refused := r.engine.Health.Acquire(ctx, call)
	if refused != nil {
		held := c.held.take()
		held.cancel()
		return permit, booking{}, refused
	}
	booked, refused := r.reserveQuota(ctx, c)
	if refused != nil {
		permit.End(ctx, health.Verdict{})
	}
	return permit, booked, refused
}

// call makes the call of an attempt and returns its error. A panic of the adapter is one.
func (x *execution) call(ctx context.Context, a *attempt, call ask) (err error) {
	defer guard(&err)
	ctx, a.call = x.engine.beginCall(ctx, x.request, &a.candidate, x.streams)
	return call(ctx, a)
}

// conclude records the result of an attempt whose call has returned err.
func (r *round) conclude(ctx context.Context, a *attempt, err error) verdict {
	if err != nil {
		r.abandon(ctx, a, err)
		a.booked.settle(r.billedTokens())
	}
	switch fault, ok := errors.AsType[*apierr.Error](err); {
	case err == nil:
		r.serves(ctx, a)
		return over
	case ok: // The request's own error, found while the call was prepared.
		r.record.called(a, trace.TryFailed, &failure{Error: &provider.Error{Class: fault.ErrorClass(), Code: string(fault.Reason)}})
		a.call.fail(ctx, r.engine.metrics, string(fault.Reason), time.Now())
		a.permit.End(ctx, health.Verdict{})
		return r.end(a.candidate, fault)
	}
	if ended := r.over(ctx); ended != nil {
		r.record.called(a, trace.TryCancelled, nil)
		a.call.fail(ctx, r.engine.metrics, string(ledger.OutcomeCancelled), time.Now())
		a.permit.End(ctx, health.Verdict{})
		return r.end(a.candidate, ended)
	}
	return r.fail(ctx, a, err)
}

// serves records that an attempt serves the request. The permit of a stream is kept until its end.
func (r *round) serves(ctx context.Context, a *attempt) {
	r.served = a.candidate
	r.record.called(a, trace.TryOK, nil)
	if !r.streams {
		a.permit.End(ctx, health.Verdict{Outcome: health.Good})
		return
	}
	a.permit.Begin(ctx)
	r.record.began(a.began)
	if r.request.events() {
		a.call.first(ctx, r.engine.metrics, a.began)
	}
}

// fail records an attempt that failed at the vendor.
func (r *round) fail(ctx context.Context, a *attempt, err error) verdict {
	f := newFailure(a.candidate, err)
	f.full = errors.Is(err, memory.ErrFull)
	if f.Class == apierr.ClassAuth && a.credential.Refused != nil {
		a.credential.Refused(f.Error)
	}
	if a.booked.learn(f.Limits); f.Class == apierr.ClassRateLimit {
		a.booked.exhausted(f.RetryAfter)
		r.keepFull(a.candidate)
	}
	r.record.called(a, trace.TryFailed, &f)
	a.call.fail(ctx, r.engine.metrics, string(f.Class), time.Now())
	f.repeatable = !a.answered && repeatable(err)
	if _, ok := errors.AsType[blameless](err); ok || f.full {
		a.permit.End(ctx, health.Verdict{})
	} else {
		a.permit.Fail(ctx, f.Error, r.met(f))
	}
	r.failures = append(r.failures, f)
	r.failed(ctx, f)
	if !f.Failover() {
		return failed
	}
	return next
}

// skip records a candidate that may not be called now.
func (r *round) skip(ctx context.Context, c candidate, refused *health.Refusal) verdict {
	if ctx.Err() != nil { // The request ended while it waited for a permit.
		return r.end(c, ended(ctx))
	}
	switch {
	case refused.Soft:
		r.spared = append(r.spared, c)
	case !r.awaits && (refused.Cause == health.CauseQuota || refused.Cause == health.CauseRateLimited):
		r.keepFull(c)
	}
	r.engine.metrics.skipped(c.Provider, refused.Cause)
	r.record.skipped(c, refused)
	r.failures = append(r.failures, failure{
		Error:    &provider.Error{Class: refused.Class(), Text: refused.Text(), RetryAfter: refused.RetryAfter},
		provider: c.Provider, model: c.Model, skipped: refused.Cause,
	})
	return next
}

func (r *round) end(c candidate, err error) verdict {
	r.err = err
	r.record.failed(err)
	outcome := outcomeFailed
	if r.billed != nil {
		outcome = r.billed.outcome
	}
	r.engine.metrics.request(c.Provider, outcome)
	return over
}

// called reports whether the request has called a vendor before.
func (r *round) called(vendor string) bool {
	for _, f := range r.failures {
		if f.provider == vendor && f.skipped == "" {
			return true
		}
	}
	return false
}

// met reports whether the request has met the same failure before at this vendor: one request that makes a server fail
// counts as one failure.
func (r *round) met(f failure) bool {
	for _, g := range r.failures {
		if g.provider == f.provider && g.skipped == "" && g.Class == f.Class && g.Status == f.Status && g.Code == f.Code {
			return true
		}
	}
	return false
}

// failed counts and logs one attempt that failed.
func (x *execution) failed(ctx context.Context, f failure) {
	x.engine.metrics.attemptFailed(f.provider, f.Class)
	x.engine.Log.WarnContext(ctx, "attempt failed",
		slog.String("provider", f.provider), slog.String("model", f.model),
		slog.Int("attempt", x.attempts), slog.String("error", f.Error.Error()))
}
