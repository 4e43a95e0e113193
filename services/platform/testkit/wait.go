package testkit

import (
	"testing"
	"time"
)

// pause is between two looks of Wait.
const pause = 5 * time.Millisecond

// Wait looks until there is no objection left, and fails the test with the last one
// when that takes longer than the limit, or the test itself ends.
func Wait(tb testing.TB, limit time.Duration, what string, objection func() error) {
	tb.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	next := time.NewTicker(pause)
	defer next.Stop()
	for {
		err := objection()
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
