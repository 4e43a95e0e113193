package lifecycle

import (
	"os"
	"runtime/debug"
)

// garbagePercent lets garbage grow to twice what lives. At Go's own 100 the
// collector takes a tenth of the processor in services that hold little and
// pass much on.
const garbagePercent = 200

// TuneCollector sets how eager the garbage collector is, unless GOGC says so.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
