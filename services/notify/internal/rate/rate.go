// Package rate spaces what goes to one place, over all replicas: the generic
// cell rate algorithm (ITU-T I.371), whose whole state is the time from which
// the next one may go. The dispatcher reserves a time for each recipient of a
// lane and waits for it in the store, so nothing is held or lost in memory.
package rate

import (
	"context"
	"strconv"
	"time"

	"switchyard.dev/services/notify/internal/shared"
)

// Life is how long a lane is remembered; further ahead no time is reserved.
const Life = 24 * time.Hour

// reserve gives the time at which the next one may go, and from which the one
// after it may. A state further ahead than any reservation is that of a clock
// that was set back.
func reserve(next, now time.Time, gap time.Duration) (at, then time.Time) {
	if next.Before(now) || next.Sub(now) > Life {
		next = now
	}
	return next, next.Add(gap)
}

// Limiter spaces lanes. It is safe for concurrent use.
type Limiter struct {
	states *shared.States
	gap    time.Duration
	now    func() time.Time
}

// New returns a limiter that keeps gap between two of a lane.
func New(states *shared.States, gap time.Duration, now func() time.Time) *Limiter {
	return &Limiter{states: states, gap: gap, now: now}
}

// Merge is the copy of a lane's state that counts: the later one.
func Merge(a, b string) string {
	if decode(a).After(decode(b)) {
		return a
	}
	return b
}

// Reserve takes the lane's next place and gives the wait for it.
func (l *Limiter) Reserve(ctx context.Context, lane string) time.Duration {
	var wait time.Duration
	l.states.Change(ctx, lane, func(old string) string {
		now := l.now()
		at, then := reserve(decode(old), now, l.gap)
		wait = at.Sub(now)
		return encode(then)
	})
	return wait
}

// Hold lets nothing more of a lane be reserved before now and a wait: its
// receiver asked for that.
func (l *Limiter) Hold(ctx context.Context, lane string, wait time.Duration) {
	until := l.now().Add(min(wait, Life))
	l.states.Change(ctx, lane, func(old string) string { return Merge(old, encode(until)) })
	l.states.Change(ctx, held(lane), func(old string) string { return Merge(old, encode(until)) })
}

// fresh is how old what a replica knows of a held lane may be.
const fresh = 200 * time.Millisecond

// Held reports whether a receiver asked that nothing comes now, also what has
// reserved its place before.
func (l *Limiter) Held(ctx context.Context, lane string) bool {
	now := l.now()
	until := decode(l.states.Look(ctx, held(lane), fresh))
	return until.After(now) && until.Sub(now) <= Life
}

func held(lane string) string { return "held:" + lane }

func encode(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

func decode(text string) time.Time {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
