package identity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/secret"
)

const (
	// idleAfter is how long an organization's identity is renewed after its last use.
	idleAfter = time.Hour
	// minAge is how old a credential must be before it is replaced because the vendor refused it.
	minAge = time.Second
	// minBackoff and maxBackoff bound the wait after a failed exchange.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// maxLife is the longest that a credential is used, whatever its token server says.
	maxLife = 24 * time.Hour
)

// Identity is one identity with its present credential. Safe for concurrent use.
type Identity struct {
	manager *Manager
	config  Config
	kind    string
	source  Source
	owner   string
	warm    bool // renewed whether it is used or not
	// organization is whose share of the renewals the identity uses: the fingerprint for an identity of Own, which has
	// a share to itself, and empty for the fleet.
	organization string

	present atomic.Pointer[granted]
	used    atomic.Int64 // Unix seconds of the last use
	flight  singleflight.Group
	running atomic.Bool // Run exchanges it now

	mu          sync.Mutex
	fingerprint string
	failures    int // since the last success
	err         error
	retry       time.Time // the earliest next exchange after a failure
}

// granted is a credential that can be used now.
type granted struct {
	credential             provider.Credential
	issued, renew, expires time.Time
}

func (g *granted) usable(now time.Time) bool {
	return g != nil && (g.expires.IsZero() || now.Before(g.expires))
}

func newIdentity(m *Manager, c Config, source Source, owner string, warm bool) *Identity {
	i := &Identity{manager: m, config: c, kind: c.Kind(), source: source, owner: owner, warm: warm}
	i.fingerprint = m.Fingerprint(secret.New(c.subject("")))
	return i
}

