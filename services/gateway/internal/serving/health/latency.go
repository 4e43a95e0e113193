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

// slow returns the time that only a share of all measurements exceed; 0 until there are enough to tell so small a share.
// It is the upper edge of a bucket: calls of the usual speed vary within a bucket, and must not exceed it.
func (s *speeds) slow(now time.Time, share float64) time.Duration {
	var all sketch
	all.faded = now
	for i := range s {
		if group := s[i].Load(); group != nil {
			group.addTo(&all, now)
		}
	}
	if found, _ := all.find(now, float32(1-share), float32(1/share)); found >= 0 {
		return edge(found)
	}
	return 0
}

// addAtLeast adds the measurement of a call that was ended after d, before its end: it would have taken at least as
// long. Left out, the slow calls that are ended would be missing, the quantiles would sink, and with them the time after
// which calls are ended. The time so far stands for the whole where it is among the slowest tenth, since the quantiles
// below are the same however much longer the call would have taken. A shorter one says nothing and is left out.
func (s *speeds) addAtLeast(by caller, d time.Duration, now time.Time) {
	if d >= s.quantile(now, 0.9) {
		s.add(by, d, now)
	}
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
	found, sum := s.find(now, share, least)
	if found < 0 {
		return 0, sum
	}
	return middle(found), sum
}

// find returns the bucket in which a quantile lies, and how many measurements there are. The bucket is -1 when there are
// fewer than least.
func (s *sketch) find(now time.Time, share, least float32) (found int, sum float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(now)
	for _, n := range s.counts {
		sum += n
	}
	if sum < least {
		return -1, sum
	}
	var seen float32
	for i, n := range s.counts {
		if seen += n; seen >= sum*share {
			return i, sum
		}
	}
	return buckets - 1, sum
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

// edge returns the time at the end of a bucket.
func edge(i int) time.Duration {
	i++
	return time.Duration((perDouble+i%perDouble)<<(i/perDouble)) << unitBits
}

// middle returns the time in the middle of a bucket.
func middle(i int) time.Duration {
	return time.Duration((2*(perDouble+i%perDouble)+1)<<(i/perDouble)) << (unitBits - 1)
}
