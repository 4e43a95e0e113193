package quota

import (
	"maps"
	"slices"
	"time"
)

// refuse notes that a limit of the key k, or of the organization o, has refused a call.
func refuse(k, o *holder, ofKey bool, now time.Time) {
	h := o
	if ofKey {
		h = k
	}
	if h.refusedSince.IsZero() {
		h.refusedSince = now
	}
}

// stillCalls is how long after its last call a holder counts as one that calls.
const stillCalls = 5 * time.Minute

// LongestRefused returns the longest time for which limits have refused all calls of a holder that still calls.
func (x *Enforcer) LongestRefused(now time.Time) (longest time.Duration) {
	x.mu.RLock()
	all := slices.Collect(maps.Values(x.holders))
	x.mu.RUnlock()
	for _, h := range all {
		h.mu.Lock()
		if !h.refusedSince.IsZero() && now.Sub(h.called) < stillCalls {
			longest = max(longest, now.Sub(h.refusedSince))
		}
		h.mu.Unlock()
	}
	return longest
}
