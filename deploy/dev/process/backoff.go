package process

import "time"

const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// steadyTime is how long a program must run for its next end to count as the first one.
	steadyTime = time.Minute
)

// Backoff returns the pause before a program that has ended by itself is started again. before is the pause before its
// last run, 0 when it ends for the first time, and lasted is how long that run took. Pauses double up to half a minute,
// and begin anew after a run of a minute. again reports whether this one goes on from the pause before.
func Backoff(before, lasted time.Duration) (pause time.Duration, again bool) {
	if before == 0 || lasted >= steadyTime {
		return firstPause, false
	}
	return min(2*before, longestPause), true
}
