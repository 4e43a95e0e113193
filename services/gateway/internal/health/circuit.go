package health

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// windowSlots are the parts of a circuit's window that go out of it at a time.
const windowSlots = 10

// remembered changes of a circuit.
const remembered = 8

// Change is a circuit's change of phase.
type Change struct {
	From, To Phase
	At       time.Time
	Cause    string
}

// circuit is the shell around State.Step: it keeps the state, counts failures
// while it is closed, and tells of changes.
type circuit struct {
	name   Circuit
	policy Policy
	tell   func(context.Context, Circuit, Change)
	// window is of this phase: whether calls fail too often.
	window window
	// era is the number of the present phase, twice, plus one where it is not
	// Closed. What began in another era says nothing about this one.
	era atomic.Uint32

	credentials credentials
	// openElsewhere is how many other replicas report it as open.
	openElsewhere atomic.Int32

	mu      sync.Mutex
	state   State
	changes []Change
}

func newCircuit(name Circuit, p Policy, tell func(context.Context, Circuit, Change)) *circuit {
	return &circuit{name: name, policy: p, tell: tell, window: newWindow(p.Window, windowSlots)}
}

// pass is what lets a call through a circuit.
type pass struct {
	era   uint32
	probe bool
}

func open(era uint32) bool { return era&1 == 1 }

// step makes an event happen. Nobody waits for the log: it is told after.
func (c *circuit) step(ctx context.Context, e Event) State {
	c.mu.Lock()
	state, change := c.stepLocked(e)
	c.mu.Unlock()
	if change != nil {
		c.tell(ctx, c.name, *change)
	}
	return state
}

func (c *circuit) stepLocked(e Event) (State, *Change) {
	now := time.Now()
	before := c.state
	c.state = before.Step(e, c.policy, now)
	if c.state.Phase == before.Phase && c.state.Since.Equal(before.Since) {
		return c.state, nil
	}
	era := c.era.Load()&^1 + 2
	if c.state.Phase != Closed {
		era++
	}
	c.window.clear()
	c.era.Store(era)
	if c.state.Phase == before.Phase {
		return c.state, nil
	}
	change := Change{before.Phase, c.state.Phase, now, c.state.Cause}
	if len(c.changes) == remembered {
		c.changes = append(c.changes[:0], c.changes[1:]...)
	}
	c.changes = append(c.changes, change)
	return c.state, &change
}

// acquire lets a call through, or says when to ask again. lease is asked once
// for each probe.
func (c *circuit) acquire(ctx context.Context, lease func(context.Context) bool) (pass, *Refusal) {
	era := c.era.Load()
	if !open(era) {
		return pass{era: era}, nil
	}
	probe, recovered, ok, wait := c.ask(ctx)
	switch {
	case !ok:
		return pass{}, &Refusal{Cause: CauseOpen, RetryAfter: wait}
	case probe.probe && !recovered && !lease(ctx):
		state := c.step(ctx, Event{Kind: Denied})
		return pass{}, &Refusal{Cause: CauseOpen, RetryAfter: max(time.Until(state.Until), 0)}
	}
	return probe, nil
}

// ask steps a circuit that was not closed a moment ago. Of all who ask at a
// time, the one whose question changed the state has the probe.
func (c *circuit) ask(ctx context.Context) (p pass, recovered, ok bool, wait time.Duration) {
	c.mu.Lock()
	before := c.era.Load()
	recovered = c.state.Recovered
	state, change := c.stepLocked(Event{Kind: Asked})
	era := c.era.Load()
	c.mu.Unlock()
	if change != nil {
		c.tell(ctx, c.name, *change)
	}
	switch {
	case state.Phase == Closed:
		return pass{era: era}, false, true, 0
	case state.Phase == HalfOpen && era != before:
		return pass{era, true}, recovered, true, 0
	}
	return pass{}, false, false, max(time.Until(state.Until), 0)
}

// passable tells, without changing anything, whether a call would get through.
func (c *circuit) passable(now time.Time) (time.Duration, bool) {
	if !open(c.era.Load()) {
		return 0, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Phase == Closed || !now.Before(c.state.Until) {
		return 0, true
	}
	return c.state.Until.Sub(now), false
}

// record takes what came of a call, at a time since the monitor's begin.
func (c *circuit) record(ctx context.Context, p pass, v Verdict, at time.Duration) {
	if p.era != c.era.Load() {
		return
	}
	if p.probe {
		c.step(ctx, v.probe())
		return
	}
	switch v.Outcome {
	case Good:
		c.window.add(at, false)
	case Bad:
		c.window.add(at, true)
		if c.failing(at) {
			c.step(ctx, Event{Kind: Tripped, Cause: "calls fail: " + v.Cause, Floor: min(v.RetryAfter, MaxCooldown), Jitter: jitter()})
		}
	case Answered, Void:
	}
}

// failing tells whether calls fail too often.
func (c *circuit) failing(at time.Duration) bool {
	calls, failures := c.window.sum(at, c.policy.Window)
	return calls >= int(c.policy.Sample) && float64(failures) >= c.policy.FailureShare*float64(calls)
}

// openReplicas counts those that report the circuit as open. The caller holds
// the lock.
func (c *circuit) openReplicas() int {
	n := int(c.openElsewhere.Load())
	if c.state.Own && c.state.Phase != Closed {
		n++
	}
	return n
}
