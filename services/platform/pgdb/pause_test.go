package pgdb

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPauseAfter(t *testing.T) {
	t.Parallel()
	for waited, want := range map[time.Duration]time.Duration{
		0:                      4 * time.Millisecond,
		4 * time.Millisecond:   4 * time.Millisecond,
		8 * time.Millisecond:   4 * time.Millisecond,
		20 * time.Millisecond:  10 * time.Millisecond,
		50 * time.Millisecond:  25 * time.Millisecond,
		300 * time.Millisecond: 25 * time.Millisecond,
	} {
		if got := pauseAfter(waited); got != want {
			t.Errorf("after %v: a pause of %v, want %v", waited, got, want)
		}
	}
}

// A reader looks one last time at its limit, and then gives up without an error.
func TestAwaitLooksUntilTheLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration][]time.Duration{
		3 * time.Millisecond:  {3},
		60 * time.Millisecond: {4, 8, 12, 18, 27, 40, 60},
		99 * time.Millisecond: {4, 8, 12, 18, 27, 40, 60, 85, 99},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var looks []time.Duration
			err := Await(t.Context(), limit, func(context.Context) (bool, error) {
				looks = append(looks, time.Since(start)/time.Millisecond)
				return false, nil
			})
			if diff := cmp.Diff(want, looks); err != nil || diff != "" {
				t.Errorf("within %v: %v, looks in ms (-want +got):\n%s", limit, err, diff)
			}
		})
	}
}
