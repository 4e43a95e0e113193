// Package breaker decides when deliveries to a target, one host and port of one organization, pause. The decision is
// a pure function of the outcomes of attempts. All replicas share its state through Redis; each keeps a copy for the
// time that Redis is unavailable. The dispatcher asks how many deliveries a claim may begin and reports their
// outcomes.
package breaker

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxKnown bounds the number of failing targets that are held in memory.
	maxKnown = 50_000
	// cellLife is how long Redis keeps the state of a target without reports.
	cellLife = time.Hour
	// exchangeTimeout bounds a round trip to Redis; backOff is how long a replica decides locally after a failed one.
	exchangeTimeout = 100 * time.Millisecond
	backOff         = time.Second
	// tries is how often a change is recomputed after another replica changed the state first.
	tries = 4
)

// Target is one host and port, separately for each organization.
type Target struct {
	Organization, Host string
	Port               int
}

// KV is a compare-and-swap store of small texts that replicas share. A key that was never written is empty.
type KV interface {
	// Get returns the texts in the order of their keys.
	Get(ctx context.Context, targets []Target) ([]string, error)
	// Swap writes the texts that still equal Old, and reports for each whether it was written.
	Swap(ctx context.Context, swaps []Swap) ([]bool, error)
}

// Swap is a conditional write: it applies only while the text still equals Old. Life is how long the text is kept.
type Swap struct {
	Target   Target
	Old, New string
	Life     time.Duration
}

// Options configures a Breaker. With a nil KV each replica decides locally.
type Options struct {
	Policy Policy
	KV     KV
	Log    *slog.Logger
	Now    func() time.Time
	// Random returns numbers in [0, 1) that spread the ends of pauses.
	Random func() float64
}

// Breaker holds the circuit state of failing targets. It is safe for concurrent use.
type Breaker struct {
	o Options

	mu    sync.Mutex
	known map[Target]entry
	// bypassUntil is the time until which Redis is not used, after a failed round trip.
	bypassUntil time.Time
}

// entry is this replica's copy of a target's state.
type entry struct {
	State

	// local marks a state that was decided without Redis and is not written there yet.
	local bool
}

// New returns a Breaker with every circuit closed.
func New(o Options) *Breaker { return &Breaker{o: o, known: make(map[Target]entry)} }

// Ask is a claim's request to begin deliveries to a target.
type Ask struct {
	Target Target
	Want   int
	// Stored is the state in the store: it is used when neither Redis nor this replica has one.
	Stored State
}

// Permit is the result of an Ask: Allowed deliveries may begin; when it is zero, ask again after Wait.
type Permit struct {
	Allowed int
	Wait    time.Duration
	// Counted reports whether each allowed delivery has to be reported with Admitted set.
	Counted bool
}

// Admit decides on asks, each for another target. lease bounds how long an admitted delivery may take.
func (b *Breaker) Admit(ctx context.Context, asks []Ask, lease time.Duration) []Permit {
	permits := make([]Permit, len(asks))
	var changes []change
	for i, ask := range asks {
		permits[i] = Permit{Allowed: ask.Want}
		if ask.Stored.Phase == Closed && b.quiet(ask.Target) {
			continue
		}
		changes = append(changes, change{ask.Target, ask.Stored, func(s State, now time.Time) State {
			next, allowed, wait := b.o.Policy.Admit(s, ask.Want, lease, now)
			permits[i] = Permit{Allowed: allowed, Wait: wait, Counted: next.Phase == HalfOpen}
			return next
		}})
	}
	b.apply(ctx, changes)
	return permits
}

// Observation is a report about a target.
type Observation struct {
	Report

	Target Target
}

// Move is the result of a report, for the store: the flows of the target are parked until a time, released, or ramped
// up.
type Move struct {
	Target Target
	// State is the state after the reports.
	State State
	// Changed reports whether the phase, the level or the end of the pause changed.
	Changed bool
}

// Observe applies reports in order and returns, for each, the state of its target after all of them.
func (b *Breaker) Observe(ctx context.Context, observed []Observation) []Move {
	var targets []Target
	reports := make(map[Target][]Report)
	for _, o := range observed {
		if reports[o.Target] == nil {
			targets = append(targets, o.Target)
		}
		reports[o.Target] = append(reports[o.Target], o.Report)
	}
	moves := make(map[Target]*Move, len(targets))
	var changes []change
	for _, target := range targets {
		moves[target] = &Move{Target: target}
		good := !slices.ContainsFunc(reports[target], func(r Report) bool { return r.Event == Failed })
		if good && b.quiet(target) {
			continue
		}
		changes = append(changes, change{target, State{}, func(s State, now time.Time) State {
			next := s
			for _, r := range reports[target] {
				next = b.o.Policy.After(next, r, now, b.o.Random())
			}
			*moves[target] = Move{Target: target, State: next, Changed: next.Phase != s.Phase || next.Level != s.Level || next.Until != s.Until}
			return next
		}})
	}
	b.apply(ctx, changes)
	result := make([]Move, len(observed))
	for i, o := range observed {
		result[i] = *moves[o.Target]
	}
	return result
}

