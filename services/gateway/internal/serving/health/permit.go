package health

import (
	"context"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Call is an attempt that a request is about to make.
type Call struct {
	Target provider.Target
	// Credential is the credential's fingerprint. Byok reports whether it is an organization's own: its outcomes do not
	// count for the fleet.
	Credential string
	Byok       bool
	// Renews reports whether the credential is replaced once it was refused, as an access token is.
	Renews bool
	// Pooled is the credential's name in the pool of the provider; empty for the only one.
	Pooled string
	// Organization is the one that the call is for; see share.go.
	Organization string
	// Unlisted reports that no policy names the model: the caller supplied the name, and it gets an entry of its own
	// only once the vendor has served it.
	Unlisted bool
	// Tokens is about how many tokens the call takes; 0 is unknown.
	Tokens int
	// Insist makes the call in spite of a Soft refusal, where no other candidate is left.
	Insist bool
	// Spare makes the call only where there is room to spare; see Spares. It neither probes nor waits.
	Spare bool
}

// Cause is why a call was refused.
type Cause string

// The causes.
const (
	CauseOpen        Cause = "circuit_open"
	CauseHeld        Cause = "organization_held_back"
	CauseShare       Cause = "organization_share"
	CauseFull        Cause = "bulkhead_full"
	CauseRateLimited Cause = "rate_limited"
	CauseKeyRefused  Cause = "key_refused"
	CauseNoRequests  Cause = "no_requests_left"
	CauseNoTokens    Cause = "no_tokens_left"
	// CauseQuota is one of the limits that the gateway itself keeps; see package quota.
	CauseQuota Cause = "quota"
)

// Refusal says why a call may not be made now.
type Refusal struct {
	Cause Cause
	// RetryAfter is how long to wait before asking again; 0 when unknown.
	RetryAfter time.Duration
	// Soft marks a guess from what the vendor reported as remaining: the call might still be served.
	Soft bool
}

// Text returns the refusal in words for people.
func (r *Refusal) Text() string {
	text := map[Cause]string{
		CauseOpen: "its circuit is open after failures", CauseFull: "too many calls are in flight",
		CauseHeld: "this organization's calls failed there too often", CauseShare: "too many of this organization's calls are in flight",
		CauseRateLimited: "its rate limit was hit", CauseKeyRefused: "it refused the key recently",
		CauseNoRequests: "its rate limit is used up", CauseNoTokens: "its token limit is used up",
		CauseQuota: "a limit of tokens, requests or concurrent calls is used up",
	}[r.Cause]
	if r.RetryAfter > 0 {
		text += fmt.Sprintf(" (for %s more)", r.RetryAfter.Round(100*time.Millisecond))
	}
	return "not called: " + text
}

// Class returns the error class of the refusal.
func (r *Refusal) Class() apierr.Class {
	switch r.Cause {
	case CauseRateLimited, CauseNoRequests, CauseNoTokens, CauseQuota:
		return apierr.ClassRateLimit
	case CauseKeyRefused:
		return apierr.ClassAuth
	case CauseOpen, CauseHeld, CauseFull, CauseShare:
	}
	return apierr.ClassTransient
}

// Outcome is what a call shows of its vendor.
type Outcome int8

// The outcomes. Good is a served call and Bad the vendor's failure. Answered is an answer that was the caller's or the
// credential's fault: it shows a probe that the vendor is up, but counts neither as good nor as bad. Void shows
// nothing: the caller left, or nothing was sent.
const (
	Void Outcome = iota
	Good
	Bad
	Answered
)

// Verdict is an outcome with its cause.
type Verdict struct {
	Outcome Outcome
	// Class of the failure.
	Class apierr.Class
	// Cause for people. It quotes nothing that the vendor wrote.
	Cause string
	// RetryAfter is how long the vendor asked to wait; 0 if it did not.
	RetryAfter time.Duration
}

func (v Verdict) probe() Event {
	switch v.Outcome {
	case Good, Answered:
		return Event{Kind: Passed}
	case Bad:
		return Event{Kind: Failed, Cause: "the probe failed: " + v.Cause, Floor: min(v.RetryAfter, MaxCooldown), Jitter: jitter()}
	case Void:
	}
	return Event{Kind: Voided}
}

// Permit lets one call go. Its holder calls Begin at the first content of a stream, and exactly one of End and Fail.
type Permit struct {
	monitor *Monitor
	target  *target
	pass    pass
	call    Call
	by      caller
	pooled  *pooled // nil for a credential that is in no pool
	begun   time.Time
	// began reports whether a stream has had content, which counted the call as good already.
	began bool
}

// Acquire returns a Permit for a call, or why it may not go now. It may wait briefly for the bulkhead, and for the
// lease of a probe.
func (m *Monitor) Acquire(ctx context.Context, c Call) (Permit, *Refusal) {
	t, by := m.find(c.Target, c.Unlisted), callerOf(c.Organization)
	now := m.now()
	if r := t.cooldown(c, by, now); r != nil {
		return Permit{}, r
	}
	if c.Spare && !t.spares(by) {
		return Permit{}, &Refusal{Cause: CauseFull}
	}
	p, r := m.pass(ctx, t, c, by, now)
	if r != nil {
		return Permit{}, r
	}
	if c.Spare && (p.probe || p.own.probe) { // The circuit opened meanwhile.
		t.circuit.record(ctx, p, by, Verdict{}, now.Sub(m.base))
		return Permit{}, &Refusal{Cause: CauseOpen}
	}
	if cause := t.vendor.bulkhead.acquire(ctx, by.name, !c.Spare); cause != "" {
		t.circuit.record(ctx, p, by, Verdict{}, now.Sub(m.base))
		return Permit{}, &Refusal{Cause: cause}
	}
	permit := Permit{monitor: m, target: t, pass: p, call: c, by: by, pooled: t.vendor.pool.findOrMake(c.Pooled), begun: now}
	permit.pooled.begin()
	return permit, nil
}

// cooldown returns a Refusal if the call's credential may not be used now; nil if it may.
func (t *target) cooldown(c Call, by caller, now time.Time) *Refusal {
	r := t.vendor.credentials.refuse(c.Credential, by.id, 0, now)
	if r == nil {
		r = t.circuit.credentials.refuse(c.Credential, by.id, c.Tokens, now)
	}
	if r != nil && r.Soft && c.Insist {
		return nil
	}
	return r
}

// pass asks the circuit. A call with an organization's own credential respects an open circuit, but never probes it.
func (m *Monitor) pass(ctx context.Context, t *target, c Call, by caller, now time.Time) (pass, *Refusal) {
	if c.Byok {
		if wait, ok := t.circuit.breaker.passable(0, now); !ok {
			return pass{}, &Refusal{Cause: CauseOpen, RetryAfter: wait}
		}
		return pass{}, nil
	}
	return t.circuit.acquire(ctx, by.id, func(ctx context.Context, of uint64) bool { return m.lease(ctx, t.circuit.name, of) })
}

// Admits reports whether Acquire would likely let a call go. It reserves nothing.
func (m *Monitor) Admits(c Call) bool {
	t, by := m.find(c.Target, c.Unlisted), callerOf(c.Organization)
	now := m.now()
	return t.cooldown(c, by, now) == nil && t.available(by, now)
}

// available reports whether circuit and bulkhead would let an organization's call go.
func (t *target) available(by caller, now time.Time) bool {
	return t.circuit.passable(by.id, now) == nil && !t.vendor.bulkhead.full(by.name)
}

// Spares reports whether a target has room for calls that need not be made: its circuit is closed for the organization
// and a quarter of its bulkhead is free.
func (m *Monitor) Spares(t provider.Target, organization string) bool {
	found := (*m.targets.Load())[t]
	return found == nil || found.spares(callerOf(organization))
}

func (t *target) spares(by caller) bool {
	if hold := t.circuit.tenants.held(by.id); hold != nil && hold.now().Phase != Closed {
		return false
	}
	return !open(t.circuit.generation.Load()) && t.vendor.bulkhead.spares(by.name)
}

// First counts a request's first call to a vendor, which earns a tenth of a retry.
func (p *Permit) First() { p.target.vendor.budgets[p.by.id%groups].earn() }

// Learn stores what the vendor reports as remaining of the credential's rate limit.
func (p *Permit) Learn(l provider.Limits) {
	if l.Requests.Known || l.Tokens.Known {
		p.target.circuit.credentials.learn(p.call.Credential, l, p.monitor.now())
	}
}

// Begin records the first content of a stream.
func (p *Permit) Begin(ctx context.Context) {
	now := p.monitor.now()
	p.target.beginning.add(p.by, now.Sub(p.begun), now)
	p.pooled.content(p.by, now.Sub(p.begun), now)
	p.record(ctx, Verdict{Outcome: Good}, now)
	p.began = true
	p.pass.probe, p.pass.own.probe = false, false
}

// End records the outcome of the call and releases the permit.
func (p *Permit) End(ctx context.Context, v Verdict) {
	p.target.vendor.bulkhead.release(p.by.name)
	now := p.monitor.now()
	p.pooled.end(p.by, v.Outcome == Good, now.Sub(p.begun), now)
	if v.Outcome == Good {
		p.target.vendor.credentials.good(p.call.Credential)
		p.target.circuit.credentials.good(p.call.Credential)
		p.monitor.refusals.good(&p.call, p.begun)
	}
	if v.Outcome == Good && p.call.Unlisted {
		p.monitor.served(p.call.Target)
	}
	if !p.call.Byok {
		p.target.traffic.count(v, now.Sub(p.monitor.base), now)
	}
	if v.Outcome == Good {
		p.target.answers.add(p.by, now.Sub(p.begun), now)
		if p.began {
			return // Begin has counted it.
		}
	}
	p.record(ctx, v, now)
}

// Lose ends a call that was ended because another one answered first. It shows nothing of the vendor but that the first
// content of a stream, or a whole answer, took at least so long.
func (p *Permit) Lose(ctx context.Context, streams bool) {
	now := p.monitor.now()
	measured := &p.target.answers
	if streams {
		measured = &p.target.beginning
	}
	measured.addAtLeast(p.by, now.Sub(p.begun), now)
	p.End(ctx, Verdict{})
}

func (p *Permit) record(ctx context.Context, v Verdict, now time.Time) {
	if !p.call.Byok {
		p.target.circuit.record(ctx, p.pass, p.by, v, now.Sub(p.monitor.base))
	}
}

// Fail ends a call that failed and starts a cooldown of the credential if the failure was caused by it. repeated
// reports whether the same request has met this failure at this vendor before: it counts once.
func (p *Permit) Fail(ctx context.Context, e *provider.Error, repeated bool) {
	now := p.monitor.now()
	p.Learn(e.Limits)
	if e.Class == apierr.ClassAuth {
		p.monitor.refusals.refuse(&p.call, e.Status, now)
	}
	switch {
	case e.Class == apierr.ClassRateLimit:
		rest := e.RetryAfter
		if rest <= 0 {
			rest = guessCooldown
		}
		p.target.circuit.credentials.cool(p.call.Credential, CauseRateLimited, p.by.id, rest, now)
	case e.Class == apierr.ClassAuth && e.Status == statusUnauthorized:
		p.refused(&p.target.vendor.credentials, now)
	case e.Class == apierr.ClassAuth:
		// Perhaps the key may not call only this model.
		p.refused(&p.target.circuit.credentials, now)
	}
	v := Judge(e)
	if repeated && v.Outcome == Bad {
		v.Outcome = Void
	}
	p.End(ctx, v)
}

// refused starts the cooldown of a refused credential.
func (p *Permit) refused(of *credentials, now time.Time) {
	if p.pooled != nil {
		of.coolRefused(p.call.Credential, p.by.id, now)
		return
	}
	of.cool(p.call.Credential, CauseKeyRefused, p.by.id, keyCooldown, now)
}

const statusUnauthorized = 401

// Judge returns what a failure shows of the vendor.
func Judge(e *provider.Error) Verdict {
	v := Verdict{Outcome: Answered, Class: e.Class, Cause: string(e.Class), RetryAfter: e.RetryAfter}
	if e.Status != 0 {
		v.Cause += fmt.Sprintf(" (status %d)", e.Status)
	}
	switch {
	case e.Unsupported:
		v.Outcome = Void
	case e.Class == apierr.ClassTransient, e.Class == apierr.ClassServerError:
		v.Outcome = Bad
	}
	return v
}
