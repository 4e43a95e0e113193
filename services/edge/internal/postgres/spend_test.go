package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/spend"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// A question for what an organization spent has its feed read, and each page of it counts once.
func TestSpend(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	usage, store := postgres.NewUsage(pool), postgres.NewSpend(pool)
	ctx, now := t.Context(), time.Now().UTC()
	window := func(organization, key string, m plan.Meter, p plan.Period) quota.Window {
		start, end := p.Window(now)
		return quota.Window{Organization: organization, Key: key, Meter: m, Period: p, Start: start, End: end}
	}
	windows := []quota.Window{
		window("org-1", "", plan.Tokens, plan.Minute), window("org-1", "", plan.Cents, plan.Month),
		window("org-1", "key_1", plan.Cents, plan.Day), window("org-2", "", plan.Tokens, plan.Day),
	}
	spent := func(want ...int64) {
		t.Helper()
		got, err := usage.Spent(ctx, windows)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spent (-want +got):\n%s", diff)
		}
	}
	spent(0, 0, 0, 0)
	later := now.Add(2 * time.Second)
	feeds, err := store.Due(ctx, later, 10)
	if err != nil || len(feeds) != 2 {
		t.Fatalf("due are %+v, %v; want both organizations'", feeds, err)
	}
	month, _ := plan.Month.Window(now)
	if feeds[0].Cursor != "" || !feeds[0].Since.Equal(month) {
		t.Errorf("the feed begins at %+v, want %s", feeds[0], month)
	}
	feed := spend.Feed{Organization: "org-1", Since: month}
	amount := func(key string, p plan.Period, tokens, pico int64) spend.Amount {
		start, _ := p.Window(now)
		return spend.Amount{Window: spend.Window{Key: key, Period: p, Start: start}, Tokens: tokens, Pico: pico}
	}
	amounts := []spend.Amount{amount("", plan.Minute, 5, 50), amount("", plan.Month, 5, 1<<62), amount("key_1", plan.Day, 5, 50)}
	other := spend.Step{Feed: spend.Feed{Organization: "org-2", Cursor: "not its cursor"}, Next: "1-7", Amounts: amounts}
	for i := range 2 { // the second as another replica that has read the same page
		if err := store.Advance(ctx, []spend.Step{other, {Feed: feed, Next: "1-1", Amounts: amounts}}, later); err != nil {
			t.Fatalf("advance %d: %v", i, err)
		}
	}
	spent(5, 1<<62, 50, 0)
	if feeds, err = store.Due(ctx, later.Add(500*time.Millisecond), 10); err != nil || len(feeds) != 1 || feeds[0].Organization != "org-2" {
		t.Errorf("due are %+v, %v; want org-2's alone", feeds, err)
	}
	feed.Cursor = "1-1"
	other.Feed.Cursor, other.Amounts = "", []spend.Amount{amount("", plan.Day, 3, 30)}
	if err := store.Advance(ctx, []spend.Step{{Feed: feed, Next: "1-2", Amounts: amounts}, other}, later); err != nil {
		t.Fatal(err)
	}
	spent(10, 1<<63-1, 100, 3) // the largest number, beyond 64 bits
	if n, err := store.Drop(ctx, later, month, 10); n != 1 || err != nil {
		t.Errorf("dropped %d, %v; want the minute", n, err)
	}
	spent(0, 1<<63-1, 100, 3)
	if feeds, err = store.Due(ctx, later.Add(time.Hour), 10); err != nil || len(feeds) != 2 {
		t.Errorf("due an hour later are %+v, %v; want both", feeds, err)
	}
}