// Ignores reports whether an observation would change nothing, which holds for nearly all of them. Observe need not
// be called for those.
func (b *Breaker) Ignores(o Observation) bool { return o.Event != Failed && b.quiet(o.Target) }

// Blocked reports, from this replica's copy of the state, whether a delivery that was not admitted has to wait, and
// for how long.
func (b *Breaker) Blocked(target Target) (time.Duration, bool) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch s := b.known[target]; s.Phase {
	case Open:
		return max(s.Until.Sub(now), 0), true
	case HalfOpen:
		return waiting, true
	case Closed:
	}
	return 0, false
}

func (b *Breaker) quiet(target Target) bool {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[target].Quiet(b.o.Policy, now)
}

// change is a transition of one target's state. step may be called more than once, each time with another state; the
// last result counts.
type change struct {
	target Target
	stored State
	step   func(s State, now time.Time) State
}

// apply makes changes in the shared state, or locally while Redis is unavailable.
func (b *Breaker) apply(ctx context.Context, changes []change) {
	left := changes
	for range tries {
		if len(left) == 0 {
			return
		}
		var err error
		if left, err = b.exchange(ctx, left); err != nil {
			b.o.Log.DebugContext(ctx, "breaker state is local: Redis failed", slog.String("error", err.Error()))
			break
		}
	}
	now := b.o.Now()
	for _, c := range left {
		b.keep(c.target, c.step(b.here(c), now), true, now)
	}
}

// exchange tries changes on the shared states and returns those that lost against another replica.
func (b *Breaker) exchange(ctx context.Context, changes []change) (left []change, err error) {
	now := b.o.Now()
	if b.o.KV == nil || !b.redisUsable(now) {
		return changes, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	targets := make([]Target, len(changes))
	for i, c := range changes {
		targets[i] = c.target
	}
	old, err := b.o.KV.Get(ctx, targets)
	if err != nil {
		b.bypassRedis(now)
		return changes, err
	}
	next, swaps := make([]State, len(changes)), make([]Swap, len(changes))
	for i, c := range changes {
		next[i] = c.step(b.newest(c, decode(old[i])), now)
		swaps[i] = Swap{Target: c.target, Old: old[i], New: encode(next[i]), Life: cellLife}
		if next[i].Quiet(b.o.Policy, now) {
			swaps[i].New = ""
		}
	}
	swapped, err := b.o.KV.Swap(ctx, swaps)
	if err != nil {
		b.bypassRedis(now)
		return changes, err
	}
	for i, ok := range swapped {
		if !ok {
			left = append(left, changes[i])
			continue
		}
		b.keep(changes[i].target, next[i], false, now)
	}
	return left, nil
}

func (b *Breaker) redisUsable(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.bypassUntil)
}

func (b *Breaker) bypassRedis(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bypassUntil = now.Add(backOff)
}

// newest returns the shared state, or a later one that this replica decided locally. Without either, Redis has lost
// or dropped it, and the stored state applies.
func (b *Breaker) newest(c change, shared State) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.known[c.target]
	switch {
	case mine.local && !mine.Changed.Before(shared.Changed):
		return mine.State
	case shared.Changed.IsZero():
		return c.stored
	}
	return shared
}

// here returns this replica's state of a target, or else the stored one.
func (b *Breaker) here(c change) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mine, known := b.known[c.target]; known {
		return mine.State
	}
	return c.stored
}

func (b *Breaker) keep(target Target, s State, local bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Quiet(b.o.Policy, now) {
		delete(b.known, target)
		return
	}
	if _, known := b.known[target]; !known && len(b.known) >= maxKnown {
		b.forget()
	}
	b.known[target] = entry{s, local}
}

// forget removes an eighth of all targets at once, so that ever new targets do not cause a scan each: first closed
// ones, then any. Redis and the store still hold what is removed.
func (b *Breaker) forget() {
	for target, e := range b.known {
		if e.Phase == Closed {
			delete(b.known, target)
		}
	}
	for target := range b.known {
		if len(b.known) <= maxKnown-maxKnown/8 {
			return
		}
		delete(b.known, target)
	}
}

func encode(s State) string {
	text, _ := json.Marshal(s) // numbers and times always encode
	return string(text)
}

// decode parses a state; text that cannot be parsed is treated as never written.
func decode(text string) State {
	var s State
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return State{}
	}
	switch s.Phase {
	case Closed, Open, HalfOpen:
		return s
	}
	return State{}
}
