package lifecycle

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestCollectAt(t *testing.T) {
	for live, want := range map[uint64]int{
		0: mostPercent, 2 << 20: mostPercent, 10 << 20: 500, 16 << 20: 300, 22 << 20: garbagePercent,
		restingHeap: garbagePercent, crowdedHeap - 1: garbagePercent, crowdedHeap: crowdedPercent, 10 * restingHeap: crowdedPercent,
	} {
		if got := collectAt(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

// Each collection sets the percentage for the next one from the live bytes.
func TestCollectorFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	TuneCollector()
	until := func(want int) { // bounded by the test's timeout
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for metrics.Read(now); now[0].Value.Uint64() != uint64(want); metrics.Read(now) {
			runtime.GC()
		}
	}
	until(mostPercent)
	held := make([]byte, restingHeap*3/2)
	until(garbagePercent)
	runtime.KeepAlive(held) // and no longer
	until(mostPercent)
}
