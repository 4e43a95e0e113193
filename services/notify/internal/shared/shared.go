// Package shared keeps the small states that replicas share for as long as they
// last, and a copy of each to go on with while the server is away. Packages rate
// and breaker decide on them; losing all of it loses no notification.
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
	// maxKnown bounds the copies.
	maxKnown = 20_000
	// exchangeTimeout bounds all that one question or change asks of the server,
	// backOff is how long a replica goes on alone after one without an answer.
	exchangeTimeout = 300 * time.Millisecond
	backOff         = time.Second
	// tries is how often a state that others have changed meanwhile is decided again.
	tries = 64
	// breaks is how many connections may turn out broken before the server counts
	// as away: after a restart of it, each that was kept does.
	breaks = 64
)

// KV is a compare-and-swap store of texts by key. A key that was never written has the empty text.
type KV interface {
	Get(ctx context.Context, key string) (string, error)
	// Swap writes a text that is still the old one, for a life, and reports whether it did.
	Swap(ctx context.Context, key, old, new string, life time.Duration) (bool, error)
}

// Options of States. KV may be nil: then each replica is alone.
type Options struct {
	KV KV
	// Merge gives the one of two copies of a state that counts; either may be empty.
	Merge func(a, b string) string
	// Life is how long a state is kept without a change.
	Life time.Duration
	Log  *slog.Logger
	Now  func() time.Time
}

// States are one kind of state by key. It is safe for concurrent use.
type States struct {
	o Options

	// changing keeps this replica's own changes from being in each other's way.
	changing sync.Mutex

	mu    sync.Mutex
	known map[string]copied
	// alone is until when the server is not asked.
	alone time.Time
}

// copied is the last a replica saw of a state.
type copied struct {
	text string
	at   time.Time
}

// New returns States that know nothing yet.
func New(o Options) *States { return &States{o: o, known: make(map[string]copied)} }

// Change replaces a state by what step makes of it. step may be asked more than
// once and with another state each time; the last one counts.
func (s *States) Change(ctx context.Context, key string, step func(old string) (next string)) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.isAlone() {
		err := s.reach(ctx, func(ctx context.Context) error { return s.exchange(ctx, key, step) })
		if err == nil {
			return
		}
		s.o.Log.DebugContext(ctx, "shared state goes on alone", slog.String("error", err.Error()))
	}
	s.keep(key, step(s.copyOf(key)))
}

// errContended says that others changed a state too often to get between.
var errContended = errors.New("shared: the state changes too fast")

// exchange changes the shared state, again where others were quicker.
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

// reach asks the server, again where a connection that was kept is broken, and
// goes on alone for a while when there is no answer. Asking twice is harmless: a
// change whose answer was lost is decided again upon what it made.
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
	s.part()
	return err
}

// Look reads a state, which may be as old as fresh.
func (s *States) Look(ctx context.Context, key string, fresh time.Duration) (text string) {
	s.mu.Lock()
	seen, ok := s.known[key]
	s.mu.Unlock()
	if ok && s.o.Now().Sub(seen.at) < fresh || s.isAlone() {
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

func (s *States) isAlone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.KV == nil || s.o.Now().Before(s.alone)
}

func (s *States) part() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone = s.o.Now().Add(backOff)
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
// of anything. The server may still know it.
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
