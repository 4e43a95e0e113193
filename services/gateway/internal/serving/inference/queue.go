package inference

import (
	"context"
	"errors"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// choose books a call to the first of the candidates, with any of their credentials, that limits have room for, and
// returns them with that one first. It waits if none has room.
func (r *round) choose(ctx context.Context, candidates []candidate) ([]candidate, error) {
	if !r.isLimited() {
		return candidates, nil
	}
	open, of := r.open(candidates)
	d := r.demand(open)
	if len(open) == 0 || !d.IsLimited() {
		return candidates, nil
	}
	at, reservation, err := r.queue(ctx, d)
	if err != nil {
		return nil, err
	}
	chosen := r.assign(open[at], reservation)
	first := candidates[of[at]]
	for _, other := range append([]provider.Credential{first.credential}, first.others...) {
		if other.Fingerprint != chosen.credential.Fingerprint {
			chosen.others = append(chosen.others, other)
		}
	}
	return slices.Concat([]candidate{chosen}, candidates[:of[at]], candidates[of[at]+1:]), nil
}

// open returns candidates with one credential each, of those that may be called now, and which of the candidates each is
// of.
func (r *round) open(candidates []candidate) (all []candidate, of []int) {
	for i, c := range candidates {
		for {
			if len(all) == maxFull {
				return all, of
			}
			rest := c.others
			if c.others = nil; r.engine.Health.Admits(r.asks(&c, false)) {
				all, of = append(all, c), append(of, i)
			}
			if len(rest) == 0 {
				break
			}
			c.credential, c.others = rest[0], rest[1:]
		}
	}
	return all, of
}

// assign keeps a reservation for the candidate that is called next.
func (r *round) assign(c candidate, reservation *quota.Reservation) candidate {
	made := r.booked(&c, reservation)
	r.held = &made
	c.held = r.held
	return c
}

// await waits until limits have room for one of the candidates that they kept from serving after another one had failed,
// and calls it. It reports whether the request is served or has ended.
func (r *round) await(ctx context.Context) (done bool) {
	r.awaits = true
	for r.left() > 0 && len(r.full) > 0 {
		if err := r.over(ctx); err != nil {
			return r.end(r.full[0], err) == over
		}
		at, reservation, err := r.queue(ctx, r.demand(r.full))
		if err != nil {
			return r.end(r.full[0], err) == over
		}
		c := r.assign(r.full[at], reservation)
		r.full = slices.Delete(r.full, at, at+1)
		if v := r.attempt(ctx, c, nil, len(r.full) == 0, true); v != next {
			return v == over
		}
	}
	return false
}

// Outcomes of a wait, as the metric names them.
const (
	queueServed  = "served"
	queueRefused = "refused"
	queueLeft    = "left"
)

// queue books one of the alternatives of a demand, waits for room if need be, and returns which.
func (r *round) queue(ctx context.Context, d quota.Demand) (at int, reservation *quota.Reservation, err error) {
	d.Wait = max(0, min(r.fleet.QuotaWait-r.queued, time.Until(r.deadline(r.engine.Clocks))))
	began := time.Now()
	reservation, err = r.engine.Quotas.Reserve(ctx, d)
	waited := time.Since(began)
	r.queued += waited
	refused, isRefusal := errors.AsType[*quota.RefusedError](err)
	switch {
	case err == nil && !reservation.Queued():
		r.queued -= waited
		return reservation.Alternative(), reservation, nil
	case err == nil:
		r.engine.metrics.queued(ctx, waited, queueServed)
		return reservation.Alternative(), reservation, nil
	case isRefusal:
		r.engine.metrics.queued(ctx, waited, queueRefused)
		r.engine.metrics.refused(ctx, refused)
		return 0, nil, refusalOf(refused)
	case ctx.Err() != nil:
		r.engine.metrics.queued(ctx, waited, queueLeft)
		return 0, nil, ended(ctx)
	}
	return 0, nil, apierr.Internal(err)
}

// refusalOf returns the caller's error for a request that a limit refuses.
func refusalOf(refused *quota.RefusedError) *apierr.Error {
	if refused.Cause == quota.CauseTooLarge {
		return &apierr.Error{Kind: apierr.KindInvalid, Reason: ReasonExceedsQuota, Class: apierr.ClassPolicy, Text: refused.Error()}
	}
	e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, refused.Error())
	e.RetryAfter = refused.RetryAfter
	return e.Wrap(refused)
}

// keepFull keeps a candidate that limits alone keep from serving, or its vendor's refusal of this moment.
func (r *round) keepFull(c candidate) {
	if !r.isLimited() {
		return
	}
	if _, limited := r.claim(&c); limited || r.own == nil && len(r.ownClaims()) > 0 {
		c.held, c.others = nil, nil
		if len(r.full) < maxFull {
			r.full = append(r.full, c)
		}
	}
}

// maxFull bounds the candidates for which a request waits at once.
const maxFull = 32
