package health

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// windowSlots is the number of slots in a breaker's window; a whole slot expires at a time.
const windowSlots = 10

// Change is a circuit's change of phase.
type Change struct {
	From, To Phase
	At       time.Time
	Cause    string
}

// breaker wraps State.Step with the state itself and the counts of its phase, and reports changes. It is safe for
// concurrent use.
type breaker struct {
	policy Policy
	// changed is called after a change of phase; renewed is called under the lock as soon as the counts of the past
	// phase no longer apply. Either may be nil.
	changed func(context.Context, Change)
	renewed func()
	// window counts the calls of the present phase.
	window window
	// generation is twice the number of the present phase, plus one where the phase is not Closed. A call that began in
	// an earlier generation does not count in this one.
	generation atomic.Uint32
	// openElsewhere is how many other replicas report the circuit as open.
	openElsewhere atomic.Int32

	mu    sync.Mutex
	state State
}

// grant lets a call through a breaker.
type grant struct {
	generation uint32
	probe      bool
}

func open(generation uint32) bool { return generation&1 == 1 }

// step applies an event and reports the change after it has released the lock.
func (b *breaker) step(ctx context.Context, e Event) State {
	b.mu.Lock()
	state, change := b.stepLocked(e)
	b.mu.Unlock()
	b.report(ctx, change)
	return state
}

func (b *breaker) report(ctx context.Context, change *Change) {
	if change != nil && b.changed != nil {
		b.changed(ctx, *change)
	}
}

func (b *breaker) stepLocked(e Event) (State, *Change) {
	now := time.Now()
	before := b.state
	b.state = before.Step(e, b.policy, now)
	if b.state.Phase == before.Phase && b.state.Since.Equal(before.Since) {
		return b.state, nil
	}
	generation := b.generation.Load()&^1 + 2
	if b.state.Phase != Closed {
		generation++
	}
	b.window.clear()
	if b.renewed != nil {
		b.renewed()
	}
	b.generation.Store(generation)
	if b.state.Phase == before.Phase {
		return b.state, nil
	}
	return b.state, &Change{before.Phase, b.state.Phase, now, b.state.Cause}
}

// acquire lets an organization's call through, or returns how long to wait. It calls lease once for each probe.
func (b *breaker) acquire(ctx context.Context, organization uint64, lease func(context.Context) bool) (t grant, wait time.Duration, ok bool) {
	generation := b.generation.Load()
	if !open(generation) {
		return grant{generation: generation}, 0, true
	}
	t, recovered, wait, ok := b.ask(ctx, organization)
	if ok && t.probe && !recovered && !lease(ctx) {
		state := b.step(ctx, Event{Kind: Denied})
		return grant{}, max(time.Until(state.Until), 0), false
	}
	return t, wait, ok
}

// ask steps a breaker that was not closed when it was read. Of concurrent callers, the one whose event changed the
// state makes the probe.
func (b *breaker) ask(ctx context.Context, organization uint64) (t grant, recovered bool, wait time.Duration, ok bool) {
	b.mu.Lock()
	before := b.generation.Load()
	recovered = b.state.Recovered
	state, change := b.stepLocked(Event{Kind: Asked, Organization: organization})
	generation := b.generation.Load()
	b.mu.Unlock()
	b.report(ctx, change)
	switch {
	case state.Phase == Closed:
		return grant{generation: generation}, false, 0, true
	case state.Phase == HalfOpen && generation != before:
		return grant{generation, true}, recovered, 0, true
	}
	return grant{}, false, max(time.Until(state.probeAfter(organization)), 0), false
}

// passable reports whether a call would get through, or else how long to wait. It changes nothing.
func (b *breaker) passable(organization uint64, now time.Time) (time.Duration, bool) {
	if !open(b.generation.Load()) {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.state.probeAfter(organization); b.state.Phase != Closed && now.Before(until) {
		return until.Sub(now), false
	}
	return 0, true
}

// now returns the present state.
func (b *breaker) now() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// openReplicas returns how many replicas report the circuit as open, including this one.
func (b *breaker) openReplicas() int {
	n := int(b.openElsewhere.Load())
	if state := b.now(); state.Own && state.Phase != Closed {
		n++
	}
	return n
}

// tripped returns the event for calls that fail too often; v is the verdict of the last one.
func (v Verdict) tripped() Event {
	return Event{Kind: Tripped, Cause: "calls fail: " + v.Cause, Floor: min(v.RetryAfter, MaxCooldown), Jitter: jitter()}
}
