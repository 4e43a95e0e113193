package health

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// halfLife is the time in which an old measurement loses half its weight.
const halfLife = time.Minute

// Buckets of a sketch: four to each doubling, so that a quantile is off by an eighth at most, from one millisecond to
// about eighteen minutes. Times are cut to units of 2^18 ns, a quarter of a millisecond.
const (
	unitBits        = 18
	perDouble       = 4
	buckets         = 80
	leastCount      = 2.5 // measurements needed for a result
	leastGroupCount = 0.5 // and in one group
)

// speeds holds the latency measurements of a target by groups of organizations. Each group weighs the same in the
// median, however many calls it makes. It is safe for concurrent use.
type speeds [groups]atomic.Pointer[sketch]

func (s *speeds) add(by caller, d time.Duration, now time.Time) {
	group := &s[by.id%groups]
	known := group.Load()
	if known == nil {
		group.CompareAndSwap(nil, &sketch{})
		known = group.Load()
	}
	known.add(d, now)
}

// median returns the median of the groups' medians, the faster of the middle two: a target is slow when most groups
// find it so. It returns 0 if there are too few measurements.
func (s *speeds) median(now time.Time) time.Duration {
	var space [groups]time.Duration
	known, sum := space[:0], float32(0)
	for i := range s {
		if group := s[i].Load(); group != nil {
			median, count := group.quantile(now, 0.5, leastGroupCount)
			if sum += count; median > 0 {
				known = append(known, median)
			}
		}
	}
	if sum < leastCount || len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[(len(known)-1)/2]
}

// quantile returns the time below which the given share of all measurements lies; 0 if there are too few.
func (s *speeds) quantile(now time.Time, share float32) time.Duration {
	var all sketch
	all.faded = now
	for i := range s {
		if group := s[i].Load(); group != nil {
			group.addTo(&all, now)
		}
	}
	found, _ := all.quantile(now, share, leastCount)
	return found
}

// Latency is the recent latency of a target.
type Latency struct {
	// P50 is the median time of a whole answer, FirstToken the median time to the first content of a stream; 0 when too
	// little is known.
	P50, FirstToken time.Duration
}

// sketch is a histogram whose old measurements lose weight over time. It is safe for concurrent use.
type sketch struct {
	mu     sync.Mutex
	counts [buckets]float32
	faded  time.Time
}

func (s *sketch) add(d time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(now)
	s.counts[bucket(d)]++
}

// addTo adds its counts to another sketch, which no other goroutine may use.
func (s *sketch) addTo(sum *sketch, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(now)
	for i, n := range s.counts {
		sum.counts[i] += n
	}
}

// quantile returns the time below which the given share of the measurements lies, and how many measurements there are.
// The time is 0 when there are fewer than least.
func (s *sketch) quantile(now time.Time, share, least float32) (time.Duration, float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(now)
	var sum float32
	for _, n := range s.counts {
		sum += n
	}
	if sum < least {
		return 0, sum
	}
	var seen float32
	for i, n := range s.counts {
		if seen += n; seen >= sum*share {
			return middle(i), sum
		}
	}
	return middle(buckets - 1), sum
}

// fade applies the loss of weight since the last call, in ten steps to a half-life. The caller holds the lock.
func (s *sketch) fade(now time.Time) {
	const step = halfLife / 10
	if s.faded.IsZero() {
		s.faded = now
	}
	steps := int64(now.Sub(s.faded) / step)
	if steps <= 0 {
		return
	}
	s.faded = s.faded.Add(time.Duration(steps) * step)
	factor := float32(math.Exp2(-float64(steps) / 10))
	for i := range s.counts {
		s.counts[i] *= factor
	}
}

// bucket returns the bucket of a time: the number of its doubling and of its quarter there.
func bucket(d time.Duration) int {
	units := uint64(max(d, 0)) >> unitBits
	double := bits.Len64(units|perDouble) - 3
	if units < perDouble {
		return 0
	}
	return min(double*perDouble+int(units>>double&(perDouble-1)), buckets-1)
}

// middle returns the time in the middle of a bucket.
func middle(i int) time.Duration {
	return time.Duration((2*(perDouble+i%perDouble)+1)<<(i/perDouble)) << (unitBits - 1)
}
