package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// endTransactions ends the connections on which a transaction is open, as a restart of Postgres does.
const endTransactions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE state = 'idle in transaction' AND datname = current_database()`

func entry(key apikey.Key, action string) apikey.Entry {
	return apikey.Entry{
		At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Actor: apikey.Actor{Name: "op", Request: "req_1"}, Action: action,
		Organization: key.Organization, Key: key.ID, Details: map[string]any{"a": "b"},
	}
}

func TestKeys(t *testing.T) {
	keys := postgres.NewKeys(testkit.Postgres(t, migrations.FS))
	ctx := t.Context()
	created := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	key := apikey.Key{
		ID: "key_1", Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read, apikey.Write},
		Name: "n", Environment: "test", CreatedAt: created, ExpiresAt: new(created.Add(time.Hour)),
	}
	digest := apikey.Digest{1, 2, 3}
	if err := keys.Insert(ctx, key, digest, entry(key, "key.create")); err != nil {
		t.Fatal(err)
	}
	got, err := keys.KeyByDigest(ctx, digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&key, got); diff != "" {
		t.Errorf("KeyByDigest (-want +got):\n%s", diff)
	}
	if got, err := keys.KeyByDigest(ctx, apikey.Digest{9}); got != nil || err != nil {
		t.Errorf("unknown digest: %v, %v", got, err)
	}
	revoke := func(key *apikey.Key) (apikey.Change, error) {
		key.RevokedAt = new(created.Add(time.Minute))
		return apikey.Change{Entry: new(entry(*key, "key.revoke"))}, nil
	}
	if _, _, found, err := keys.Change(ctx, "key_2", revoke); found || err != nil {
		t.Errorf("revoked a key that isn't there: %v, %v", found, err)
	}
	if _, d, found, err := keys.Change(ctx, "key_1", revoke); d != digest || !found || err != nil {
		t.Errorf("Change = %x, %v, %v", d, found, err)
	}
	if err := keys.Touch(ctx, map[string]time.Time{"key_1": created.Add(time.Minute), "key_9": created}); err != nil {
		t.Fatal(err)
	}
	if err := keys.Touch(ctx, map[string]time.Time{"key_1": created}); err != nil { // never goes back
		t.Fatal(err)
	}
	key.RevokedAt, key.LastUsedAt = new(created.Add(time.Minute)), new(created.Add(time.Minute))
	for _, organization := range []string{"", "org-1"} {
		list, err := keys.List(ctx, organization, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]apikey.Key{key}, list); diff != "" {
			t.Errorf("List(%q) (-want +got):\n%s", organization, diff)
		}
	}
	for _, q := range [][2]string{{"org-2", ""}, {"", "key_1"}} {
		if list, err := keys.List(ctx, q[0], q[1], 10); len(list) != 0 || err != nil {
			t.Errorf("List%v = %v, %v", q, list, err)
		}
	}
}

// A reader of the feed that follows positions misses no change, whatever order
// concurrent writers begin and commit in.
func TestFeedMissesNothing(t *testing.T) {
	keys := postgres.NewKeys(testkit.Postgres(t, migrations.FS))
	const writers, each = 6, 20
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				err := keys.Insert(t.Context(), apikey.Key{
					ID: fmt.Sprintf("key_%d_%d", i, j), Organization: "o", Product: "ai",
					Permissions: []apikey.Permission{apikey.Read}, Environment: "test", CreatedAt: time.Now(),
				}, apikey.Digest{byte(i + 1), byte(j)}, entry(apikey.Key{Organization: "o"}, "key.create"))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := make(map[apikey.Digest]bool)
	for position := int64(0); len(seen) < writers*each && !t.Failed(); {
		digests, last, err := keys.ChangedSince(t.Context(), position, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range digests {
			seen[d] = true
		}
		newest, err := keys.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if position = last; position == newest && newest == writers*each && len(seen) < writers*each {
			t.Fatalf("%d changes of %d seen, and the feed is at its end", len(seen), writers*each)
		}
	}
	wg.Wait()
}

// Replicas write down the last uses of the same keys at the same time.
func TestTouchesDoNotDeadlock(t *testing.T) {
	keys := postgres.NewKeys(testkit.Postgres(t, migrations.FS))
	created := time.Now().UTC()
	uses := make(map[string]time.Time)
	for i := range 300 {
		key := apikey.Key{
			ID: fmt.Sprintf("key_%03d", i), Organization: "org-1", Product: "ai", Environment: "test",
			Permissions: []apikey.Permission{apikey.Read}, CreatedAt: created,
		}
		if err := keys.Insert(t.Context(), key, apikey.Digest{byte(i), byte(i >> 8)}, entry(key, "key.create")); err != nil {
			t.Fatal(err)
		}
		uses[key.ID] = created
	}
	var replicas sync.WaitGroup
	for range 3 {
		replicas.Go(func() {
			for round := range 10 {
				later := make(map[string]time.Time, len(uses)) // a new map, a new order
				for id := range uses {
					later[id] = created.Add(time.Duration(round) * time.Minute)
				}
				if err := keys.Touch(t.Context(), later); err != nil {
					t.Error(err)
				}
			}
		})
	}
	replicas.Wait()
}

func TestUsage(t *testing.T) {
	usage := postgres.NewUsage(testkit.Postgres(t, migrations.FS))
	ctx := t.Context()
	minute := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	count := func(org, key, metric string, after time.Duration, n int64) meter.Count {
		return meter.Count{Counter: meter.Counter{Organization: org, Key: key, Metric: metric, Minute: minute.Add(after)}, Count: n}
	}
	for i, step := range []struct {
		service, from, to string
		counts            []meter.Count
		added             bool
	}{
		{"gateway", "", "1", []meter.Count{
			count("o1", "k1", "deliveries", 0, 2), count("o1", "k1", "llm_requests", 0, 5),
			count("o1", "k2", "deliveries", 0, 1), count("o2", "k3", "deliveries", 0, 7),
		}, true},
		{"gateway", "", "1", []meter.Count{count("o2", "k3", "deliveries", 0, 100)}, false},
		{"gateway", "1", "2", []meter.Count{count("o1", "k1", "deliveries", time.Minute, 3)}, true},
		{"gateway", "1", "3", []meter.Count{count("o1", "k1", "deliveries", 0, 100)}, false},
		{"notify", "", "1", []meter.Count{count("o1", "k1", "deliveries", 0, 10), count("o2", "k3", "deliveries", 0, 1)}, true},
		{"notify", "", "2", []meter.Count{count("o2", "k3", "deliveries", 0, 100)}, false},
	} {
		added, err := usage.Add(ctx, step.service, step.from, step.to, step.counts)
		if err != nil || added != step.added {
			t.Errorf("step %d: added %t, %v, want %t", i, added, err, step.added)
		}
	}
	for service, want := range map[string]string{"gateway": "2", "notify": "1", "webhook-egress": ""} {
		if got, err := usage.Cursor(ctx, service); got != want || err != nil {
			t.Errorf("%s is read to %q (%v), want %q", service, got, err, want)
		}
	}
	all := []meter.Total{
		{Organization: "o1", Key: "k1", Metric: "deliveries", Count: 15},
		{Organization: "o1", Key: "k1", Metric: "llm_requests", Count: 5},
		{Organization: "o1", Key: "k2", Metric: "deliveries", Count: 1},
		{Organization: "o2", Key: "k3", Metric: "deliveries", Count: 8},
	}
	end := minute.Add(time.Hour)
	for name, tt := range map[string]struct {
		query meter.Query
		want  []meter.Total
	}{
		"all":             {meter.Query{From: minute, To: end, Limit: 9}, all},
		"organization":    {meter.Query{Organization: "o1", From: minute, To: end, Limit: 9}, all[:3]},
		"metric":          {meter.Query{Metric: "llm_requests", From: minute, To: end, Limit: 9}, all[1:2]},
		"first minute":    {meter.Query{Organization: "o1", Metric: "deliveries", From: minute, To: minute.Add(time.Minute), Limit: 1}, []meter.Total{{Organization: "o1", Key: "k1", Metric: "deliveries", Count: 12}}},
		"second page":     {meter.Query{From: minute, To: end, After: all[1], Limit: 1}, all[2:3]},
		"before the time": {meter.Query{From: minute.Add(-time.Hour), To: minute, Limit: 9}, []meter.Total{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := usage.Sum(ctx, tt.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Sum (-want +got):\n%s", diff)
			}
		})
	}
}

// Replicas that add the same pages again and again, all at once, count each once and don't deadlock.
func TestUsageOfManyReaders(t *testing.T) {
	usage := postgres.NewUsage(testkit.Postgres(t, migrations.FS))
	minute := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	var counts []meter.Count
	for _, key := range []string{"k1", "k2", "k3"} {
		counts = append(counts, meter.Count{
			Counter: meter.Counter{Organization: "o", Key: key, Metric: "deliveries", Minute: minute}, Count: 1,
		})
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			cursor := ""
			for range 25 {
				next := metertest.Next(cursor)
				if _, err := usage.Add(t.Context(), fmt.Sprint("service", i%4), cursor, next, counts); err != nil { // each service twice
					t.Error(err)
				}
				cursor = next
			}
		})
	}
	wg.Wait()
	totals, err := usage.Sum(t.Context(), meter.Query{From: minute, To: minute.Add(time.Minute), Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	for _, total := range totals {
		if total.Count != 100 {
			t.Errorf("%s counted %d, want 100", total.Key, total.Count)
		}
	}
}
