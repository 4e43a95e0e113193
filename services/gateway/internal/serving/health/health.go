// Package health knows how the vendors are: whether a call may go to one now,
// and how fast it has been of late. It owns the circuit breakers (one for each
// vendor and model family), the bulkheads (one for each vendor), the rests of
// credentials, the retry budgets and the latencies. Package inference asks for a
// permit before each attempt and says what came of it; package routing ranks by
// the latencies; internal/redis carries what replicas tell each other.
//
// A permit and its record take no lock that a slow call holds and no round trip:
// only the one call that probes an open circuit asks Redis, for the lease.
package health

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/fairshare"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Bounds of what is remembered of model names that no policy lists, for each
// provider: callers make them up. What policies list has no bound but theirs.
const (
	maxUnlisted = 64
	// otherModel stands for those that have no place of their own.
	otherModel = "other"
)

// Options of a Monitor. The zero Options make one that decides alone.
type Options struct {
	Policy Policy
	// Concurrency is how many calls to one vendor may be under way; a quarter as
	// many more may wait for QueueTime.
	Concurrency int
	QueueTime   time.Duration
	// Share is the percentage of a provider's calls under way that one organization
	// may have; fairshare.DefaultPercent when 0.
	Share int
	// Peers is what replicas exchange their reports through; nil for none.
	Peers Peers
	Log   *slog.Logger
}

// Defaults of the bulkhead.
const (
	DefaultConcurrency = 1024
	defaultQueueTime   = 250 * time.Millisecond
)

// Monitor is the health of all vendors. Safe for concurrent use.
type Monitor struct {
	Options

	// base is when the monitor was made; see now.
	base time.Time

	// targets are read without a lock, and replaced as a whole under mu.
	targets atomic.Pointer[map[provider.Target]*target]

	mu       sync.Mutex
	vendors  map[string]*vendor
	circuits map[Circuit]*circuit

	// changed wakes Run after a change that others should hear of.
	changed chan struct{}
}

// Circuit names a breaker: a vendor and a model family of its.
type Circuit struct{ Provider, Family string }

// vendor is what all targets of a provider share.
type vendor struct {
	name        string
	bulkhead    *bulkhead
	budgets     [groups]budget // by the caller's group
	credentials credentials
	// unlisted is how many models have a place that no policy lists, families how
	// many circuits were made for such.
	unlisted, families int
	other              *target
}

// target is a model of a vendor.
type target struct {
	vendor             *vendor
	circuit            *circuit
	answers, beginning speeds
	traffic            traffic
}

