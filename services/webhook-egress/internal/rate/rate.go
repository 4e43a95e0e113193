// Package rate limits how many deliveries of a flow begin per second, over all replicas. It uses the generic cell
// rate algorithm (ITU-T I.371), whose state is a single time. Redis holds the state; while Redis is unavailable each
// replica uses its own. The dispatcher asks once per claim.
package rate

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// maxKnown bounds the number of limited flows that are held in memory.
	maxKnown = 50_000
	// exchangeTimeout bounds a round trip to Redis; backOff is how long a replica decides locally after a failed one.
	exchangeTimeout = 100 * time.Millisecond
	backOff         = time.Second
	tries           = 4
	// burstTime is the part of a second's share that may begin at once; at least one delivery may.
	burstTime = 100 * time.Millisecond
)

// KV is a compare-and-swap store of small texts that replicas share, one per flow. A key that was never written is
// empty.
type KV interface {
	Get(ctx context.Context, flows []int64) ([]string, error)
	// Swap writes the texts that still equal Old, and reports for each whether it was written.
	Swap(ctx context.Context, swaps []Swap) ([]bool, error)
}

// Swap is a conditional write: it applies only while the text still equals Old. Life is how long the text is kept.
type Swap struct {
	Flow     int64
	Old, New string
	Life     time.Duration
}

// take decides how many of the wanted deliveries may begin at now under a rate per second. due is when the next
// delivery is due if they are evenly spread. If taken is less than want, wait is the time until the next one may
// begin.
func take(due, now time.Time, perSecond float64, want int) (next time.Time, taken int, wait time.Duration) {
	gap := time.Duration(float64(time.Second) / perSecond)
	slack := max(burstTime-gap, 0)
	// A clock that was set back must not block the flow for that long.
	if due.Before(now) || due.Sub(now) > gap+slack {
		due = now
	}
	for taken < want && due.Sub(now) <= slack {
		due = due.Add(gap)
		taken++
	}
	if taken < want {
		wait = due.Sub(now) - slack
	}
	return due, taken, wait
}

// Limiter limits flows. It is safe for concurrent use.
type Limiter struct {
	kv  KV // nil for local decisions only
	log *slog.Logger
	now func() time.Time

	mu          sync.Mutex
	due         map[int64]time.Time
	bypassUntil time.Time // Redis is not used until then, after a failed round trip
}

// New returns a Limiter; kv may be nil.
func New(kv KV, log *slog.Logger, now func() time.Time) *Limiter {
	return &Limiter{kv: kv, log: log, now: now, due: make(map[int64]time.Time)}
}

// Ask is a request to begin deliveries of a limited flow.
type Ask struct {
	Flow      int64
	PerSecond float64
	Want      int
}

// Permit is the result of an Ask: Allowed deliveries may begin, the next one after Wait.
type Permit struct {
	Allowed int
	Wait    time.Duration
}

// Take decides on asks, each for another flow.
func (l *Limiter) Take(ctx context.Context, asks []Ask) []Permit {
	permits := make([]Permit, len(asks))
	left := make([]int, len(asks)) // indexes in asks
	for i := range asks {
		left[i] = i
	}
	for range tries {
		if len(left) == 0 {
			return permits
		}
		var err error
		if left, err = l.exchange(ctx, asks, left, permits); err != nil {
			l.log.DebugContext(ctx, "rate limits are local: Redis failed", slog.String("error", err.Error()))
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, i := range left {
		l.due[asks[i].Flow] = l.decide(asks[i], l.due[asks[i].Flow], now, &permits[i])
	}
	return permits
}

func (*Limiter) decide(ask Ask, due, now time.Time, permit *Permit) time.Time {
	due, permit.Allowed, permit.Wait = take(due, now, ask.PerSecond, ask.Want)
	return due
}

// exchange decides by the shared state and returns the indexes that lost against another replica.
func (l *Limiter) exchange(ctx context.Context, asks []Ask, places []int, permits []Permit) (left []int, err error) {
	now := l.now()
	if l.kv == nil || !l.redisUsable(now) {
		return places, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	flows := make([]int64, len(places))
	for n, i := range places {
		flows[n] = asks[i].Flow
	}
	old, err := l.kv.Get(ctx, flows)
	if err != nil {
		l.bypassRedis(now)
		return places, err
	}
	swaps, dues := make([]Swap, len(places)), make([]time.Time, len(places))
	for n, i := range places {
		dues[n] = l.decide(asks[i], decode(old[n]), now, &permits[i])
		swaps[n] = Swap{Flow: asks[i].Flow, Old: old[n], New: encode(dues[n]), Life: dues[n].Sub(now) + time.Minute}
	}
	swapped, err := l.kv.Swap(ctx, swaps)
	if err != nil {
		l.bypassRedis(now)
		return places, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) >= maxKnown {
		clear(l.due)
	}
	for n, i := range places {
		if !swapped[n] {
			left = append(left, i)
			continue
		}
		l.due[asks[i].Flow] = dues[n] // the local state for when Redis becomes unavailable
	}
	return left, nil
}

func (l *Limiter) redisUsable(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !now.Before(l.bypassUntil)
}

func (l *Limiter) bypassRedis(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bypassUntil = now.Add(backOff)
}

func encode(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

func decode(text string) time.Time {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
