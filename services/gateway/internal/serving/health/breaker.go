package health

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// windowSlots are the parts of a breaker's window that go out of it at a time.
const windowSlots = 10

// Change is a circuit's change of phase.
type Change struct {
	From, To Phase
	At       time.Time
	Cause    string
}

// breaker is the shell around State.Step: it keeps the state and what was counted
// in its phase, and reports changes. Safe for concurrent use.
type breaker struct {
	policy Policy
	// changed is called after a change of phase, renewed under the lock as soon as
	// what was counted says nothing any more. Either may be nil.
	changed func(context.Context, Change)
	renewed func()
	// window is of this phase: whether calls fail too often.
	window window
	// generation is the number of the present phase, twice, plus one where it is not
	// Closed. What began in another generation says nothing about this one.
	generation atomic.Uint32
	// openElsewhere is how many other replicas report it as open.
	openElsewhere atomic.Int32

	mu    sync.Mutex
	state State
}

// grant is what lets a call through a breaker.
type grant struct {
	generation uint32
	probe      bool
}

func open(generation uint32) bool { return generation&1 == 1 }

// step makes an event happen. The lock is free again when a change is reported.
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

// acquire lets a call of an organization through, or says when to ask again. lease
// is asked once for each probe.
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

// ask steps a breaker that was not closed a moment ago. Of all who ask at a time,
// the one whose question changed the state has the probe.
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

// passable reports, without changing anything, whether a call would get through,
// or else when to ask.
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

// now is the present state.
func (b *breaker) now() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// openReplicas counts those that report it as open, this one too.
func (b *breaker) openReplicas() int {
	n := int(b.openElsewhere.Load())
	if state := b.now(); state.Own && state.Phase != Closed {
		n++
	}
	return n
}

// tripped is the event of calls that fail too often, of which this was the last.
func (v Verdict) tripped() Event {
	return Event{Kind: Tripped, Cause: "calls fail: " + v.Cause, Floor: min(v.RetryAfter, MaxCooldown), Jitter: jitter()}
}
