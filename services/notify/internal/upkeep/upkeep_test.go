package upkeep_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/notify/internal/upkeep"
)

// shelf holds things that are old, and deletes them.
type shelf struct {
	mu    sync.Mutex
	old   int
	calls int
	ages  []time.Duration
	fail  error
	hangs bool
}

func (s *shelf) delete(ctx context.Context, age time.Duration, most int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.ages = append(s.ages, age)
	if s.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if s.fail != nil {
		return 0, s.fail
	}
	n := min(s.old, most)
	s.old -= n
	return n, nil
}

// keep runs a keeper for a time.
func keep(t *testing.T, d time.Duration, log *slog.Logger, kinds ...upkeep.Kept) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := upkeep.New(log, kinds...).Run(ctx); err != nil {
		t.Error(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, kept := &shelf{old: 2500}, &shelf{old: 10}
		keep(t, 150*time.Second, quiet,
			upkeep.Kept{What: "keys", Age: time.Hour, Delete: full.delete},
			upkeep.Kept{What: "logs", Delete: kept.delete})
		if full.old != 0 || full.calls != 3+1+1 || full.ages[0] != time.Hour {
			t.Errorf("%d are left after %d calls with ages %v, want three batches and a look each minute", full.old, full.calls, full.ages)
		}
		if kept.calls != 0 {
			t.Error("what is kept for ever was deleted")
		}
	})
}

// A kind whose deletion fails or hangs doesn't keep other kinds from being deleted,
// and is tried again only in the next minute.
func TestKeeperGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		failing, hanging, fine := &shelf{fail: errors.New("away")}, &shelf{hangs: true}, &shelf{old: 1}
		keep(t, 90*time.Second, slog.New(slog.NewTextHandler(&log, nil)),
			upkeep.Kept{What: "keys", Age: time.Hour, Delete: failing.delete},
			upkeep.Kept{What: "events", Age: time.Hour, Delete: hanging.delete},
			upkeep.Kept{What: "logs", Age: time.Hour, Delete: fine.delete})
		if failing.calls != 2 || fine.old != 0 {
			t.Errorf("%d failing calls; of the others %d left", failing.calls, fine.old)
		}
		if said := strings.Count(log.String(), "upkeep failed"); said < 3 || !strings.Contains(log.String(), "what=keys") {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}
