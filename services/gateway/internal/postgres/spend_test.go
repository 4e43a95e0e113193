package postgres

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// groupings are the groupings that are compared with the ledger.
var groupings = []spend.Grouping{
	nil, {"model"}, {"provider", "key"}, {"tag.team"}, {"tag.none", "user"}, {"tag.feature", "model", "tag.team", "user", "provider", "key"},
}

// equals compares reports of every interval and grouping with the ledger.
func equals(tb testing.TB, pool *pgxpool.Pool, organization string) {
	tb.Helper()
	store := NewSpend(pool)
	for _, q := range []spend.Query{
		{Interval: spend.IntervalHour, Since: spendAt.Add(-72 * time.Hour), Until: spendAt.Add(time.Hour)},
		{Interval: spend.IntervalDay, Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)},
		{Interval: spend.IntervalMonth, Since: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		for i, g := range groupings {
			q.Organization, q.Grouping, q.Limit = organization, g, 7+i*50
			same(tb, fmt.Sprint(q.Interval, g), ledgerSums(tb, pool, q), reported(tb, store, q))
		}
	}
}

// Reports equal the ledger to the pico-USD: before anything is aggregated, in the middle, after it, and with rows that
// are recorded late.
func TestSpendEqualsTheLedger(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewSpend(pool)
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		organization := fmt.Sprint("org-", seed)
		recorded := make([]ledger.Entry, 150)
		for i := range recorded {
			recorded[i] = randomSpend(r, organization)
		}
		recordAt(t, pool, recorded, within(r, 100*time.Hour))
		equals(t, pool, organization)
		if _, err := store.Aggregate(t.Context(), roomy(), 70); err != nil {
			t.Fatal(err)
		}
		equals(t, pool, organization)
		aggregate(t, pool, roomy(), 40)
		equals(t, pool, organization)
		late := []ledger.Entry{randomSpend(r, organization), randomSpend(r, organization)}
		recordAt(t, pool, late, within(r, 500*24*time.Hour))
		equals(t, pool, organization)
		aggregate(t, pool, roomy(), 1)
		equals(t, pool, organization)
	}
}

// Writers, aggregators and readers at the same time lose and double nothing.
func TestSpendWhileWritersCommit(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, rows := NewSpend(pool), NewLedger(pool)
	var writers, others sync.WaitGroup
	for w := range uint64(4) {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(w, 2))
			for range 40 {
				group := make([]ledger.Entry, 1+r.IntN(5))
				for i := range group {
					group[i] = randomSpend(r, "acme")
				}
				if err := rows.Append(t.Context(), group); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				if _, err := store.Aggregate(t.Context(), roomy(), 23); err != nil {
					t.Error(err)
				}
			}
		})
	}
	now := time.Now().UTC()
	q := spend.Query{
		Organization: "acme", Interval: spend.IntervalMonth, Since: time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(now.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC), Limit: 5000,
	}
	others.Go(func() {
		var before int64
		for ctx.Err() == nil {
			page, err := store.Report(t.Context(), q)
			if err != nil {
				t.Error(err)
				return
			}
			if page.Total.Calls < before {
				t.Errorf("%d calls after %d", page.Total.Calls, before)
			}
			before = page.Total.Calls
		}
	})
	writers.Wait()
	stop()
	others.Wait()
	for _, g := range groupings {
		q.Grouping = g
		same(t, fmt.Sprint(g), ledgerSums(t, pool, q), reported(t, store, q))
	}
}

// A bucket has no more groups than it may have: the others are in its rest, and sums stay equal to the ledger.
func TestSpendIsBounded(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewSpend(pool)
	r := rand.New(rand.NewPCG(1, 3))
	recorded := make([]ledger.Entry, 300)
	for i := range recorded {
		recorded[i] = randomSpend(r, "acme")
		recorded[i].User = fmt.Sprint("user-", i%100)
	}
	recordAt(t, pool, recorded, within(r, 5*time.Hour))
	bounds := spend.Bounds{HourGroups: 5, DayGroups: 9, MonthGroups: 20}
	aggregate(t, pool, bounds, 90)
	for span, most := range map[spend.Interval]int{"hour": 5, "day": 9, "month": 20} {
		n := testkit.Value[int](t, pool, "SELECT max(n) FROM (SELECT count(*) AS n FROM spend_rollup WHERE NOT is_rest AND span = $1 GROUP BY bucket) AS b", string(span))
		groups := testkit.Value[int](t, pool, "SELECT max(groups) FROM spend_bucket WHERE span = $1", string(span))
		if n != most || groups != most {
			t.Errorf("%s: %d groups, counted as %d, want %d", span, n, groups, most)
		}
	}
	q := spend.Query{Organization: "acme", Interval: "hour", Since: spendAt.Add(-6 * time.Hour), Until: spendAt.Add(time.Hour), Limit: 1000}
	same(t, "all", ledgerSums(t, pool, q), reported(t, store, q))
	q.Grouping = spend.Grouping{"user", "tag.team"}
	kept := reported(t, store, q)
	if !slices.ContainsFunc(slices.Collect(maps.Keys(kept)), func(name string) bool { return strings.HasSuffix(name, "|(other)|(other)") }) {
		t.Errorf("no rest: %v", slices.Sorted(maps.Keys(kept)))
	}
}

