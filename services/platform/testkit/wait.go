package testkit

import (
	"testing"
	"time"
)

const (
	// pause is the interval between two checks of Wait.
	pause = 5 * time.Millisecond
	// longest is how long Wait waits. Only a test that fails waits for so long, so it says nothing of how fast a machine is.
	longest = 2 * time.Minute
)

// Wait calls check until it returns nil. It fails the test with the last error if that takes two minutes or if the test's
// context ends.
func Wait(tb testing.TB, what string, check func() error) {
	tb.Helper()
	wait(tb, longest, what, check)
}

func wait(tb testing.TB, limit time.Duration, what string, check func() error) {
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
