package health

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const (
	// MaxCooldown caps the cooldown that a vendor asks for: an uncapped one could take a key out of use for a day.
	MaxCooldown = 5 * time.Minute
	// keyCooldown is how long a refused credential is not used: long enough to spare the vendor, short enough for a key
	// that was just repaired. For a credential of a pool, which the others replace, it doubles with each refusal in a row,
	// up to MaxCooldown.
	keyCooldown = 10 * time.Second
	// guessCooldown is the cooldown after a rate limit without a Retry-After.
	guessCooldown = time.Second
	// staleLimit is how long a limit applies when the vendor does not say when it ends.
	staleLimit = time.Second
	// maxCredentials bounds the credentials that are kept for each vendor and for each circuit.
	maxCredentials = 1024
)

// credentials holds what is known of the credentials of one vendor, or of one model family of a vendor, by fingerprint.
// Only credentials with a cooldown or a known limit are in it. Reads take no lock.
type credentials struct {
	mu sync.Mutex // of writes
	by atomic.Pointer[map[string]*allowance]
}

// allowance is what is known of one credential.
type allowance struct {
	mu sync.Mutex
	// all is the cooldown that holds for every organization. own is that of the organization numbered by, which met the
	// longest refusal.
	all, own cooldown
	by       uint64
	// refused counts the refusals in a row.
	refused int
	limits  provider.Limits
	// requests and tokens are when the limits end.
	requests, tokens time.Time
}

// cooldown is until when a credential is not used, and why.
type cooldown struct {
	until time.Time
	cause Cause
}

func (c *credentials) find(fingerprint string) *allowance {
	if by := c.by.Load(); by != nil {
		return (*by)[fingerprint]
	}
	return nil
}

func (c *credentials) findOrMake(fingerprint string, now time.Time) *allowance {
	if a := c.find(fingerprint); a != nil {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.by.Load()
	next := make(map[string]*allowance)
	if old != nil {
		if a := (*old)[fingerprint]; a != nil {
			return a
		}
		maps.Copy(next, *old)
	}
	if len(next) >= maxCredentials {
		maps.DeleteFunc(next, func(_ string, a *allowance) bool { return a.quiet(now) })
	}
	a := &allowance{}
	if len(next) < maxCredentials {
		next[fingerprint] = a
		c.by.Store(&next)
	}
	return a
}

// cool starts a cooldown of a credential after a refusal of an organization's call. by is the organization's number; 0
// is a call of none.
func (c *credentials) cool(fingerprint string, cause Cause, by uint64, span time.Duration, now time.Time) {
	a := c.findOrMake(fingerprint, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cool(cooldown{now.Add(min(span, MaxCooldown)), cause}, by, now)
}

// coolRefused starts a cooldown of a pool's credential that the vendor refused.
func (c *credentials) coolRefused(fingerprint string, by uint64, now time.Time) {
	a := c.findOrMake(fingerprint, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.all.until) && !now.Before(a.own.until) { // Calls that were in flight count once.
		a.refused++
	}
	span := MaxCooldown
	if doublings := max(a.refused-1, 0); doublings < 5 {
		span = keyCooldown << doublings
	}
	a.cool(cooldown{now.Add(span), CauseKeyRefused}, by, now)
}

// good notes that the vendor took a credential.
func (c *credentials) good(fingerprint string) {
	if a := c.find(fingerprint); a != nil {
		a.mu.Lock()
		a.refused = 0
		a.mu.Unlock()
	}
}

// cool notes a refusal; of two cooldowns the longer one holds. A refusal that only one organization has met may be
// caused by its own request (too large for the limit, or of a feature that the key lacks), so it holds for that
// organization alone. Once a second organization meets one too, it holds for all for as long as both cooldowns last.
func (a *allowance) cool(r cooldown, by uint64, now time.Time) {
	switch {
	case by == 0:
		a.all = a.all.longer(r)
	case a.by == by:
		a.own = a.own.longer(r)
	case !now.Before(a.own.until):
		a.own, a.by = r, by
	default:
		both := r
		if a.own.until.Before(r.until) {
			both, a.own, a.by = a.own, r, by
		}
		a.all = a.all.longer(both)
	}
}

func (r cooldown) longer(other cooldown) cooldown {
	if other.until.After(r.until) {
		return other
	}
	return r
}

// learn keeps what a vendor reported as remaining.
func (c *credentials) learn(fingerprint string, l provider.Limits, now time.Time) {
	if !l.Requests.Known && !l.Tokens.Known {
		return
	}
	a := c.findOrMake(fingerprint, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = l
	a.requests, a.tokens = now.Add(holds(l.Requests)), now.Add(holds(l.Tokens))
}

func holds(a provider.Allowance) time.Duration {
	if a.Reset <= 0 {
		return staleLimit
	}
	return min(a.Reset, MaxCooldown)
}

// refuse returns why a credential can't be used for an organization's call of about that many tokens; nil if it can.
func (c *credentials) refuse(fingerprint string, by uint64, tokens int, now time.Time) *Refusal {
	a := c.find(fingerprint)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.all
	if by != 0 && by == a.by {
		r = r.longer(a.own)
	}
	switch {
	case now.Before(r.until):
		return &Refusal{Cause: r.cause, RetryAfter: r.until.Sub(now)}
	case a.limits.Requests.Known && a.limits.Requests.Remaining == 0 && now.Before(a.requests):
		return &Refusal{Cause: CauseNoRequests, RetryAfter: a.requests.Sub(now), Soft: true}
	case a.limits.Tokens.Known && a.limits.Tokens.Remaining < int64(max(tokens, 1)) && now.Before(a.tokens):
		return &Refusal{Cause: CauseNoTokens, RetryAfter: a.tokens.Sub(now), Soft: true}
	}
	return nil
}

// rest returns the longer one of the cooldowns.
func (a *allowance) rest() cooldown {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.longer(a.own)
}

func (a *allowance) quiet(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !now.Before(a.all.until) && !now.Before(a.own.until) && !now.Before(a.requests) && !now.Before(a.tokens)
}
