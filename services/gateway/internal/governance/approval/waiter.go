package approval

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// maxWaiters bounds the calls that a replica holds until they are decided. One organization may have waiterShare percent
	// of them.
	maxWaiters, waiterShare = 1000, 50
	// lookEvery is how often decisions are looked for that no notice came of.
	lookEvery = time.Second
	// lookTime bounds one look.
	lookTime = 5 * time.Second
)

var (
	errTooManyWaiters = apierr.Unavailable("too many calls wait for their approvals on this replica", nil)
	errDraining       = apierr.Unavailable("this replica stops", nil)
)

// Waiters wakes callers that wait for decisions, whichever replica they are made on. Safe for concurrent use.
type Waiters struct {
	decided func(ctx context.Context, refs []string, now time.Time) ([]string, error)
	wake    chan struct{}
	drain   chan struct{} // closed once nothing may wait any more

	places *fairshare.Pool

	mu sync.Mutex
	of map[string]map[chan struct{}]struct{}
}

// NewWaiters returns Waiters that look for decisions by decided; see CallStore.
func NewWaiters(decided func(ctx context.Context, refs []string, now time.Time) ([]string, error)) *Waiters {
	return &Waiters{
		decided: decided, wake: make(chan struct{}, 1), drain: make(chan struct{}), places: fairshare.New(maxWaiters, waiterShare),
		of: make(map[string]map[chan struct{}]struct{}),
	}
}

// Wake makes the waiters look for decisions at once. It doesn't wait.
func (w *Waiters) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Drain ends the waiting of all, for a replica that stops. It must be called once at most.
func (w *Waiters) Drain() { close(w.drain) }

// Wait returns true once an organization's approval is decided or expired, and false at the time until. The error is ctx's,
// or says that too many calls wait, on this replica or of the organization, or that the replica stops.
func (w *Waiters) Wait(ctx context.Context, organization, ref string, until time.Time) (decided bool, err error) {
	if !w.places.Acquire(organization, 1) {
		return false, errTooManyWaiters
	}
	defer w.places.Release(organization, 1)
	woken := w.add(ref)
	defer w.remove(ref, woken)
	w.Wake() // It may have been decided before.
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-w.drain:
		return false, errDraining
	case <-woken:
		return true, nil
	case <-timer.C:
		return false, nil
	}
}

func (w *Waiters) add(ref string) (woken chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[ref] == nil {
		w.of[ref] = make(map[chan struct{}]struct{})
	}
	woken = make(chan struct{}, 1)
	w.of[ref][woken] = struct{}{}
	return woken
}

func (w *Waiters) remove(ref string, woken chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of[ref], woken)
	if len(w.of[ref]) == 0 {
		delete(w.of, ref)
	}
}

// Run wakes waiters until ctx ends.
func (w *Waiters) Run(ctx context.Context, log *slog.Logger) error {
	return lifecycle.Repeat{Every: lookEvery, Wake: w.wake, Do: w.look, Log: log, Name: "wait for approvals"}.Run(ctx)
}

// look wakes those whose approvals wait no longer.
func (w *Waiters) look(ctx context.Context) error {
	refs := w.refs()
	if len(refs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	decided, err := w.decided(ctx, refs, present())
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range decided {
		for woken := range w.of[ref] {
			select {
			case woken <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

func (w *Waiters) refs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	refs := make([]string, 0, len(w.of))
	for ref := range w.of {
		refs = append(refs, ref)
	}
	return refs
}
