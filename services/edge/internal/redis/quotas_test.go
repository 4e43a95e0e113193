package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/platform/testkit"
)

func TestAdd(t *testing.T) {
	client := testkit.Redis(t)
	quotas := redis.NewQuotas(client)
	start := time.Now().UTC().Truncate(time.Minute)
	window := func(organization, key string) quota.Window {
		return quota.Window{Organization: organization, Key: key, Meter: plan.Calls, Start: start, End: start.Add(time.Minute)}
	}
	report := func(w quota.Window, delta, base int64) quota.Report {
		return quota.Report{Window: w, Delta: delta, Base: base}
	}
	one, key, sends := window("org-1", ""), window("org-1", "key:1"), window("org-1", "")
	sends.Meter = plan.Deliveries
	for i, step := range []struct {
		reports []quota.Report
		want    []int64
	}{
		{[]quota.Report{report(one, 5, -1), report(key, 5, 0)}, []int64{-1, 5}},                                      // unknown; known to be empty
		{[]quota.Report{report(one, 5, 7), report(key, 2, -1)}, []int64{12, 7}},                                      // rebuilt; added
		{[]quota.Report{report(one, 1, 20), report(key, 0, 3)}, []int64{21, 7}},                                      // raised; never lowered
		{[]quota.Report{report(one, -2, -1), report(key, -9, -1)}, []int64{19, 0}},                                   // given back
		{[]quota.Report{report(window("org", "-1"), 1, -1), report(window("org-1", "key"), 1, -1)}, []int64{-1, -1}}, // other holders
		{[]quota.Report{report(sends, 1, 0)}, []int64{1}},
	} {
		got, err := quotas.Add(t.Context(), step.reports)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i+1, diff)
		}
		if err := client.ScriptFlush(t.Context()).Err(); err != nil { // as a server that was restarted
			t.Fatal(err)
		}
	}
	names, err := client.Keys(t.Context(), client.Key("quota")+"*").Result()
	if err != nil || len(names) != 3 {
		t.Fatalf("windows %v, %v; want 3", names, err)
	}
	for _, name := range names {
		if left, err := client.TTL(t.Context(), name).Result(); err != nil || left <= 0 || left > 2*time.Minute {
			t.Errorf("%s is kept for %v, %v", name, left, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quotas.Add(ctx, []quota.Report{report(one, 1, 0)}); err == nil {
		t.Error("added without a server")
	}
}
