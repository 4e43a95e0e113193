// Package rate spaces messages to one receiver, over all replicas. It uses the generic cell rate algorithm (ITU-T
// I.371), whose state is a single time: when the next message may go. The dispatcher reserves a time for each
// recipient of a lane and waits for it in the store, so nothing is held or lost in memory.
package rate

import (
	"context"
	"strconv"
	"time"

	"switchyard.dev/services/notify/internal/shared"
)

// Life is how long the state of a lane is kept; reservations reach no further ahead.
const Life = 24 * time.Hour

// reserve returns the time at which the next message may go, and the one from which the message after it may. A state
// further ahead than any reservation means that the clock was set back.
func reserve(next, now time.Time, gap time.Duration) (at, then time.Time) {
	if next.Before(now) || next.Sub(now) > Life {
		next = now
	}
	return next, next.Add(gap)
}

// Limiter spaces the messages of lanes. It is safe for concurrent use.
type Limiter struct {
	states *shared.States
	gap    time.Duration
	now    func() time.Time
}

// New returns a Limiter with at least gap between two messages of a lane.
func New(states *shared.States, gap time.Duration, now func() time.Time) *Limiter {
	return &Limiter{states: states, gap: gap, now: now}
}

// Merge returns the later of two copies of a lane's state.
func Merge(a, b string) string {
	if decode(a).After(decode(b)) {
		return a
	}
	return b
}

// Reserve reserves the lane's next slot and returns the wait for it. After Redis becomes available again, a recipient may
// get a message in each gap from each replica, for up to three seconds: until then each replica has only its own state.
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

// Hold blocks reservations of a lane until the wait has passed, because its receiver asked for that.
func (l *Limiter) Hold(ctx context.Context, lane string, wait time.Duration) {
	until := l.now().Add(min(wait, Life))
	l.states.Change(ctx, lane, func(old string) string { return Merge(old, encode(until)) })
	l.states.Change(ctx, held(lane), func(old string) string { return Merge(old, encode(until)) })
}

// fresh is the maximum age of a replica's copy of a hold.
const fresh = 200 * time.Millisecond

// Held reports whether the lane's receiver asked for a pause now. Slots reserved before are blocked too.
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