// Credential returns the current credential. It waits only if there is none: before the first exchange, after a Drop, or
// if renewing has failed for as long as the last credential lived. An error wraps ErrUnavailable unless it is that of
// ctx.
func (i *Identity) Credential(ctx context.Context) (provider.Credential, error) {
	if c, ok := i.Current(); ok {
		return c, nil
	}
	if err := i.resting(time.Now()); err != nil {
		return provider.Credential{}, err
	}
	done := i.flight.DoChan("", func() (any, error) { return nil, i.exchange(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		return provider.Credential{}, fmt.Errorf("wait for the exchange of the identity: %w", context.Cause(ctx))
	case result := <-done:
		if g := i.present.Load(); g.usable(time.Now()) {
			return g.credential, nil
		}
		return provider.Credential{}, unavailable(result.Err)
	}
}

// Current returns the current credential if there is one, without waiting and without an exchange. A pool of credentials
// prefers those that have one.
func (i *Identity) Current() (provider.Credential, bool) {
	now := time.Now()
	if second := now.Unix(); i.used.Load() != second {
		i.used.Store(second)
	}
	g := i.present.Load()
	if !g.usable(now) {
		return provider.Credential{}, false
	}
	return g.credential, true
}

// Drop makes the identity exchange anew if its present credential is still the one that a vendor refused. A credential
// that is younger than a second is kept, so that a vendor that refuses all of them causes no storm of exchanges.
func (i *Identity) Drop(refused provider.Credential) {
	g := i.present.Load()
	if g == nil || time.Since(g.issued) < minAge || !same(g.credential, refused) {
		return
	}
	if i.present.CompareAndSwap(g, nil) {
		i.manager.look()
	}
}

func same(a, b provider.Credential) bool {
	if a.Signer != nil || b.Signer != nil {
		return a.Signer == b.Signer
	}
	return a.Key.Equal(b.Key)
}

// Status is what operators see of an identity.
type Status struct {
	// Kind is "aws", "gcp", "azure", "oidc" or KindOAuth.
	Kind string
	// Fingerprint is a keyed hash of what the identity is called.
	Fingerprint string
	// Issued, Renews and Expires are the times of the present credential; zero if there is none, and Expires also if it
	// does not end.
	Issued, Renews, Expires time.Time
	// Failures is the number of exchanges that failed since the last that did not, and Error the last failure.
	Failures int
	Error    string
}

// Status returns the present state.
func (i *Identity) Status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := Status{Kind: i.kind, Fingerprint: i.fingerprint, Failures: i.failures}
	if i.err != nil {
		s.Error = i.err.Error()
	}
	if g := i.present.Load(); g != nil {
		s.Issued, s.Renews, s.Expires = g.issued, g.renew, g.expires
	}
	return s
}

// resting returns the last failure until the next exchange may begin.
func (i *Identity) resting(now time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failures > 0 && now.Before(i.retry) {
		return unavailable(i.err)
	}
	return nil
}

func unavailable(err error) error {
	if err == nil {
		return ErrUnavailable
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// exchange replaces the credential, unless that has just been done.
func (i *Identity) exchange(ctx context.Context) error {
	began := time.Now()
	if g := i.present.Load(); g.usable(began) && began.Before(g.renew) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	var grant Grant
	err := lifecycle.Protect(ctx, "exchange of an identity", func() (err error) {
		grant, err = i.source.Exchange(bounded)
		return err
	})
	now := time.Now()
	if err == nil {
		err = grant.check(now)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // The replica stops; this says nothing of the identity.
	case err != nil:
		i.failed(ctx, err, now)
		return err
	}
	i.granted(ctx, grant, began, now)
	return nil
}

func (i *Identity) granted(ctx context.Context, grant Grant, began, now time.Time) {
	g := &granted{issued: now, expires: grant.Expires}
	if latest := began.Add(maxLife); !g.expires.IsZero() && g.expires.After(latest) {
		g.expires = latest
	}
	g.renew = renewal(grant, began, g.expires, rand.Float64()) //nolint:gosec // It spreads load and guards nothing.

	i.mu.Lock()
	recovered := i.failures
	i.failures, i.err, i.retry = 0, nil, time.Time{}
	if grant.Subject != "" {
		i.fingerprint = i.manager.Fingerprint(secret.New(i.config.subject(grant.Subject)))
	}
	g.credential = grant.credential(i.owner, i.fingerprint)
	i.present.Store(g)
	i.mu.Unlock()

	i.manager.count(ctx, i.kind, "granted")
	if recovered > 0 {
		i.manager.Log.InfoContext(ctx, "identity is exchanged again", "kind", i.kind, "fingerprint", g.credential.Fingerprint, "failures", recovered)
	}
	i.manager.look()
}

func (i *Identity) failed(ctx context.Context, err error, now time.Time) {
	i.mu.Lock()
	i.failures++
	i.err = err
	failures, fingerprint := i.failures, i.fingerprint
	i.retry = now.Add(backoff(failures, rand.Float64())) //nolint:gosec // It spreads load and guards nothing.
	i.mu.Unlock()

	i.manager.count(ctx, i.kind, "failed")
	if failures == 1 {
		g := i.present.Load()
		i.manager.Log.WarnContext(ctx, "identity can't be exchanged", "kind", i.kind, "fingerprint", fingerprint,
			"usable", g.usable(now), "error", err.Error())
	}
	i.manager.look()
}

// renewal returns when a credential is renewed: when the vendor says, or after four fifths of its life. Up to a
// twentieth of that time is taken off by chance, 0 to 1, so that the replicas of a fleet don't ask all at once.
func renewal(grant Grant, issued, expires time.Time, chance float64) time.Time {
	at := grant.Renew
	if life := expires.Sub(issued); !expires.IsZero() && (at.IsZero() || !at.After(issued) || !at.Before(expires)) {
		at = issued.Add(life * 4 / 5)
	}
	wait := at.Sub(issued)
	return issued.Add(max(wait-time.Duration(float64(wait)*chance/20), minAge))
}

// backoff returns how long to wait after a number of failures, from a second to a minute; chance, 0 to 1, takes off up
// to a quarter.
func backoff(failures int, chance float64) time.Duration {
	wait := min(minBackoff<<min(max(failures-1, 0), 10), maxBackoff)
	return max(wait-time.Duration(float64(wait)*chance/4), minBackoff)
}

// due returns when Run exchanges the identity next; ok is false if it doesn't.
func (i *Identity) due(now time.Time) (at time.Time, ok bool) {
	if !i.warm && now.Sub(time.Unix(i.used.Load(), 0)) > idleAfter {
		return at, false
	}
	g := i.present.Load()
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.running.Load():
		return at, false // It makes Run look again when it is done.
	case g == nil:
		return later(now, i.retry), i.warm || i.failures > 0 // Others are exchanged by who uses them.
	}
	return later(g.renew, i.retry), true
}

// rest drops the credential of an identity that is not renewed, once it has ended.
func (i *Identity) rest(now time.Time) {
	if g := i.present.Load(); g != nil && !g.usable(now) {
		i.present.CompareAndSwap(g, nil)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
