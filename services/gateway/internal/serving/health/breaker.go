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
	// era is the number of the present phase, twice, plus one where it is not
	// Closed. What began in another era says nothing about this one.
	era atomic.Uint32
	// openElsewhere is how many other replicas report it as open.
	openElsewhere atomic.Int32

	mu    sync.Mutex
	state State
}

// turn is what lets a call through a breaker.
type turn struct {
	era   uint32
	probe bool
}

func open(era uint32) bool { return era&1 == 1 }

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
	era := b.era.Load()&^1 + 2
	if b.state.Phase != Closed {
		era++
	}
	b.window.clear()
	if b.renewed != nil {
		b.renewed()
	}
	b.era.Store(era)
	if b.state.Phase == before.Phase {
		return b.state, nil
	}
	return b.state, &Change{before.Phase, b.state.Phase, now, b.state.Cause}
}

// acquire lets a call of an organization through, or says when to ask again. lease
// is asked once for each probe.
func (b *breaker) acquire(ctx context.Context, organization uint64, lease func(context.Context) bool) (t turn, wait time.Duration, ok bool) {
	era := b.era.Load()
	if !open(era) {
		return turn{era: era}, 0, true
	}
	t, recovered, wait, ok := b.ask(ctx, organization)
	if ok && t.probe && !recovered && !lease(ctx) {
		state := b.step(ctx, Event{Kind: Denied})
		return turn{}, max(time.Until(state.Until), 0), false
	}
	return t, wait, ok
}

// ask steps a breaker that was not closed a moment ago. Of all who ask at a time,
// the one whose question changed the state has the probe.
func (b *breaker) ask(ctx context.Context, organization uint64) (t turn, recovered bool, wait time.Duration, ok bool) {
	b.mu.Lock()
	before := b.era.Load()
	recovered = b.state.Recovered
	state, change := b.stepLocked(Event{Kind: Asked, Organization: organization})
	era := b.era.Load()
	b.mu.Unlock()
	b.report(ctx, change)
	switch {
	case state.Phase == Closed:
		return turn{era: era}, false, 0, true
	case state.Phase == HalfOpen && era != before:
		return turn{era, true}, recovered, 0, true
	}
	return turn{}, false, max(time.Until(state.turnOf(organization)), 0), false
}

// passable reports, without changing anything, whether a call would get through,
// or else when to ask.
func (b *breaker) passable(organization uint64, now time.Time) (time.Duration, bool) {
	if !open(b.era.Load()) {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.state.turnOf(organization); b.state.Phase != Closed && now.Before(until) {
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
