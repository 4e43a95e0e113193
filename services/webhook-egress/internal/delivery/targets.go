package delivery

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
)

const (
	// lookupTime is how long an enqueue waits for a DNS lookup. Slower names are accepted; the decisive check happens
	// when the address is dialled.
	lookupTime = 250 * time.Millisecond
	// checkLifetime is how long a host that passed the check is not looked up again.
	checkLifetime = 30 * time.Second
	// maxChecked bounds the number of remembered hosts.
	maxChecked = 10_000
)

// Targets checks URLs and caches which hosts have recently passed.
type Targets struct {
	guard Guard
	now   func() time.Time
	mu    sync.Mutex
	seen  map[string]time.Time // when the check of a host expires
}

// NewTargets returns a Targets that checks with guard.
func NewTargets(guard Guard, now func() time.Time) *Targets {
	return &Targets{guard: guard, now: now, seen: make(map[string]time.Time)}
}

// Check returns the canonical form of an allowed URL. A refusal names the rule and the field, which is `url`.
func (t *Targets) Check(ctx context.Context, raw string) (*url.URL, error) {
	return t.CheckField(ctx, "url", raw)
}

// CheckField is Check for the URL in another field.
func (t *Targets) CheckField(ctx context.Context, field, raw string) (*url.URL, error) {
	u, err := t.guard.CheckURL(raw)
	if err != nil {
		return nil, refuseTarget(field, err)
	}
	if t.known(u.Host) {
		return u, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	if err := t.guard.CheckHost(ctx, u); err != nil {
		return nil, refuseTarget(field, err)
	}
	t.remember(u.Host)
	return u, nil
}

func (t *Targets) known(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now().Before(t.seen[host])
}

func (t *Targets) remember(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seen) >= maxChecked {
		clear(t.seen)
	}
	t.seen[host] = t.now().Add(checkLifetime)
}

func refuseTarget(field string, err error) error {
	refusal, ok := errors.AsType[*netguard.Refusal](err)
	if !ok {
		return apierr.Invalid(field, "cannot be checked").Wrap(err)
	}
	return apierr.New(apierr.KindInvalid, ReasonTargetNotAllowed, field+": "+refusal.Text+" (rule: "+refusal.Rule+")").Wrap(err)
}
