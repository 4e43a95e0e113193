package spend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// backlog is a store with rows to aggregate and buckets to delete.
type backlog struct {
	Store

	rows, buckets       int
	bounds              Bounds
	aggregates, expires int
	// most is how many rows a transaction has time for; 0 is without end.
	most int
}

func (b *backlog) Aggregate(_ context.Context, bounds Bounds, limit int) (int, error) {
	b.aggregates++
	if b.most > 0 && limit > b.most {
		return 0, errors.New("no time is left")
	}
	b.bounds = bounds
	n := min(limit, b.rows)
	b.rows -= n
	return n, nil
}

func (b *backlog) Expire(_ context.Context, bounds Bounds, limit int) (int, error) {
	b.expires++
	b.bounds = bounds
	n := min(limit, b.buckets)
	b.buckets -= n
	return n, nil
}

// runs lets work run for a time, and ends it.
func runs(t *testing.T, work func(context.Context) error, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The aggregation takes up a backlog at once, in transactions of a bounded size.
func TestAggregatorTakesUpBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &backlog{rows: 12*aggregateRows + 7}
		runs(t, NewAggregator(store, slog.New(slog.DiscardHandler)).Run, aggregateEvery+aggregateEvery/2)
		if store.rows != 0 || store.aggregates != 13 {
			t.Errorf("%d rows are left after %d transactions", store.rows, store.aggregates)
		}
		if want := BoundsAt(time.Now()); store.bounds != want {
			t.Errorf("bounds %+v, want %+v", store.bounds, want)
		}
	})
}

// Where a transaction has no time for all rows it goes on with fewer.
func TestAggregatorTriesFewerRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &backlog{rows: 3*aggregateRows + 7, most: aggregateRows / 10}
		runs(t, NewAggregator(store, slog.New(slog.DiscardHandler)).Run, 3*aggregateEvery+aggregateEvery/2)
		if store.rows != 0 {
			t.Errorf("%d rows are left after %d transactions", store.rows, store.aggregates)
		}
	})
}

// Expired hours and days are deleted within expireEvery.
func TestUpkeepExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &backlog{buckets: 2*expireBuckets + 3}
		runs(t, NewAggregator(store, slog.New(slog.DiscardHandler)).Upkeep, expireEvery+time.Second)
		if store.buckets != 0 || store.expires != 3 || store.bounds != BoundsAt(time.Now()) {
			t.Errorf("%d buckets are left after %d transactions with %+v", store.buckets, store.expires, store.bounds)
		}
	})
}

// The table of bounds in the documents has the bounds that hold.
func TestBoundsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/spend.md")
	if err != nil {
		t.Fatal(err)
	}
	b := BoundsAt(time.Now())
	for _, row := range []string{
		fmt.Sprintf("| intervals in a report, at most | %d | %d | %d |", maxHours, maxDays, maxMonths),
		fmt.Sprintf("| how far back reports reach | %d days | %d days | all |", hoursReach/day, daysReach/day),
		fmt.Sprintf("| groups of an organization in an interval, at most | %d | %d | %d,%03d |", b.HourGroups, b.DayGroups, b.MonthGroups/1000, b.MonthGroups%1000),
	} {
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/spend.md has no row %q", row)
		}
	}
}
