// Package breaker decides when attempts pause because they fail. A host (a scheme with host and port) pauses while it
// answers no lane; a lane (a webhook's path, a Slack URL, a channel or a device) pauses while its own attempts fail. The
// decision is a pure function; all replicas share its state. The dispatcher asks before each attempt and reports the
// outcome.
package breaker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/alive"
)

// Life is how long a circuit's state is kept after the last report.
const Life = time.Hour

const (
	// fresh is the maximum age of a replica's copy of a state.
	fresh = 250 * time.Millisecond
	// maxLanes is how many circuits the lanes of a host share: a digest of the lane selects one.
	maxLanes = 1 << 18
	// maxAnswered bounds the hosts for which a replica remembers answers. An answer counts for recent; after that,
	// other replicas may have seen the lane fail.
	maxAnswered = 10_000
	recent      = 15 * time.Second
)

// Names of circuits that Report returns.
const (
	CircuitHost = "host"
	CircuitLane = "lane"
)

// Breaker holds the circuits of hosts and lanes. It is safe for concurrent use.
type Breaker struct {
	states *shared.States
	policy Policy
	now    func() time.Time
	random func() float64

	mu sync.Mutex
	// answered holds, by host, the lanes that answered this replica. Replicas share them only once something fails.
	answered map[string]alive.Flows
}

// New returns a Breaker over states.
func New(states *shared.States, policy Policy, now func() time.Time, random func() float64) *Breaker {
	return &Breaker{states: states, policy: policy, now: now, random: random, answered: make(map[string]alive.Flows)}
}

// Merge returns the newer of two copies of a state.
func Merge(a, b string) string {
	if decode(a).Changed.After(decode(b).Changed) {
		return a
	}
	return b
}

// numberOf returns the number of a lane, 1 or more; zero if lane is empty.
func numberOf(lane string) uint64 {
	if lane == "" {
		return 0
	}
	digest := sha256.Sum256([]byte(lane))
	return 1 + binary.BigEndian.Uint64(digest[:])%maxLanes
}

// laneKey returns the key of a lane's circuit. No host's key begins with a number and a space: it begins with a scheme.
func laneKey(host string, lane uint64) string { return strconv.FormatUint(lane, 36) + " " + host }

// Admit asks to begin an attempt that ends within lease. It returns zero if the attempt may begin, or else how long
// to wait before asking again. lane is empty for a host without lanes.
func (b *Breaker) Admit(ctx context.Context, host, lane string, lease time.Duration) (wait time.Duration) {
	at, number := decode(b.states.Look(ctx, host, fresh)), numberOf(lane)
	key := laneKey(host, number)
	own := number != 0 && b.now().Before(at.LanesUntil) && decode(b.states.Look(ctx, key, fresh)).Open()
	if own {
		if wait = b.admit(ctx, key, 0, lease); wait > 0 {
			return wait
		}
	}
	if !at.Open() {
		return 0
	}
	if wait = b.admit(ctx, host, number, lease); wait > 0 && own {
		b.release(ctx, key)
	}
	return wait
}

func (b *Breaker) admit(ctx context.Context, key string, lane uint64, lease time.Duration) (wait time.Duration) {
	b.states.Change(ctx, key, func(old string) string {
		var next State
		next, wait = b.policy.Admit(decode(old), lane, b.now(), lease)
		return encode(next)
	})
	return wait
}

// Release ends an admitted attempt that says nothing about the host and the lane, because nothing was sent. If it was a
// probe, another attempt may probe.
func (b *Breaker) Release(ctx context.Context, host, lane string) {
	at, number := decode(b.states.Look(ctx, host, fresh)), numberOf(lane)
	if at.Open() {
		b.release(ctx, host)
	}
	if key := laneKey(host, number); number != 0 && b.now().Before(at.LanesUntil) && decode(b.states.Look(ctx, key, fresh)).Open() {
		b.release(ctx, key)
	}
}

func (b *Breaker) release(ctx context.Context, key string) {
	b.states.Change(ctx, key, func(old string) string { return encode(b.policy.Release(decode(old), b.now())) })
}

// Report records the outcome of an attempt: whether it failed to reach the host, whether the lane's receiver failed to
// take the message, and for how long it asked to wait. It returns the circuit that opened, empty for none. While the
// host's circuit is open, a failure to reach the host counts only there, so that its lanes don't wait for their own
// circuits once the host is back.
func (b *Breaker) Report(
	ctx context.Context, host, lane string, hostFailed, laneFailed bool, retryAfter time.Duration,
) (opened string) {
	number := numberOf(lane)
	b.note(host, number, hostFailed)
	at := decode(b.states.Look(ctx, host, fresh))
	if hostFailed || at.Row > 0 || at.Open() {
		var open bool
		if at, open = b.change(ctx, host, Event{Lane: number, Failed: hostFailed}); open {
			opened = CircuitHost
		}
	}
	key, known := laneKey(host, number), b.now().Before(at.LanesUntil)
	switch {
	case number == 0:
	case hostFailed && at.Open():
		if known {
			b.release(ctx, key)
		}
	case hostFailed || laneFailed:
		b.expectLanes(ctx, host, at)
		if _, open := b.change(ctx, key, Event{Failed: true, RetryAfter: retryAfter}); open {
			opened = CircuitLane
		}
	case known:
		if at := decode(b.states.Look(ctx, key, fresh)); at.Row > 0 || at.Open() {
			b.change(ctx, key, Event{})
		}
	}
	return opened
}

// change records an attempt in a circuit. It returns the new state, and whether the attempt opened the circuit.
func (b *Breaker) change(ctx context.Context, key string, e Event) (after State, opened bool) {
	b.states.Change(ctx, key, func(old string) string {
		before, now := decode(old), b.now()
		if e.Lane != 0 && e.Failed && !before.Open() {
			before.Answered = before.Answered.Merge(b.answers(key), now.Add(-recent))
		}
		after = b.policy.After(before, e, now, b.random())
		opened = after.Opened > before.Opened
		return encode(after)
	})
	return after, opened
}

// expectLanes marks a host as one whose lanes may have failures. Without the mark, replicas look up no lane's circuit.
func (b *Breaker) expectLanes(ctx context.Context, host string, at State) {
	if at.LanesUntil.Sub(b.now()) > Life/2 {
		return
	}
	b.states.Change(ctx, host, func(old string) string {
		s, now := decode(old), b.now()
		s.LanesUntil, s.Changed = now.Add(Life), now
		return encode(s)
	})
}

// note remembers whether a lane's last attempt was answered or failed to reach the host.
func (b *Breaker) note(host string, lane uint64, hostFailed bool) {
	if lane == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	lanes, known := b.answered[host]
	switch {
	case !hostFailed && !known && len(b.answered) >= maxAnswered:
		b.forget()
		fallthrough
	case !hostFailed:
		b.answered[host] = lanes.With(lane, b.now())
	case known:
		b.answered[host] = lanes.Without(lane)
	}
}

// forget removes hosts until there is room for an eighth of maxAnswered.
func (b *Breaker) forget() {
	for host := range b.answered {
		if len(b.answered) <= maxAnswered-maxAnswered/8 {
			return
		}
		delete(b.answered, host)
	}
}

// answers returns the lanes of a host that answered this replica.
func (b *Breaker) answers(host string) alive.Flows {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answered[host]
}

func encode(s State) string {
	if s == (State{}) {
		return ""
	}
	text, _ := json.Marshal(s) // numbers and times always encode
	return string(text)
}

// decode parses a state; text that cannot be parsed is treated as never written.
func decode(text string) State {
	var s State
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return State{}
	}
	return s
}
