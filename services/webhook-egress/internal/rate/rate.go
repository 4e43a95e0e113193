// Package rate limits how many deliveries of a flow begin per second, over all
// replicas: the generic cell rate algorithm (ITU-T I.371), whose whole state is
// one time. A kv.Store keeps it; while the store is away each replica keeps its own. The
// dispatcher asks for each claim.
package rate

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/services/platform/kv"
)

const (
	// maxKnown bounds the number of limited flows that are held in memory.
	maxKnown = 50_000
	// exchangeTimeout bounds reading and swapping the states of an update.
	exchangeTimeout = 100 * time.Millisecond
	// tries is how often a state that others have changed meanwhile is decided again.
	tries = 4
	// burstTime is how much of a second's share may come at once; one delivery at least.
	burstTime = 100 * time.Millisecond
)

// take decides how many of the wanted may begin at now under a rate per second.
// due is when the next one would be, were they evenly spread. With fewer than
// wanted, wait is until the next may begin.
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
	shared *kv.Updater
	log    *slog.Logger
	now    func() time.Time

	mu  sync.Mutex
	due map[int64]time.Time // to go on from when the store is away
}

// New returns a Limiter over the store, which is nil for a replica that is alone.
func New(store kv.Store, log *slog.Logger, now func() time.Time) *Limiter {
	shared := kv.NewUpdater(kv.Options{Store: store, Timeout: exchangeTimeout, Tries: tries, Now: now})
	return &Limiter{shared: shared, log: log, now: now, due: make(map[int64]time.Time)}
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
	permits, keys := make([]Permit, len(asks)), make([]string, len(asks))
	for i, ask := range asks {
		keys[i] = strconv.FormatInt(ask.Flow, 10)
	}
	dues := make([]time.Time, len(asks))
	made, err := l.shared.Update(ctx, keys, func(i int, old string) (string, time.Duration) {
		now := l.now()
		dues[i] = decide(asks[i], decode(old), now, &permits[i])
		return encode(dues[i]), dues[i].Sub(now) + time.Minute
	})
	if err != nil && !errors.Is(err, kv.ErrAlone) {
		l.log.DebugContext(ctx, "rate limits go on alone", slog.String("error", err.Error()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) >= maxKnown {
		clear(l.due)
	}
	now := l.now()
	for i, ask := range asks {
		if !made[i] {
			dues[i] = decide(ask, l.due[ask.Flow], now, &permits[i])
		}
		l.due[ask.Flow] = dues[i]
	}
	return permits
}

func decide(ask Ask, due, now time.Time, permit *Permit) time.Time {
	due, permit.Allowed, permit.Wait = take(due, now, ask.PerSecond, ask.Want)
	return due
}

func encode(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

func decode(text string) time.Time {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
