package inference

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Quotas are the books of what calls take of limits; see quota.Books.
type Quotas interface {
	// Reserve books a call, or waits until it can. The error is a *quota.RefusedError if the call may not be made.
	Reserve(ctx context.Context, d quota.Demand) (*quota.Reservation, error)
	// Correct applies what a vendor says is left of a subject, Exhausted that it refused a call.
	Correct(s quota.Subject, remaining int64, reset time.Duration)
	Exhausted(s quota.Subject, retryAfter time.Duration)
	// Load returns how a subject stands.
	Load(s quota.Subject) quota.Load
}

// Limits are the limits that a policy states.
type Limits interface {
	// CredentialQuota returns the limit of one of the fleet's credentials for a model, and under which subject it counts.
	CredentialQuota(t provider.Target, unlisted bool, credential string) (quota.Subject, quota.Limit)
	// OrganizationQuota returns the limit of an organization for each model.
	OrganizationQuota(organization string) quota.Limit
}

// ReasonExceedsQuota is the reason of a refusal because no limit can ever hold the request.
const ReasonExceedsQuota apierr.Reason = "exceeds_quota"

// quotas are what a request has booked, and how it waited.
type quotas struct {
	// own are the claims of the organization and the key, booked with the first call and settled at the end.
	own *quota.Reservation
	// taken counts the tokens of the calls that were billed before the present one, and beside it.
	taken atomic.Int64
	// input is the estimated input in tokens; 0 is not known yet.
	input int64
	// held is what was booked for the candidate that is called next.
	held *booking
	// full are the candidates that may serve once limits have room. awaits reports whether the request waits for that, and
	// queued how long it has waited.
	full   []candidate
	awaits bool
	queued time.Duration
}

// booking is what an attempt has booked of its credential's limit. The zero booking is nothing.
type booking struct {
	books       Quotas
	reservation *quota.Reservation
	subject     quota.Subject // empty if the credential has no limit for the model
}

// settle replaces what was booked with the tokens that the call took.
func (b *booking) settle(tokens int64) {
	if b.reservation != nil {
		b.reservation.Settle(tokens)
	}
}

// cancel gives back what was booked for a call that was not made.
func (b *booking) cancel() {
	if b.reservation != nil {
		b.reservation.Cancel()
	}
}

// take returns what was booked and leaves nothing.
func (b *booking) take() (taken booking) {
	if b != nil {
		taken, *b = *b, booking{}
	}
	return taken
}

// learn applies what the vendor says is left.
func (a *attempt) learn(l provider.Limits) {
	a.permit.Learn(l)
	a.booked.learn(l)
}

func (b *booking) learn(l provider.Limits) {
	if b.subject != "" && l.Tokens.Known {
		b.books.Correct(b.subject, l.Tokens.Remaining, l.Tokens.Reset)
	}
}

// exhausted applies that the vendor refused the call.
func (b *booking) exhausted(retryAfter time.Duration) {
	if b.subject != "" {
		b.books.Exhausted(b.subject, retryAfter)
	}
}

// isLimited reports whether limits apply to the request at all.
func (x *execution) isLimited() bool {
	return x.engine.Quotas != nil && (x.fleet.Limits != nil || x.request.KeyTerms.TokensPerMinute > 0)
}

// ownClaims returns what the request takes of the limits of its organization and its key, for the model that it is
// planned for first, whichever serves it.
func (x *execution) ownClaims() (claims []quota.Claim) {
	c := &x.candidates[0]
	model := quota.Name(c.Model)
	if c.Unlisted {
		model = quota.AnyModel
	}
	if x.fleet.Limits != nil {
		if limit := x.fleet.Limits.OrganizationQuota(x.request.Organization); limit != (quota.Limit{}) {
			claims = append(claims, quota.Claim{Subject: quota.Subject("organization/" + x.request.Organization + "/" + model), Limit: limit})
		}
	}
	if terms := &x.request.KeyTerms; terms.TokensPerMinute > 0 {
		claims = append(claims, quota.Claim{Subject: quota.Subject("key/" + terms.Key + "/" + model), Limit: quota.Limit{Tokens: terms.TokensPerMinute}})
	}
	return claims
}

// claim returns what a call to a candidate takes of its credential's limit; none where the credential has no limit.
func (x *execution) claim(c *candidate) (claim quota.Claim, limited bool) {
	if x.fleet.Limits == nil || c.credential.Name == "" {
		return claim, false
	}
	claim.Subject, claim.Limit = x.fleet.Limits.CredentialQuota(c.Target, c.Unlisted, c.credential.Name)
	return claim, claim.Limit != (quota.Limit{})
}

// demand returns what a call to one of the candidates needs before it may be made.
func (x *execution) demand(candidates []candidate) quota.Demand {
	d := quota.Demand{
		Queue: "model/" + quota.Name(x.candidates[0].String()), Organization: x.request.Organization, Weight: x.request.KeyTerms.Class.Weight(),
	}
	if x.own == nil {
		d.Claims = x.ownClaims()
	}
	var most int64
	for i := range candidates {
		c := &candidates[i]
		claims := []quota.Claim{}
		claim, limited := x.claim(c)
		if limited || len(d.Claims) > 0 {
			claim.Tokens = x.expects(c)
			most = max(most, claim.Tokens)
		}
		if limited {
			claims = append(claims, claim)
		}
		d.Alternatives = append(d.Alternatives, claims)
	}
	for i := range d.Claims {
		d.Claims[i].Tokens = most
	}
	return d
}

// reserveQuota books a call to a candidate, or returns why that is refused.
func (r *round) reserveQuota(ctx context.Context, c *candidate) (booking, *health.Refusal) {
	if !r.isLimited() {
		return booking{}, nil
	}
	if held := c.held.take(); held.reservation != nil {
		return held, nil
	}
	reservation, err := r.engine.Quotas.Reserve(ctx, r.demand([]candidate{*c}))
	if err != nil {
		refused := &health.Refusal{Cause: health.CauseQuota}
		if full, ok := errors.AsType[*quota.RefusedError](err); ok {
			refused.RetryAfter = full.RetryAfter
		} else if ctx.Err() == nil {
			r.engine.Log.ErrorContext(ctx, "a call could not be booked", slog.String("provider", c.Provider), slog.String("error", err.Error()))
		}
		return booking{}, refused
	}
	return r.booked(c, reservation), nil
}

// booked takes a reservation for a call to a candidate, and keeps what is the request's own of it.
func (r *round) booked(c *candidate, reservation *quota.Reservation) booking {
	if r.own == nil {
		r.own = reservation.Split()
	}
	claim, _ := r.claim(c)
	return booking{r.engine.Quotas, reservation, claim.Subject}
}

// settleQuotas settles what the request has booked, with the tokens that were billed.
func (x *execution) settleQuotas() {
	if !x.isLimited() {
		return
	}
	unused := x.held.take()
	unused.cancel()
	tokens := x.billedTokens()
	if x.present != nil {
		x.present.booked.settle(tokens)
	}
	if x.own != nil {
		x.own.Settle(x.taken.Load() + tokens)
	}
	x.learnUsual()
}

// billedTokens returns the tokens of the call that was billed last.
func (x *execution) billedTokens() int64 {
	if x.billed == nil || x.hit {
		return 0
	}
	return x.billed.tokens()
}

func (b *bill) tokens() int64 { return b.report.Usage.Prompt() + b.report.Usage.Completion() }