// Hours and days expire; the longer intervals still equal the ledger, and a late row brings no expired hour back.
func TestSpendExpires(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewSpend(pool)
	r := rand.New(rand.NewPCG(1, 4))
	made := func(n int) []ledger.Entry {
		entries := make([]ledger.Entry, n)
		for i := range entries {
			entries[i] = randomSpend(r, "acme")
		}
		return entries
	}
	recordAt(t, pool, made(200), within(r, 600*24*time.Hour))
	recordAt(t, pool, made(50), within(r, 70*time.Hour))
	aggregate(t, pool, roomy(), 1000)
	bounds := spend.BoundsAt(spendAt)
	for {
		n, err := store.Expire(t.Context(), bounds, 7)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	recordAt(t, pool, made(20), within(r, 600*24*time.Hour))
	aggregate(t, pool, bounds, 1000)
	old := testkit.Value[int](t, pool, "SELECT count(*) FROM spend_rollup WHERE span = 'hour' AND bucket < $1 OR span = 'day' AND bucket < $2", bounds.HoursSince, bounds.DaysSince)
	hours := testkit.Value[int](t, pool, "SELECT count(*) FROM spend_rollup WHERE span = 'hour'")
	if old != 0 || hours == 0 {
		t.Errorf("%d old rows of %d hours are left", old, hours)
	}
	equals(t, pool, "acme")
}

// The lag is the age of the oldest row that isn't aggregated.
func TestSpendLag(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, r := NewSpend(pool), rand.New(rand.NewPCG(1, 9))
	lag := func() time.Duration {
		t.Helper()
		d, err := store.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := lag(); d != 0 {
		t.Errorf("%s behind an empty ledger", d)
	}
	age := 2 * time.Hour
	for range 2 {
		recordAt(t, pool, []ledger.Entry{randomSpend(r, "acme")}, func() time.Time { return time.Now().Add(-age) })
		age -= time.Hour
	}
	if d := lag(); d < 2*time.Hour || d > 3*time.Hour {
		t.Errorf("%s behind, want 2 hours", d)
	}
	aggregate(t, pool, roomy(), 1)
	if d := lag(); d != 0 {
		t.Errorf("%s behind with nothing left", d)
	}
}

func TestSpendFilter(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewSpend(pool)
	r := rand.New(rand.NewPCG(1, 5))
	recorded := make([]ledger.Entry, 100)
	for i := range recorded {
		recorded[i] = randomSpend(r, "acme")
	}
	recordAt(t, pool, recorded, within(r, time.Hour))
	if _, err := store.Aggregate(t.Context(), roomy(), 50); err != nil {
		t.Fatal(err)
	}
	q := spend.Query{Organization: "acme", Interval: "day", Since: spendAt.Add(-36 * time.Hour), Until: spendAt.Add(12 * time.Hour), Limit: 10}
	for name, filter := range map[string]spend.Filter{
		"provider = 'p1'": {Provider: "p1"}, "model = 'm2'": {Model: "m2"}, "key_id = 'k1' AND user_id = 'ann'": {Key: "k1", User: "ann"},
		"tags ->> 'team' = 'app' AND tags ->> 'feature' = 'search'": {Tags: map[string]string{"team": "app", "feature": "search"}},
	} {
		q.Filter = filter
		page, err := store.Report(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want := testkit.Value[string](t, pool, "SELECT sum(cost_pico_usd)::text FROM ledger_entry WHERE "+name)
		if page.Total.Pico.String() != want {
			t.Errorf("%s: %s, want %s", name, page.Total.Pico, want)
		}
	}
	q.Filter, q.WithTags = spend.Filter{}, true
	page, err := store.Report(t.Context(), q)
	if err != nil || len(page.Rows) != 4 || page.Rows[0].Tags == "" {
		t.Errorf("%d rows by tags, want 4: %v", len(page.Rows), err)
	}
}
