package lifecycle

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbagePercent lets garbage grow to twice what lives. At Go's own 100 the
	// collector takes a tenth of the processor in services that hold little and
	// pass much on.
	garbagePercent = 200
	// restingHeap is how large the heap may grow, in bytes, before it is collected
	// at all: a service that holds ten megabytes would collect them many times a
	// second to save memory that is not needed.
	restingHeap = 64 << 20
	// mostPercent bounds what one collection may allow the next, since what lives
	// may have grown by then.
	mostPercent = 1000
)

// TuneCollector sets how eager the garbage collector is, now and after each of
// its runs, unless GOGC says so.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		followCollector(0)
	}
}

// followCollector sets the percentage for the next collection, and comes back
// after it: each collection finalizes the unreferenced object that is left for it.
func followCollector(before int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := collectAt(live[0].Value.Uint64())
	if percent != before { // setting it stops the world
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(new(*int), func(**int) { followCollector(percent) })
}

// collectAt is the growth in percent of live bytes at which to collect again.
// Steps of 50 spare a change for every megabyte.
func collectAt(live uint64) int {
	if live >= restingHeap {
		return garbagePercent
	}
	percent := int((restingHeap - live) * 100 / max(live, 1<<20) / 50 * 50)
	return min(max(percent, garbagePercent), mostPercent)
}
