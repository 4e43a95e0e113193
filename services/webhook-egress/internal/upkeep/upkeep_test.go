package upkeep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type store struct {
	partitions, expiries, purges int
	due                          []int // what successive expiries find
	err                          error
}

func (s *store) EnsurePartitions(context.Context, int) (int, error) {
	s.partitions++
	return 1, s.err
}

func (s *store) ExpireDue(context.Context, int) (int, error) {
	s.expiries++
	if len(s.due) == 0 {
		return 0, s.err
	}
	n := s.due[0]
	s.due = s.due[1:]
	return n, s.err
}

func (s *store) PurgeKeys(context.Context, int) (int, error) {
	s.purges++
	return 0, s.err
}

func run(t *testing.T, s *store, length time.Duration) (expired int) {
	t.Helper()
	k := upkeep.New(s, testkit.Logger(t), func(_ context.Context, n int) { expired += n })
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
	return expired
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{due: []int{1000, 1000, 7}}
		if got := run(t, s, time.Hour+time.Millisecond); got != 2007 {
			t.Errorf("expired %d", got)
		}
		// Three of the pages were read in one turn.
		if s.partitions != 1 || s.purges < 59 || s.expiries < 3590 {
			t.Errorf("in an hour: %+v", s)
		}
	})
}

func TestGoesOnAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{err: errors.New("away")}
		run(t, s, 10*time.Second+time.Millisecond)
		if s.expiries != 10 {
			t.Errorf("tried %d times in 10 s", s.expiries)
		}
		k := upkeep.New(s, testkit.Logger(t), nil)
		if err := k.Prepare(t.Context()); !errors.Is(err, s.err) {
			t.Errorf("a start went on without partitions: %v", err)
		}
	})
}
