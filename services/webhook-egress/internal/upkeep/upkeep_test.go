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
	flows, house, targets        int
	due                          []int // what successive expiries find
	days                         []time.Time
	busy                         int // how often a drop gives way first
	retention                    time.Duration
	err                          error
	keys                         int // ordering keys
	looks                        []upkeep.OrderCursor
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

func (s *store) PurgeHouseEvents(context.Context, time.Duration, int) (int, error) {
	s.house++
	return 0, s.err
}

func (s *store) CloseForgottenTargets(_ context.Context, idle time.Duration, _ int) (int, error) {
	if idle == time.Hour {
		s.targets++
	}
	return 0, s.err
}

func (s *store) ReleaseStranded(_ context.Context, after upkeep.OrderCursor, limit int) (upkeep.OrderCursor, int, error) {
	s.looks = append(s.looks, after)
	if s.err != nil || int(after.Flow)+limit >= s.keys {
		return upkeep.OrderCursor{}, 0, s.err
	}
	return upkeep.OrderCursor{Flow: after.Flow + int64(limit)}, 1, nil
}

func (s *store) RemoveIdleFlows(context.Context, time.Duration, int) (int, error) {
	s.flows++
	return 0, s.err
}

func (s *store) DropOldestDay(_ context.Context, retention time.Duration) (time.Time, error) {
	s.retention = retention
	switch {
	case s.err != nil:
		return time.Time{}, s.err
	case s.busy > 0:
		s.busy--
		return time.Time{}, upkeep.ErrBusy
	case len(s.days) == 0:
		return time.Time{}, nil
	}
	day := s.days[0]
	s.days = s.days[1:]
	return day, nil
}

func run(t *testing.T, s *store, length time.Duration) (expired int) {
	t.Helper()
	k := upkeep.New(s, testkit.Logger(t), 24*time.Hour, func(_ context.Context, n int) { expired += n })
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
		if s.partitions != 1 || s.flows != 1 {
			t.Errorf("in an hour: partitions %d times, flows %d times, want once each", s.partitions, s.flows)
		}
		if s.purges < 59 || s.targets < 59 || s.expiries < 3590 {
			t.Errorf("in an hour: %d purges, %d looks for circuits, %d for expired ones, want 59, 59 and 3590 or more", s.purges, s.targets, s.expiries)
		}
	})
}

// A minute looks at a bounded number of ordering keys, and the next one goes on behind them.
func TestOrderIsLookedAtInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{keys: 25_000}
		run(t, s, time.Minute+time.Millisecond)
		if n := len(s.looks); n != 20 || s.looks[n-1].Flow != 19_000 {
			t.Fatalf("a minute looked at the pages behind %v, want 20 of 1,000 keys", s.looks)
		}
		s.looks = nil
		run(t, s, 2*time.Minute+time.Millisecond)
		if n := len(s.looks); n != 25 || s.looks[n-1].Flow != 24_000 {
			t.Errorf("two minutes looked at the pages behind %v, want 25 of 1,000 keys", s.looks)
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
		k := upkeep.New(s, testkit.Logger(t), 0, nil)
		if err := k.Prepare(t.Context()); !errors.Is(err, s.err) {
			t.Errorf("a start went on without partitions: %v", err)
		}
	})
}

func TestDropsEveryDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{days: make([]time.Time, 3), busy: 5}
		for i := range s.days {
			s.days[i] = time.Now()
		}
		run(t, s, time.Hour+5*time.Second)
		if len(s.days) != 0 || s.retention != 24*time.Hour {
			t.Errorf("%d days left, retention %s", len(s.days), s.retention)
		}
		s = &store{busy: 1000}
		run(t, s, time.Hour+10*time.Second)
		if tried := 1000 - s.busy; tried > 50 || s.flows != 1 {
			t.Errorf("tried %d times against traffic, removed flows %d times", tried, s.flows)
		}
	})
}

func TestKeepsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{days: []time.Time{time.Now()}}
		k := upkeep.New(s, testkit.Logger(t), 0, func(context.Context, int) {})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		if err := k.Run(ctx); err != nil || len(s.days) != 1 {
			t.Errorf("%d days left, %v", len(s.days), err)
		}
	})
}
