package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestPlans(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	plans, keys := postgres.NewPlans(pool), postgres.NewKeys(pool)
	ctx := t.Context()
	by := plan.Author{Name: "op", Request: "req_1", At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
	set := func(p plan.Plan, most int, want bool) plan.Plan {
		t.Helper()
		got, ok, err := plans.SetPlan(ctx, p, most, by)
		if err != nil || ok != want {
			t.Fatalf("SetPlan = %v, %v, want %v", ok, err, want)
		}
		return got
	}
	first := set(plan.Plan{Name: "b", Description: "two", UpdatedAt: by.At, Limits: []plan.Limit{
		{Meter: plan.Notifications, Period: plan.Minute, Kind: plan.Soft, Amount: 1},
	}}, 2, true)
	later := by.At.Add(time.Hour)
	changed := set(plan.Plan{Name: "b", UpdatedAt: later, Limits: []plan.Limit{
		{Meter: plan.Calls, Period: plan.Day, Kind: plan.Hard, Amount: 7}, {Meter: plan.Deliveries, Period: plan.Month, Kind: plan.Metered, Amount: 1e12, Price: 1e15},
	}}, 2, true)
	if !changed.CreatedAt.Equal(first.CreatedAt) || !changed.UpdatedAt.Equal(later) {
		t.Errorf("times %s, %s", changed.CreatedAt, changed.UpdatedAt)
	}
	second := set(plan.Plan{Name: "a", UpdatedAt: by.At}, 2, true)
	set(plan.Plan{Name: "c", UpdatedAt: by.At}, 2, false)
	got, err := plans.Plans(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]plan.Plan{second, changed}, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}

	key := apikey.Key{
		ID: "key_1", Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}, Environment: "test", CreatedAt: by.At, Plan: "b",
	}
	if err := keys.Insert(ctx, key, apikey.Digest{1}, entry(key, "key.create")); err != nil {
		t.Fatal(err)
	}
	unknown := key
	unknown.ID, unknown.Plan = "key_2", "none"
	if err := keys.Insert(ctx, unknown, apikey.Digest{2}, entry(key, "key.create")); !errors.Is(err, apikey.ErrPlan) {
		t.Errorf("a key on an unknown plan: %v", err)
	}
	if err := keys.SetOrganizationPlan(ctx, "org-1", "none", entry(key, "organization.plan")); !errors.Is(err, apikey.ErrPlan) {
		t.Errorf("an organization on an unknown plan: %v", err)
	}
	before, err := keys.Position(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.SetOrganizationPlan(ctx, "org-1", "a", entry(key, "organization.plan")); err != nil {
		t.Fatal(err)
	}
	read, err := keys.KeyByDigest(ctx, apikey.Digest{1})
	if err != nil || read.Plan != "b" || read.OrganizationPlan != "a" {
		t.Errorf("the key is %+v, %v; want plan b and the organization's a", read, err)
	}
	if digests, _, err := keys.ChangedSince(ctx, before, 10); err != nil || len(digests) != 1 {
		t.Errorf("changed keys %v, %v; want the organization's", digests, err)
	}
	for name, want := range map[string]plan.Users{"a": {Organizations: 1}, "b": {Keys: 1}} {
		if users, found, err := plans.DeletePlan(ctx, name, by); users != want || !found || err != nil {
			t.Errorf("delete %s: %+v, %v, %v; want %+v", name, users, found, err, want)
		}
	}
	if _, found, err := plans.DeletePlan(ctx, "none", by); found || err != nil {
		t.Errorf("delete an unknown plan: %v, %v", found, err)
	}
}

// The counts of a window are those of its organization, or of its key with all rotations, on the meter's metrics.
func TestCounted(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	usage, keys := postgres.NewUsage(pool), postgres.NewKeys(pool)
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for i, k := range []apikey.Key{
		{ID: "key_1", Organization: "org-1"}, {ID: "key_2", Organization: "org-1", Origin: "key_1"}, {ID: "key_3", Organization: "org-1"},
	} {
		k.Product, k.Permissions, k.Environment, k.CreatedAt = "ai", []apikey.Permission{apikey.Read}, "test", day
		if err := keys.Insert(t.Context(), k, apikey.Digest{byte(i)}, entry(k, "key.create")); err != nil {
			t.Fatal(err)
		}
	}
	count := func(organization, key, metric string, at time.Time, n int64) meter.Count {
		return meter.Count{Counter: meter.Counter{Organization: organization, Key: key, Metric: metric, Minute: at}, Count: n}
	}
	metertest.Add(t, usage,
		count("org-1", "key_1", "llm_requests", day, 1), count("org-1", "key_2", "deliveries", day.Add(time.Hour), 2),
		count("org-1", "key_3", "events", day.Add(23*time.Hour), 4), count("org-1", "key_1", "llm_requests", day.AddDate(0, 0, 1), 8),
		count("org-1", "key_1", "llm_requests", day.Add(-time.Minute), 16), count("org-2", "key_1", "llm_requests", day, 32),
	)
	window := func(organization, key string, m plan.Meter, metrics ...string) quota.Window {
		return quota.Window{Organization: organization, Key: key, Meter: m, Metrics: metrics, Start: day, End: day.AddDate(0, 0, 1)}
	}
	got, err := usage.Counted(t.Context(), []quota.Window{
		window("org-1", "", plan.Calls), window("org-1", "key_1", plan.Calls), window("org-1", "key_3", plan.Calls),
		window("org-1", "", plan.Deliveries, "deliveries", "events"), window("org-1", "key_1", plan.Deliveries, "deliveries", "events"),
		window("org-2", "", plan.Calls), window("org-3", "", plan.Calls),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{7, 3, 4, 6, 2, 32, 0}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
