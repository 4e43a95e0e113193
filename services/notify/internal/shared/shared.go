// Package shared keeps the small states that replicas share for as long as they
// last, and a copy of each to go on with while the store is away. Packages rate
// and breaker decide on them; losing all of them loses no notification.
package shared

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/kv"
)

const (
	// maxKnown bounds the number of local copies.
	maxKnown = 20_000
	// exchangeTimeout bounds all calls of the store that one question or change makes.
	exchangeTimeout = 300 * time.Millisecond
	// tries is how often a state that others have changed meanwhile is decided again.
	tries = 64
	// reconnects is how many calls may fail in a row before the store counts as away:
	// after a restart of the server each connection that was kept fails once.
	reconnects = 64
)

// Options of States.
type Options struct {
	// Store has the states that replicas share; nil for a replica that is alone.
	Store kv.Store
	// Merge gives the one of two copies of a state that counts; either may be empty.
	Merge func(a, b string) string
	// Life is how long a state is kept without a change.
	Life time.Duration
	Log  *slog.Logger
	Now  func() time.Time
}

// States holds one kind of state by key. It is safe for concurrent use.
type States struct {
	o      Options
	shared *kv.Updater

	// changing serializes this replica's own changes, so that they do not conflict.
	changing sync.Mutex

	mu    sync.Mutex
	known map[string]copied
}

// copied is a replica's copy of a state.
type copied struct {
	text string
	at   time.Time
}

// New returns States that know nothing yet.
func New(o Options) *States {
	shared := kv.NewUpdater(kv.Options{Store: o.Store, Tries: tries, Reconnects: reconnects, Now: o.Now})
	return &States{o: o, shared: shared, known: make(map[string]copied)}
}

// Change replaces a state by the result of step. step may be called more than once, each time with another state; the
// last result counts.
func (s *States) Change(ctx context.Context, key string, step func(old string) (next string)) {
	s.changing.Lock()
	defer s.changing.Unlock()
	next, err := s.exchange(ctx, key, step)
	if err != nil {
		if !errors.Is(err, kv.ErrAlone) {
			s.o.Log.DebugContext(ctx, "shared state goes on alone", slog.String("error", err.Error()))
		}
		next = step(s.copyOf(key))
	}
	s.keep(key, next)
}

// exchange changes the shared state, and returns what it is now.
func (s *States) exchange(ctx context.Context, key string, step func(string) string) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	_, err = s.shared.Update(ctx, []string{kv.Key(key)}, func(_ int, old string) (string, time.Duration) {
		next = step(s.o.Merge(s.copyOf(key), old))
		return next, s.o.Life
	})
	return next, err
}

// Look returns a state, which may be as old as fresh.
func (s *States) Look(ctx context.Context, key string, fresh time.Duration) (text string) {
	s.mu.Lock()
	seen, ok := s.known[key]
	s.mu.Unlock()
	if ok && s.o.Now().Sub(seen.at) < fresh || s.shared.Alone() {
		return seen.text
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	text, err := s.shared.Get(ctx, kv.Key(key))
	if err != nil {
		return seen.text
	}
	text = s.o.Merge(seen.text, text)
	s.keep(key, text)
	return text
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

// forget makes room for an eighth of all copies at once, so that a caller with ever
// new keys doesn't have all of them looked at for each: first of what is old, else
// of anything. The store may still have it.
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
