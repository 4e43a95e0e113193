package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/spend"
	"switchyard.dev/services/edge/internal/threshold"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/outbox"
	"switchyard.dev/services/platform/testkit"
)

// What organizations and keys have used of their plans is found by several replicas at once and told once: calls by the
// counters, tokens, cents and credits by what was read from the gateway's feed.
func TestThresholds(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
	plans, keys, usage := postgres.NewPlans(pool), postgres.NewKeys(pool), postgres.NewUsage(pool)
	author := plan.Author{Name: "op", At: now}
	for _, p := range []plan.Plan{
		{Name: "default", UpdatedAt: now, Limits: []plan.Limit{{Meter: plan.Calls, Period: plan.Month, Amount: 10, Kind: plan.Hard}}},
		{Name: "own", UpdatedAt: now, Prepaid: true, Limits: []plan.Limit{{Meter: plan.Deliveries, Period: plan.Day, Amount: 5, Kind: plan.Soft}}},
		{Name: "of-key", UpdatedAt: now, Limits: []plan.Limit{
			{Meter: plan.Calls, Period: plan.Day, Amount: 4, Kind: plan.Metered}, {Meter: plan.Cents, Period: plan.Month, Amount: 2, Kind: plan.Hard},
		}},
	} {
		if _, ok, err := plans.SetPlan(ctx, p, 10, author); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	entry := apikey.Entry{At: now, Actor: apikey.Actor{Name: "op"}, Action: "organization.plan", Details: map[string]any{}}
	entry.Organization = "org-own"
	if err := keys.SetOrganizationPlan(ctx, "org-own", "own", entry); err != nil {
		t.Fatal(err)
	}
	for i, k := range []apikey.Key{
		{ID: "key_first", Organization: "org-1", Plan: "of-key"},
		{ID: "key_next", Organization: "org-1", Plan: "of-key", Origin: "key_first"},
		{ID: "key_spent", Organization: "org-spent", Plan: "of-key"},
	} {
		k.Product, k.Permissions, k.Environment, k.CreatedAt = "ai", []apikey.Permission{apikey.Read}, "test", now
		entry := apikey.Entry{At: now, Actor: apikey.Actor{Name: "op"}, Action: "key.create", Organization: k.Organization, Key: k.ID, Details: map[string]any{}}
		if err := keys.Insert(ctx, k, apikey.Digest{byte(i + 1)}, entry); err != nil {
			t.Fatal(err)
		}
	}
	count := func(organization, key, metric string, n int64) {
		t.Helper()
		metertest.Add(t, usage, meter.Count{Count: n, Counter: meter.Counter{
			Organization: organization, Key: key, Metric: metric, Minute: now.Truncate(time.Minute),
		}})
	}
	watchers := make([]*threshold.Watcher, 3)
	watch := func() {
		t.Helper()
		known, err := plan.NewWatcher(ctx, plans, testkit.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		for i := range watchers { // anew, so that none rests
			watchers[i] = threshold.NewWatcher(postgres.NewThresholds(pool), nil, known, "default", testkit.Logger(t))
		}
	}
	checkEvents := func(want ...string) {
		t.Helper()
		watch()
		var all sync.WaitGroup
		for _, w := range watchers {
			all.Go(func() {
				if err := w.Round(ctx, time.Now().UTC()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got := testkit.Value[[]string](t, pool, `SELECT coalesce(array_agg(concat_ws(' ', replace(type, 'switchyard.', ''), subject, data->>'limit', data->>'percent', data->>'used')
			ORDER BY type, subject, data->>'limit', (data->>'percent')::int), '{}') FROM house_event`)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	checkEvents([]string{}...)
	count("org-1", "key_first", "llm_requests", 3)
	count("org-1", "key_next", "events", 1) // A rotation counts as the first key.
	count("org-1", "key_other", "llm_requests", 4)
	count("org-own", "key_x", "llm_requests", 100) // Its plan has no limit of these.
	count("org-own", "key_x", "events", 4)
	want := []string{
		"quota.reached key/key_first calls 80 4", "quota.reached key/key_first calls 100 4",
		"quota.reached organization/org-1 calls 80 8",
		"quota.reached organization/org-own deliveries 80 4",
	}
	checkEvents(want...)
	count("org-1", "key_other", "llm_requests", 2)
	want = slices.Insert(want, 3, "quota.reached organization/org-1 calls 100 10")
	checkEvents(want...)

	// Batches are billed long after their call.
	month, _ := plan.Month.Window(now)
	day, _ := plan.Day.Window(now)
	grant := credit.Grant{ID: "crd_1", Organization: "org-spent", IdempotencyKey: "k", Pico: 1e10, CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}
	if _, added, err := postgres.NewCredits(pool).Grant(ctx, grant, 10, credit.Author{Name: "op"}); err != nil || !added {
		t.Fatal(added, err)
	}
	checkEvents(want...)
	amounts := []spend.Amount{
		{Window: spend.Window{Key: "key_spent", Period: plan.Day, Start: day}, Tokens: 5, Pico: 19e9},
		{Window: spend.Window{Key: "key_spent", Period: plan.Month, Start: month}, Tokens: 5, Pico: 19e9},
	}
	since, _ := plan.Month.Window(grant.CreatedAt)
	advance := func(s spend.Step) {
		t.Helper()
		if err := postgres.NewSpend(pool).Advance(ctx, []spend.Step{s}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	feed := spend.Feed{Organization: "org-spent", Since: since}
	advance(spend.Step{Feed: feed, Next: "1-1", Amounts: amounts, Costs: []credit.Cost{{At: now, Pico: 19e9}}})
	// 1.9 cents are one whole cent of two.
	want = slices.Insert(want, 0, "credits.exhausted organization/org-spent")
	checkEvents(want...)
	feed.Cursor = "1-1"
	advance(spend.Step{Feed: feed, Next: "1-2", Amounts: amounts})
	want = slices.Insert(want, 3, "quota.reached key/key_spent cents 80 3", "quota.reached key/key_spent cents 100 3")
	checkEvents(want...)
	if uncovered := testkit.Value[string](t, pool, "SELECT data->>'uncovered_pico_usd' FROM house_event WHERE type LIKE '%credits%'"); uncovered != fmt.Sprint(int64(9e9)) {
		t.Errorf("uncovered %s", uncovered)
	}
}

// A replica that compares keeps others from it, and a comparison that fails does not count.
func TestThresholdsAlone(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := postgres.NewThresholds(pool)
	start := testkit.Value[time.Time](t, pool, "SELECT compared_at FROM quota_mark")
	later := start.Add(time.Hour).UTC()
	for _, failure := range []error{errors.New("broken off"), nil} {
		err := store.Alone(t.Context(), func(ctx context.Context, compared time.Time) (time.Time, error) {
			if !compared.Equal(start) {
				t.Errorf("compared up to %s, want %s", compared, start)
			}
			second := store.Alone(ctx, func(context.Context, time.Time) (time.Time, error) {
				t.Error("a second replica compares at the same time")
				return later, nil
			})
			return later, errors.Join(second, failure)
		})
		if !errors.Is(err, failure) {
			t.Errorf("err = %v, want %v", err, failure)
		}
	}
	if got := testkit.Value[time.Time](t, pool, "SELECT compared_at FROM quota_mark"); !got.Equal(later) {
		t.Errorf("compared up to %s, want %s", got, later)
	}
}

func TestOutbox(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, events, ctx := postgres.NewThresholds(pool), outbox.New(pool), t.Context()
	event := func(id string, keep time.Duration) threshold.Event {
		return threshold.Event{
			ID: id, Organization: "acme", Type: houseevent.QuotaReached, Subject: "organization/acme", Data: []byte(`{"used": 1}`), Keep: time.Now().Add(keep),
		}
	}
	for range 2 {
		if err := store.Record(ctx, []threshold.Event{event("edge-1", time.Hour), event("edge-2", -time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := events.Take(ctx, 10, time.Minute)
	if err != nil || len(taken) != 2 || taken[0].ID != "edge-1" || taken[0].Attempts != 1 || string(taken[0].Data) != `{"used": 1}` || taken[0].Organization != "acme" {
		t.Fatalf("took %+v, %v", taken, err)
	}
	if again, err := events.Take(ctx, 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("another replica takes %+v, %v", again, err)
	}
	if err := events.Postpone(ctx, map[string]time.Duration{"edge-1": -time.Second, "edge-2": time.Hour}); err != nil {
		t.Fatal(err)
	}
	if taken, err = events.Take(ctx, 10, time.Minute); err != nil || len(taken) != 1 || taken[0].ID != "edge-1" || taken[0].Attempts != 2 {
		t.Errorf("took %+v, %v; want the first again", taken, err)
	}
	if err := events.Sent(ctx, []string{"edge-1"}); err != nil {
		t.Fatal(err)
	}
	if waiting, _, err := events.Waiting(ctx); err != nil || waiting != 1 {
		t.Errorf("%d wait, %v", waiting, err)
	}
	if n, err := events.GiveUp(ctx, -time.Minute); err != nil || n != 1 {
		t.Errorf("gave up %d, %v", n, err)
	}
	if n, err := events.Purge(ctx, 10); err != nil || n != 1 { // The other one is remembered.
		t.Errorf("purged %d, %v", n, err)
	}
}
