package decision

import (
	"hash/maphash"
	"sync"
	"time"
)

// slots is how many buckets a Rate has. Names that share one share its rate, so that its memory is bounded for any number of callers.
const slots = 4096

// Rate limits the rate of calls by name, in memory. It is safe for concurrent use.
type Rate struct {
	perSecond, burst float64
	seed             maphash.Seed
	mu               sync.Mutex
	buckets          [slots]bucket
}

// bucket holds what was spent, as of a moment.
type bucket struct {
	spent float64
	at    time.Time
}

// NewRate returns a Rate of calls a second, burst of them at once.
func NewRate(perSecond, burst float64) *Rate {
	return &Rate{perSecond: perSecond, burst: burst, seed: maphash.MakeSeed()}
}

// Take admits a call of a name, or returns the wait until the next one.
func (r *Rate) Take(name string, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &r.buckets[maphash.String(r.seed, name)%slots]
	spent := max(0, b.spent-max(0, now.Sub(b.at).Seconds())*r.perSecond)
	if spent+1 > r.burst {
		return time.Duration((spent + 1 - r.burst) / r.perSecond * float64(time.Second))
	}
	b.spent, b.at = spent+1, now
	return 0
}
