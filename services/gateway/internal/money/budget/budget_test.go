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

// store records its calls. It is unavailable if unavailable is set.
type store struct {
	mu          sync.Mutex
	unavailable error
	refuses     error
	heartbeats  int
	reported    []map[Session]int // the sessions of heartbeats that changed them
	released    []uuid.UUID
	removals    int
	left        bool
	// removed: other replicas removed this one, and others took the place of lost. If reclaimFails is set, the first
	// try to reclaim fails.
	removed, reclaimFails bool
	lost                  []uuid.UUID
	reclaims              int
}

func (s *store) answer(note func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unavailable == nil {
		note()
	}
	return s.unavailable
}

func (s *store) set(unavailable error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unavailable = unavailable
}

func (s *store) Reserve(context.Context, uuid.UUID, Call) error {
	return errors.Join(s.answer(func() {}), s.refuses)
}

func (s *store) Release(_ context.Context, _ uuid.UUID, calls []uuid.UUID) error {
	return s.answer(func() { s.released = append(s.released, calls...) })
}

func (s *store) Heartbeat(_ context.Context, _ uuid.UUID, sessions map[Session]int, changed bool) (unknown bool, err error) {
	err = s.answer(func() {
		s.heartbeats++
		if changed {
			s.reported = append(s.reported, sessions)
		}
		unknown, s.removed = s.removed, false
	})
	return unknown, err
}

func (s *store) Reclaim(context.Context, uuid.UUID) (lost []uuid.UUID, err error) {
	var failed error
	err = s.answer(func() {
		s.reclaims++
		lost = s.lost
		if s.reclaims == 1 && s.reclaimFails {
			failed = errors.New("unavailable")
		}
	})
	return lost, errors.Join(err, failed)
}

func (s *store) EndRuns(context.Context) error { return s.answer(func() {}) }

func (s *store) RemoveSilent(context.Context, uuid.UUID, time.Duration) error {
	return s.answer(func() { s.removals++ })
}

func (s *store) Deregister(context.Context, uuid.UUID) error {
	return s.answer(func() { s.left = true })
}

// calls are the calls in flight; ended are those that the reserver ended.
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

// A ceiling holds while the store is unavailable: the call is refused, and a reservation that may have been stored is
// released once the store is back.
func TestReserveWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{unavailable: errors.New("unavailable")}
		r := NewReserver(s, slog.New(slog.DiscardHandler))
		call := Call{ID: uuid.New()}
		err := r.Reserve(t.Context(), call)
		if e := apierr.From(err); e.Kind != apierr.KindUnavailable || !e.ErrorClass().Retryable() {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx, &calls{}) })
		time.Sleep(3 * heartbeatEvery)
		s.set(nil)
		time.Sleep(2 * heartbeatEvery)
		cancel()
		group.Wait()
		if len(s.released) != 1 || s.released[0] != call.ID {
			t.Errorf("released %v", s.released)
		}
	})
}

func TestARefusalIsNoFailure(t *testing.T) {
	s := &store{refuses: ErrExceeded}
	r := NewReserver(s, slog.New(slog.DiscardHandler))
	if err := r.Reserve(t.Context(), Call{ID: uuid.New()}); !errors.Is(err, ErrExceeded) || len(s.released) != 0 {
		t.Errorf("%v, released %v", err, s.released)
	}
}

// Only a replica that has reached the store for as long as others may be silent removes dead ones: after an outage all
// of them have the time to report first.
func TestNoReplicaIsRemovedRightAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		r := NewReserver(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx, &calls{}) })
		removals := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.removals
		}
		time.Sleep(silence)
		if n := removals(); n != 0 {
			t.Errorf("removed %d times before all replicas could report", n)
		}
		time.Sleep(3 * heartbeatEvery)
		if removals() == 0 {
			t.Error("never removals")
		}
		s.set(errors.New("unavailable"))
		time.Sleep(3 * silence)
		s.set(nil)
		before := removals()
		time.Sleep(silence - heartbeatEvery)
		if removals() != before {
			t.Error("removed right after an outage")
		}
		time.Sleep(3 * heartbeatEvery)
		if removals() == before {
			t.Error("never removals again")
		}
		cancel()
		group.Wait()
	})
}

// Sessions are reported only when they change.
func TestSessionsAreReportedOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		inFlight := &calls{now: map[Session]int{}}
		r := NewReserver(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx, inFlight) })
		time.Sleep(3*heartbeatEvery + heartbeatEvery/2)
		inFlight.mu.Lock()
		inFlight.now = map[Session]int{{"acme", "r"}: 2}
		inFlight.mu.Unlock()
		time.Sleep(3 * heartbeatEvery)
		cancel()
		group.Wait()
		if len(s.reported) != 1 || s.reported[0][Session{"acme", "r"}] != 2 || s.heartbeats != 6 {
			t.Errorf("%d heartbeats, reported %v", s.heartbeats, s.reported)
		}
		if err := r.Close(t.Context()); err != nil || !s.left {
			t.Errorf("left %v, %v", s.left, err)
		}
	})
}

// A replica that was taken for dead reclaims its reservations as soon as it reaches the store, and ends the calls whose
// place others have taken.
func TestRemovedReplicaReclaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := uuid.New()
		s := &store{removed: true, reclaimFails: true, lost: []uuid.UUID{lost}}
		inFlight := &calls{ended: map[uuid.UUID]error{}}
		r := NewReserver(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx, inFlight) })
		time.Sleep(5*heartbeatEvery + heartbeatEvery/2)
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
