// Package shared holds the small, short-lived states that replicas share, with a local copy of each for the time that
// the server is unavailable. Packages rate and breaker use it; losing all of it loses no notification.
package shared

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// maxKnown bounds the number of local copies.
	maxKnown = 20_000
	// exchangeTimeout bounds all requests of one read or change to the server; backOff is how long a replica uses its
	// copies after a failed one.
	exchangeTimeout = 300 * time.Millisecond
	backOff         = time.Second
	// tries is how often a change is recomputed after another replica changed the state first.
	tries = 64
	// breaks is how many broken connections are replaced before the server counts as unavailable: after its restart,
	// every pooled connection is broken.
	breaks = 64
)

// KV is a compare-and-swap store of texts by key. A key that was never written is empty.
type KV interface {
	Get(ctx context.Context, key string) (string, error)
	// Swap writes next if the text still equals old, with a lifetime, and reports whether it did.
	Swap(ctx context.Context, key, old, new string, life time.Duration) (bool, error)
}

// Options configures States. With a nil KV each replica uses its own states.
type Options struct {
	KV KV
	// Merge returns the one of two copies of a state that counts; either may be empty.
	Merge func(a, b string) string
	// Life is how long a state is kept without a change.
	Life time.Duration
	Log  *slog.Logger
	Now  func() time.Time
}

// States holds one kind of state by key. It is safe for concurrent use.
type States struct {
	o Options

	// changing serializes this replica's own changes, so that they do not conflict.
	changing sync.Mutex

	mu    sync.Mutex
	known map[string]copied
	// bypassUntil is the time until which the server is not used, after a failed request.
	bypassUntil time.Time
}

// copied is a replica's copy of a state.
type copied struct {
	text string
	at   time.Time
}

// New returns States without any state.
func New(o Options) *States { return &States{o: o, known: make(map[string]copied)} }

// Change replaces a state by the result of step. step may be called more than once, each time with another state; the
// last result counts.
func (s *States) Change(ctx context.Context, key string, step func(old string) (next string)) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.bypassed() {
		err := s.reach(ctx, func(ctx context.Context) error { return s.exchange(ctx, key, step) })
		if err == nil {
			return
		}
		s.o.Log.DebugContext(ctx, "shared state is local: the server failed", slog.String("error", err.Error()))
	}
	s.keep(key, step(s.copyOf(key)))
}

// errContended reports that other replicas changed a state too often.
var errContended = errors.New("shared: the state changes too fast")

// exchange changes the shared state, and retries if another replica changed it first.
func (s *States) exchange(ctx context.Context, key string, step func(string) string) error {
	for range tries {
		old, err := s.o.KV.Get(ctx, key)
		if err != nil {
			return err
		}
		next := step(s.o.Merge(s.copyOf(key), old))
		swapped, err := s.o.KV.Swap(ctx, key, old, next, s.o.Life)
		if err != nil {
			return err
		}
		if swapped {
			s.keep(key, next)
			return nil
		}
	}
	return errContended
}

// reach runs ask against the server. It retries on broken connections and bypasses the server for a while after
// another failure. Repeating ask is harmless: a change whose response was lost is recomputed from its own result.
func (s *States) reach(ctx context.Context, ask func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	for range breaks {
		if err = ask(ctx); err == nil || errors.Is(err, errContended) {
			return err
		}
		if failed, ok := errors.AsType[*net.OpError](err); ctx.Err() != nil || ok && failed.Op == "dial" {
			break
		}
	}
	s.bypassServer()
	return err
}

// Look returns a state, which may be as old as fresh.
func (s *States) Look(ctx context.Context, key string, fresh time.Duration) (text string) {
	s.mu.Lock()
	seen, ok := s.known[key]
	s.mu.Unlock()
	if ok && s.o.Now().Sub(seen.at) < fresh || s.bypassed() {
		return seen.text
	}
	err := s.reach(ctx, func(ctx context.Context) (err error) {
		text, err = s.o.KV.Get(ctx, key)
		return err
	})
	if err != nil {
		return seen.text
	}
	text = s.o.Merge(seen.text, text)
	s.keep(key, text)
	return text
}

func (s *States) bypassed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.KV == nil || s.o.Now().Before(s.bypassUntil)
}

func (s *States) bypassServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bypassUntil = s.o.Now().Add(backOff)
}

func (s *States) copyOf(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.known[key]
	if s.o.Now().Sub(seen.at) > s.o.Life {
		return ""
	}
	return seen.text
}

func (s *States) keep(key, text string) {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.known[key]; !known && len(s.known) >= maxKnown {
		s.forget(now)
	}
	s.known[key] = copied{text, now}
}

// forget removes an eighth of all copies at once, so that ever new keys do not cause a scan each: first old ones,
// then any. The server may still hold them.
func (s *States) forget(now time.Time) {
	for key, seen := range s.known {
		if now.Sub(seen.at) > s.o.Life {
			delete(s.known, key)
		}
	}
	for key := range s.known {
		if len(s.known) <= maxKnown-maxKnown/8 {
			return
		}
		delete(s.known, key)
	}
}
