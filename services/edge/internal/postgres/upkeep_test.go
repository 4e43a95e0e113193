package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

const day = 24 * time.Hour

// Whatever is merged, by however many replicas at once and while counts still
// come in late, sums over whole hours and days stay what they are.
func TestMergeKeepsSums(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	usage := postgres.NewUsage(pool)
	ctx := t.Context()
	start := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	put := func(service string) {
		cursor := ""
		for seq := range 20 {
			var counts []meter.Count
			for i := range 50 {
				counts = append(counts, meter.Count{Count: 1, Counter: meter.Counter{
					Organization: "o", Key: fmt.Sprint("k", i%2), Metric: "m", Minute: start.Add(time.Duration(seq*50+i) * 3 * time.Minute),
				}})
			}
			next := metertest.Next(cursor)
			if _, err := usage.Add(ctx, service, cursor, next, meter.Sum(counts)); err != nil {
				t.Error(err)
			}
			cursor = next
		}
	}
	sums := func(period meter.Period) []meter.Total {
		t.Helper()
		totals, err := usage.Sum(ctx, meter.Query{Period: period, From: start, To: start.Add(5 * day), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return totals
	}
	put("first")
	before := map[meter.Period][]meter.Total{meter.Hour: sums(meter.Hour), meter.Day: sums(meter.Day), meter.Whole: sums(meter.Whole)}
	var replicas sync.WaitGroup
	for range 3 {
		replicas.Go(func() {
			for _, into := range []meter.Period{meter.Hour, meter.Day, meter.Hour} {
				for n := 100; n == 100; {
					end := start.Add(5 * day)
					if into == meter.Day {
						end = start.Add(day) // the other days stay by the hour
					}
					var err error
					if n, err = usage.Merge(ctx, into, end, 100); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	replicas.Wait()
	for period, want := range before {
		if period == meter.Hour {
			want = afterADay(want, start)
		}
		got := sums(period)
		if period == meter.Hour {
			got = afterADay(got, start)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %q (-before +after):\n%s", period, diff)
		}
	}
	var rows int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM usage_counters").Scan(&rows); err != nil || rows != 2*(1+26) {
		t.Errorf("%d rows, %v; want a day and 26 hours for each key", rows, err)
	}
	// What comes late is merged as well.
	put("late")
	if n, err := usage.Merge(ctx, meter.Hour, start.Add(5*day), 10000); n == 0 || err != nil {
		t.Errorf("merged %d, %v", n, err)
	}
	if got := sums(meter.Whole); got[0].Count != 2*before[meter.Whole][0].Count {
		t.Errorf("the sum is %d after twice %d", got[0].Count, before[meter.Whole][0].Count)
	}
	if n, err := usage.Drop(ctx, start.Add(5*day), 10000); n == 0 || err != nil || len(sums(meter.Whole)) != 0 {
		t.Errorf("dropped %d, %v", n, err)
	}
}

func afterADay(totals []meter.Total, start time.Time) (kept []meter.Total) {
	for _, t := range totals {
		if !t.Start.Before(start.Add(day)) {
			kept = append(kept, t)
		}
	}
	return kept
}

// By period, page by page, nothing is left out or comes twice.
func TestUsageByPeriod(t *testing.T) {
	usage := postgres.NewUsage(testkit.Postgres(t, migrations.FS))
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	var counts []meter.Count
	for i := range 6 {
		for _, key := range []string{"a", "b"} {
			counts = append(counts, meter.Count{Count: int64(i + 1), Counter: meter.Counter{
				Organization: "o", Key: key, Metric: "m", Minute: start.Add(time.Duration(i) * 30 * time.Minute),
			}})
		}
	}
	metertest.Add(t, usage, counts...)
	var got []string
	q := meter.Query{Key: "b", Period: meter.Hour, From: start, To: start.Add(day), Limit: 2}
	for {
		page, err := usage.Sum(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, total := range page {
			got = append(got, fmt.Sprint(total.Key, " ", total.Start.Format("15:04"), " ", total.Count))
			q.After = total
		}
		if len(page) < q.Limit {
			break
		}
	}
	if diff := cmp.Diff([]string{"b 10:00 3", "b 11:00 7", "b 12:00 11"}, got); diff != "" {
		t.Errorf("by hour (-want +got):\n%s", diff)
	}
}

// A limit of an organization is a change of each of its keys, under numbers of
// their own, however many there are.
func TestOrganizationLimitMovesTheFeed(t *testing.T) {
	keys := postgres.NewKeys(testkit.Postgres(t, migrations.FS))
	ctx := t.Context()
	for i := range 7 {
		key := apikey.Key{
			ID: fmt.Sprint("key_", i), Organization: fmt.Sprint("org-", i%2), Product: "ai", Environment: "test",
			Permissions: []apikey.Permission{apikey.Read}, CreatedAt: time.Now(),
		}
		if err := keys.Insert(ctx, key, apikey.Digest{byte(i)}, entry(key, "key.create")); err != nil {
			t.Fatal(err)
		}
	}
	position, err := keys.Position(ctx)
	if err != nil {
		t.Fatal(err)
	}
	bound := limit.Limit{Requests: 9, Window: time.Minute, Burst: 3}
	if err := keys.SetOrganizationLimit(ctx, "org-0", bound, entry(apikey.Key{Organization: "org-0"}, "organization.limit")); err != nil {
		t.Fatal(err)
	}
	seen := map[apikey.Digest]bool{}
	for {
		changed, last, err := keys.ChangedSince(ctx, position, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(changed) == 0 {
			break
		}
		seen[changed[0]], position = true, last
	}
	if want := map[apikey.Digest]bool{{0}: true, {2}: true, {4}: true, {6}: true}; !cmp.Equal(want, seen) {
		t.Errorf("changed: %v", seen)
	}
	if newest, err := keys.Position(ctx); newest != position || err != nil {
		t.Errorf("the feed is at %d, its last change at %d, %v", newest, position, err)
	}
	key, err := keys.KeyByDigest(ctx, apikey.Digest{2})
	if err != nil || key.OrganizationLimit != bound {
		t.Errorf("%+v, %v", key, err)
	}
	none := "org-without-keys"
	if err := keys.SetOrganizationLimit(ctx, none, bound, entry(apikey.Key{Organization: none}, "organization.limit")); err != nil {
		t.Error(err)
	}
	if got, err := keys.OrganizationLimit(ctx, none); got != bound || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Audit entries can be neither changed nor deleted.
func TestAuditIsFinal(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	key := apikey.Key{ID: "key_1", Organization: "o", Product: "ai", Permissions: []apikey.Permission{apikey.Read}, Environment: "test", CreatedAt: time.Now()}
	if err := postgres.NewKeys(pool).Insert(t.Context(), key, apikey.Digest{1}, entry(key, "key.create")); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"UPDATE audit_entry SET actor = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"} {
		if _, err := pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s went through", statement)
		}
	}
}
