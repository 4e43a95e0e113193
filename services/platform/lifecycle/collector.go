package lifecycle

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbagePercent lets garbage grow to twice the live bytes. At Go's default of 100 the garbage collector
	// takes a tenth of the processor in services that hold little and pass much through.
	garbagePercent = 200
	// restingHeap is how large the heap may grow, in bytes, before it is collected at all. A service that holds ten
	// megabytes would otherwise collect many times a second, to save memory that is not needed.
	restingHeap = 64 << 20
	// crowdedHeap is how many live bytes are so many that garbage may grow to only as much: services are given 512 MiB, and
	// three times a third of that would leave nothing for what lives a moment later.
	crowdedHeap    = 128 << 20
	crowdedPercent = 100
	// mostPercent bounds the growth allowed after one collection, since the live bytes may have grown by the next one.
	mostPercent = 1000
)

// TuneCollector sets how often the garbage collector runs, now and again after each collection. It does nothing if GOGC
// is set.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		followCollector(0)
	}
}

// followCollector sets the percentage for the next collection and schedules itself to run after it: each collection
// runs the finalizer of the unreferenced object that it creates.
func followCollector(before int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := collectAt(live[0].Value.Uint64())
	if percent != before { // Setting it stops the world.
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(new(*int), func(**int) { followCollector(percent) })
}

// collectAt returns the growth, in percent of the live bytes, at which to collect again. Steps of 50 avoid a change for
// every megabyte.
func collectAt(live uint64) int {
	switch {
	case live >= crowdedHeap:
		return crowdedPercent
	case live >= restingHeap:
		return garbagePercent
	}
	percent := int((restingHeap - live) * 100 / max(live, 1<<20) / 50 * 50)
	return min(max(percent, garbagePercent), mostPercent)
}
