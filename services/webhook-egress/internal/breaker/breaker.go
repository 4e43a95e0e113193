// Package breaker decides when deliveries pause. Deliveries to a host (one host and port of one organization) pause
// while no flow gets an answer there. Deliveries of one flow pause while its answers are errors. The decision is a pure
// function of the outcomes of attempts. All replicas share its state through a kv.Store; each keeps a copy for the time
// that the store is unavailable. The dispatcher asks how many deliveries a claim may begin and reports their outcomes.
package breaker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/services/platform/alive"
	"switchyard.dev/services/platform/kv"
)

const (
	// maxKnown bounds the number of failing targets that are held in memory.
	maxKnown = 50_000
	// sharedLife is how long the store remembers a target that nothing comes from.
	sharedLife = time.Hour
	// exchangeTimeout is the default of Options.Timeout.
	exchangeTimeout = 100 * time.Millisecond
	// tries is how often a state that others have changed meanwhile is decided again.
	tries = 4
)

// Target identifies the circuit of an organization's host and port, or of one flow there.
type Target struct {
	Organization, Host string
	Port               int
	// Flow is the flow's id; zero for the host's circuit. Circuit is the number of the flow's circuit: a flow gets a new
	// circuit when its endpoint gets another URL or is resumed.
	Flow    int64
	Circuit int
}

// OfHost returns the target of the flow's host.
func (t Target) OfHost() Target {
	t.Flow, t.Circuit = 0, 0
	return t
}

// key is the name of the target's state in the store.
func (t Target) key() string {
	parts := []string{t.Organization, t.Host, strconv.Itoa(t.Port)}
	for _, n := range []int64{t.Flow, int64(t.Circuit)} {
		if n != 0 { // The previous release knows only circuits without a number.
			parts = append(parts, strconv.FormatInt(n, 10))
		}
	}
	return kv.Key(parts...)
}

// Options of a Breaker.
type Options struct {
	Policy Policy
	// Store has the states that replicas share; nil for a replica that decides alone.
	Store kv.Store
	// Timeout bounds reading and swapping the states of an update; 100 ms if zero.
	Timeout time.Duration
	Log     *slog.Logger
	Now     func() time.Time
	// Random spreads the ends of pauses.
	Random func() float64
}

// Breaker holds the circuit state of failing targets. It is safe for concurrent use.
type Breaker struct {
	o        Options
	shared   *kv.Updater
	answered answers

	mu    sync.Mutex
	known map[Target]entry
}

// entry is this replica's copy of a target's state.
type entry struct {
	State

	// alone: decided without the store, which does not have it yet.
	alone bool
}

// New returns a breaker that knows nothing yet.
func New(o Options) *Breaker {
	shared := kv.NewUpdater(kv.Options{Store: o.Store, Timeout: cmp.Or(o.Timeout, exchangeTimeout), Tries: tries, Now: o.Now})
	return &Breaker{
		o: o, shared: shared, answered: answers{hosts: make(map[Target]*alive.Flows)}, known: make(map[Target]entry),
	}
}

// Ask is a claim's request to begin deliveries to a target.
type Ask struct {
	Target Target
	Want   int
	// Stored is what the database says of the target: what to go on from when
	// neither the store nor this replica knows it.
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

// Move is the result of a report. The store applies it to the flow, or to all flows of the host: it parks them until a
// time, releases them, or lets more of their deliveries through.
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
			if !good && target.Flow == 0 && s.Phase == Closed {
				next.Answered = s.Answered.Merge(b.answered.of(target), now.Add(-recent))
			}
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

// Note remembers the outcome of an attempt for its host's circuit, and reports whether the caller has to call Observe:
// most observations would change nothing.
func (b *Breaker) Note(o Observation) (matters bool) {
	if o.toHost() && o.Event != Void {
		b.answered.note(o, b.o.Now())
	}
	return o.Event == Failed || !b.quiet(o.Target)
}

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

// States returns the states of targets, in their order: what replicas share, or this replica's copy where it is newer or
// all there is. The zero State is that of a target that neither knows.
func (b *Breaker) States(ctx context.Context, targets []Target) []State {
	keys := make([]string, len(targets))
	for i, target := range targets {
		keys[i] = target.key()
	}
	texts, err := b.shared.GetAll(ctx, keys)
	if err != nil {
		texts = make([]string, len(targets))
	}
	states := make([]State, len(targets))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, target := range targets {
		states[i] = decode(texts[i])
		if mine, known := b.known[target]; known && (err != nil || mine.alone && !mine.Changed.Before(states[i].Changed)) {
			states[i] = mine.State
		}
	}
	return states
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
	keys, next := make([]string, len(changes)), make([]State, len(changes))
	for i, c := range changes {
		keys[i] = c.target.key()
	}
	made, err := b.shared.Update(ctx, keys, func(i int, old string) (string, time.Duration) {
		now := b.o.Now()
		next[i] = changes[i].step(b.newest(changes[i], decode(old)), now)
		if next[i].Quiet(b.o.Policy, now) {
			return "", sharedLife
		}
		return encode(next[i]), sharedLife
	})
	if err != nil && !errors.Is(err, kv.ErrAlone) {
		b.o.Log.DebugContext(ctx, "breaker goes on alone", slog.String("error", err.Error()))
	}
	now := b.o.Now()
	for i, c := range changes {
		if !made[i] {
			next[i] = c.step(b.here(c), now)
		}
		b.keep(c.target, next[i], !made[i], now)
	}
}

// newest returns the shared state, or what this replica decided alone since. Where
// there is neither, the store has lost it or let it go, and the database has the state to go on from.
func (b *Breaker) newest(c change, shared State) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.known[c.target]
	switch {
	case mine.alone && !mine.Changed.Before(shared.Changed):
		return mine.State
	case shared.Changed.IsZero():
		return c.stored
	}
	return shared
}

// here returns what this replica knows, else what the database does.
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

// forget makes room for an eighth of all targets at once, so that a caller with
// ever new ones doesn't have all of them looked at for each: first what is closed,
// else anything. What is forgotten is still in the store and in the database.
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
