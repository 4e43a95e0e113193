package budget

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store notes what it is asked, and is away where told.
type store struct {
	mu       sync.Mutex
	away     error
	refuses  error
	beats    int
	told     []map[Session]int // sessions, of the beats that changed them
	released []uuid.UUID
	forgets  int
	left     bool
}

func (s *store) answer(note func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		note()
	}
	return s.away
}

func (s *store) set(away error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *store) Reserve(context.Context, uuid.UUID, Call) error {
	return errors.Join(s.answer(func() {}), s.refuses)
}

func (s *store) Release(_ context.Context, _ uuid.UUID, calls []uuid.UUID) error {
	return s.answer(func() { s.released = append(s.released, calls...) })
}

func (s *store) Beat(_ context.Context, _ uuid.UUID, sessions map[Session]int, changed bool) error {
	return s.answer(func() {
		s.beats++
		if changed {
			s.told = append(s.told, sessions)
		}
	})
}

func (s *store) EndRuns(context.Context) error { return s.answer(func() {}) }

func (s *store) Forget(context.Context, uuid.UUID, time.Duration) error {
	return s.answer(func() { s.forgets++ })
}

func (s *store) Leave(context.Context, uuid.UUID) error { return s.answer(func() { s.left = true }) }

func none() map[Session]int { return nil }

// A ceiling is not overrun because the store is away: the call is refused, and
// what may have come through is given back once the store is there.
func TestReserveWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{away: errors.New("away")}
		k := NewKeeper(s, slog.New(slog.DiscardHandler), none)
		call := Call{ID: uuid.New()}
		err := k.Reserve(t.Context(), call)
		if e := apierr.From(err); e.Kind != apierr.KindUnavailable || !e.ErrorClass().Retryable() {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx) })
		time.Sleep(3 * beatEvery)
		s.set(nil)
		time.Sleep(2 * beatEvery)
		cancel()
		group.Wait()
		if len(s.released) != 1 || s.released[0] != call.ID {
			t.Errorf("released %v", s.released)
		}
	})
}

func TestARefusalIsNoFailure(t *testing.T) {
	s := &store{refuses: ErrExceeded}
	k := NewKeeper(s, slog.New(slog.DiscardHandler), none)
	if err := k.Reserve(t.Context(), Call{ID: uuid.New()}); !errors.Is(err, ErrExceeded) || len(s.released) != 0 {
		t.Errorf("%v, released %v", err, s.released)
	}
}

// Dead replicas are taken off only by one that has seen the store for as long as
// they may be silent: after an outage everybody has to be heard first.
func TestNobodyIsForgottenRightAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		k := NewKeeper(s, slog.New(slog.DiscardHandler), none)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx) })
		forgets := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.forgets
		}
		time.Sleep(silence)
		if n := forgets(); n != 0 {
			t.Errorf("forgot %d times before everybody could be heard", n)
		}
		time.Sleep(3 * beatEvery)
		if forgets() == 0 {
			t.Error("never forgets")
		}
		s.set(errors.New("away"))
		time.Sleep(3 * silence)
		s.set(nil)
		before := forgets()
		time.Sleep(silence - beatEvery)
		if forgets() != before {
			t.Error("forgot right after an outage")
		}
		time.Sleep(3 * beatEvery)
		if forgets() == before {
			t.Error("never forgets again")
		}
		cancel()
		group.Wait()
	})
}

// Sessions are told when they change, and only then.
func TestSessionsAreToldOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var mu sync.Mutex
		now := map[Session]int{}
		k := NewKeeper(s, slog.New(slog.DiscardHandler), func() map[Session]int {
			mu.Lock()
			defer mu.Unlock()
			return now
		})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx) })
		time.Sleep(3*beatEvery + beatEvery/2)
		mu.Lock()
		now = map[Session]int{{"acme", "r"}: 2}
		mu.Unlock()
		time.Sleep(3 * beatEvery)
		cancel()
		group.Wait()
		if len(s.told) != 1 || s.told[0][Session{"acme", "r"}] != 2 || s.beats != 6 {
			t.Errorf("%d beats, told %v", s.beats, s.told)
		}
		if err := k.Close(t.Context()); err != nil || !s.left {
			t.Errorf("left %v, %v", s.left, err)
		}
	})
}
