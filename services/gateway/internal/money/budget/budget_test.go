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
	// forgotten by others, who took the places of lost. It stutters where the first
	// try to reclaim fails.
	forgotten, stutters bool
	lost                []uuid.UUID
	reclaims            int
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

func (s *store) Beat(_ context.Context, _ uuid.UUID, sessions map[Session]int, changed bool) (unknown bool, err error) {
	err = s.answer(func() {
		s.beats++
		if changed {
			s.told = append(s.told, sessions)
		}
		unknown, s.forgotten = s.forgotten, false
	})
	return unknown, err
}

func (s *store) Reclaim(context.Context, uuid.UUID) (lost []uuid.UUID, err error) {
	var failed error
	err = s.answer(func() {
		s.reclaims++
		lost = s.lost
		if s.reclaims == 1 && s.stutters {
			failed = errors.New("away")
		}
	})
	return lost, errors.Join(err, failed)
}

func (s *store) EndRuns(context.Context) error { return s.answer(func() {}) }

func (s *store) Forget(context.Context, uuid.UUID, time.Duration) error {
	return s.answer(func() { s.forgets++ })
}

func (s *store) Leave(context.Context, uuid.UUID) error { return s.answer(func() { s.left = true }) }

// calls in flight here; ended are those that the keeper ended.
type calls struct {
	mu    sync.Mutex
	now   map[Session]int
	ended map[uuid.UUID]error
}

func (c *calls) Sessions() map[Session]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *calls) EndCall(id uuid.UUID, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[id] = cause
}

// A ceiling is not overrun because the store is away: the call is refused, and
// what may have come through is given back once the store is there.
func TestReserveWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{away: errors.New("away")}
		k := NewKeeper(s, slog.New(slog.DiscardHandler))
		call := Call{ID: uuid.New()}
		err := k.Reserve(t.Context(), call)
		if e := apierr.From(err); e.Kind != apierr.KindUnavailable || !e.ErrorClass().Retryable() {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx, &calls{}) })
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
	k := NewKeeper(s, slog.New(slog.DiscardHandler))
	if err := k.Reserve(t.Context(), Call{ID: uuid.New()}); !errors.Is(err, ErrExceeded) || len(s.released) != 0 {
		t.Errorf("%v, released %v", err, s.released)
	}
}

// Only a replica that has seen the store for as long as others may be silent removes
// dead ones: after an outage it gives all of them the time to report first.
func TestNobodyIsForgottenRightAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		k := NewKeeper(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx, &calls{}) })
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
		inFlight := &calls{now: map[Session]int{}}
		k := NewKeeper(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx, inFlight) })
		time.Sleep(3*beatEvery + beatEvery/2)
		inFlight.mu.Lock()
		inFlight.now = map[Session]int{{"acme", "r"}: 2}
		inFlight.mu.Unlock()
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

// A replica that was taken for dead takes back what it held, as soon as it can be
// heard, and ends the calls whose place others have.
func TestForgottenReplicaReclaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := uuid.New()
		s := &store{forgotten: true, stutters: true, lost: []uuid.UUID{lost}}
		inFlight := &calls{ended: map[uuid.UUID]error{}}
		k := NewKeeper(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = k.Run(ctx, inFlight) })
		time.Sleep(5*beatEvery + beatEvery/2)
		cancel()
		group.Wait()
		if s.reclaims != 2 {
			t.Errorf("%d tries to reclaim, want one more after the one that failed", s.reclaims)
		}
		if len(inFlight.ended) != 1 || !errors.Is(inFlight.ended[lost], ErrLapsed) {
			t.Errorf("ended %v", inFlight.ended)
		}
	})
}
