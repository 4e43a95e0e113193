package testkit

import (
	"testing"
	"time"
)

// pause is the interval between two checks of Wait.
const pause = 5 * time.Millisecond

// Wait calls check until it returns nil. It fails the test with the last error if that takes longer than the limit or
// if the test's context ends.
func Wait(tb testing.TB, limit time.Duration, what string, check func() error) {
	tb.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	next := time.NewTicker(pause)
	defer next.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-next.C:
		case <-tb.Context().Done():
			tb.Fatalf("%s: %v", what, err)
		case <-end.C:
			tb.Fatalf("%s: not within %s: %v", what, limit, err)
		}
	}
}