// New returns a Monitor with every circuit closed.
func New(o Options) *Monitor {
	if o.Policy == (Policy{}) {
		o.Policy = DefaultPolicy()
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Share <= 0 {
		o.Share = fairshare.DefaultPercent
	}
	if o.QueueTime <= 0 {
		o.QueueTime = defaultQueueTime
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Monitor{
		Options: o, vendors: make(map[string]*vendor), circuits: make(map[Circuit]*circuit),
		base: time.Now(), changed: make(chan struct{}, 1),
	}
	m.targets.Store(&map[provider.Target]*target{})
	return m
}

// find gives what is known of a target. One that no policy lists shares a place
// with all such of its provider until a call was served; see served.
func (m *Monitor) find(t provider.Target, unlisted bool) *target {
	if found := (*m.targets.Load())[t]; found != nil {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := (*m.targets.Load())[t]; found != nil {
		return found
	}
	v := m.vendor(t.Provider)
	if !unlisted {
		return m.place(v, t, m.circuit(v, Family(t.Model), false))
	}
	if v.other == nil {
		v.other = m.place(v, provider.Target{Provider: t.Provider, Model: otherModel}, m.circuit(v, otherModel, false))
	}
	return v.other
}

// served gives a model that no policy lists a place of its own once the vendor has
// served it, while places are left: names that no vendor serves take none.
func (m *Monitor) served(t provider.Target) {
	if (*m.targets.Load())[t] != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.vendor(t.Provider)
	if (*m.targets.Load())[t] != nil || v.unlisted >= maxUnlisted {
		return
	}
	v.unlisted++
	m.place(v, t, m.circuit(v, Family(t.Model), true))
}

// Known reports whether a target has a place of its own: every one that a policy
// lists and that was called, and a bounded number of others.
func (m *Monitor) Known(t provider.Target) bool { return (*m.targets.Load())[t] != nil }

// place makes what is known of a target. The caller holds the lock.
func (m *Monitor) place(v *vendor, t provider.Target, c *circuit) *target {
	next := maps.Clone(*m.targets.Load())
	made := &target{vendor: v, circuit: c, traffic: newTraffic()}
	next[t] = made
	m.targets.Store(&next)
	return made
}

// vendor finds or makes one. The caller holds the lock.
func (m *Monitor) vendor(name string) *vendor {
	v := m.vendors[name]
	if v == nil {
		v = &vendor{name: name, bulkhead: newBulkhead(m.Concurrency, m.Share, m.QueueTime)}
		m.vendors[name] = v
	}
	return v
}

// circuit finds or makes one. Of those that no policy lists there is a bounded
// number; the others are one. The caller holds the lock.
func (m *Monitor) circuit(v *vendor, family string, unlisted bool) *circuit {
	name := Circuit{v.name, family}
	if c := m.circuits[name]; c != nil {
		return c
	}
	if unlisted {
		if v.families >= maxUnlisted {
			return m.circuit(v, otherModel, false)
		}
		v.families++
	}
	c := newCircuit(name, m.Policy, m.transition)
	m.circuits[name] = c
	return c
}

// transition reports a change of phase, for all or for one organization that is
// held back: one line in the log, one call to the other replicas.
func (m *Monitor) transition(ctx context.Context, c Circuit, held *tenant, change Change) {
	attrs := []slog.Attr{
		slog.String("provider", c.Provider), slog.String("family", c.Family),
		slog.String("from", change.From.String()), slog.String("to", change.To.String()),
		slog.String("cause", change.Cause),
	}
	if held != nil {
		attrs = append(attrs, slog.String("organization", cmp.Or(held.name, strconv.FormatUint(held.id, 16))))
	}
	m.Log.LogAttrs(ctx, slog.LevelWarn, "circuit", attrs...)
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// now is time.Now at half its price: only the monotonic clock is read.
func (m *Monitor) now() time.Time { return m.base.Add(time.Since(m.base)) }

// Retry takes one repeat of an organization's call to the same vendor from the
// budget of its group, if that is not used up.
func (m *Monitor) Retry(t provider.Target, organization string) bool {
	m.mu.Lock()
	v := m.vendor(t.Provider)
	m.mu.Unlock()
	return v.budgets[callerOf(organization).id%groups].spend()
}

// Speed is how fast a target has been of late; zero when nothing is known.
func (m *Monitor) Speed(t provider.Target) Latency {
	found := (*m.targets.Load())[t]
	if found == nil {
		return Latency{}
	}
	now := m.now()
	return Latency{P50: found.answers.median(now), FirstToken: found.beginning.median(now)}
}

// Latency is what routing ranks by: the usual wait for the first token, or for
// the answer of a target that has streamed nothing; false until enough is known.
func (m *Monitor) Latency(t provider.Target) (time.Duration, bool) {
	speed := m.Speed(t)
	wait := cmp.Or(speed.FirstToken, speed.P50)
	return wait, wait > 0
}

// Available reports whether a call of an organization would be let go, whatever its
// credential.
func (m *Monitor) Available(t provider.Target, organization string) bool {
	found := (*m.targets.Load())[t]
	return found == nil || found.available(callerOf(organization), m.now())
}

// jitter is in [0, 1).
func jitter() float64 { return rand.Float64() } //nolint:gosec // It spreads load and guards nothing.
