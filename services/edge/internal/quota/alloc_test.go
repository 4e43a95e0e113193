//go:build !race

package quota

import (
	"testing"

	"switchyard.dev/services/edge/internal/plan"
)

func TestTakeDoesNotAllocate(t *testing.T) {
	f := newFakeStores()
	plans := planOf(
		plan.Limit{Meter: plan.Calls, Period: plan.Minute, Amount: 1 << 39, Kind: plan.Hard},
		plan.Limit{Meter: plan.Calls, Period: plan.Month, Amount: 1 << 39, Kind: plan.Soft},
	)
	x, stop := start(t, plans, f, f)
	use := UseOf("llm_requests")
	if _, err := x.Take(t.Context(), acme, use); err != nil {
		t.Fatal(err)
	}
	stop() // What settles allocates.
	for name, c := range map[string]Caller{"on a plan": acme, "on none": {Key: "key_1", Organization: "acme"}} {
		if n := testing.AllocsPerRun(1000, func() { _, _ = x.Take(t.Context(), c, use) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	plans := planOf(
		plan.Limit{Meter: plan.Calls, Period: plan.Minute, Amount: 1 << 39, Kind: plan.Hard},
		plan.Limit{Meter: plan.Calls, Period: plan.Day, Amount: 1 << 39, Kind: plan.Hard},
		plan.Limit{Meter: plan.Calls, Period: plan.Month, Amount: 1 << 39, Kind: plan.Soft},
	)
	f := newFakeStores()
	x := New(plans, "", nil, f)
	for name, c := range map[string]Caller{"planned": acme, "unplanned": {Key: "key_1", Organization: "acme"}} {
		_, _ = x.Take(b.Context(), c, UseOf("llm_requests"))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Take(b.Context(), c, UseOf("llm_requests")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
