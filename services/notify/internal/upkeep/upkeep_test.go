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

// rows holds rows that are old, and deletes them.
type rows struct {
	mu    sync.Mutex
	old   int
	calls int
	ages  []time.Duration
	fail  error
	hangs bool
}

func (r *rows) delete(ctx context.Context, age time.Duration, most int) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.ages = append(r.ages, age)
	if r.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if r.fail != nil {
		return 0, r.fail
	}
	n := min(r.old, most)
	r.old -= n
	return n, nil
}

// sweep runs a Sweeper for d.
func sweep(t *testing.T, d time.Duration, log *slog.Logger, kinds ...upkeep.Kind) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := upkeep.New(log, kinds...).Run(ctx); err != nil {
		t.Error(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func TestSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, kept := &rows{old: 2500}, &rows{old: 10}
		sweep(t, 150*time.Second, quiet,
			upkeep.Kind{What: "keys", Age: time.Hour, Delete: full.delete},
			upkeep.Kind{What: "logs", Delete: kept.delete})
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
func TestSweeperContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		failing, hanging, fine := &rows{fail: errors.New("away")}, &rows{hangs: true}, &rows{old: 1}
		sweep(t, 90*time.Second, slog.New(slog.NewTextHandler(&log, nil)),
			upkeep.Kind{What: "keys", Age: time.Hour, Delete: failing.delete},
			upkeep.Kind{What: "events", Age: time.Hour, Delete: hanging.delete},
			upkeep.Kind{What: "logs", Age: time.Hour, Delete: fine.delete})
		if failing.calls != 2 || fine.old != 0 {
			t.Errorf("%d failing calls; of the others %d left", failing.calls, fine.old)
		}
		if said := strings.Count(log.String(), "upkeep failed"); said < 3 || !strings.Contains(log.String(), "what=keys") {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}
