// Package health decides whether a call may go to a vendor now, and measures how fast each vendor has been lately. It
// owns the circuit breakers (one for each vendor and model family), the bulkheads (one for each vendor), the cooldowns
// of credentials, the retry budgets and the latencies. Package inference acquires a permit before each attempt and
// reports the outcome; package routing ranks by the latencies; internal/redis carries what replicas report to each
// other.
//
// Acquiring a permit and recording its outcome need no round trip and no lock that a slow call holds. The exception is
// the one call that probes an open circuit: it asks Redis for the lease.
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

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/fairshare"
)

// Bounds, for each provider, on what is kept for model names that no policy lists, since callers can make them up.
// Names that a policy lists have no bound here.
const (
	maxUnlisted = 64
	// otherModel is the entry that all model names without an entry of their own share.
	otherModel = "other"
)

// Options configure a Monitor. The zero Options make a Monitor with the default policy that exchanges with no peers.
type Options struct {
	Policy Policy
	// Concurrency is how many calls to one vendor may be in flight; DefaultConcurrency when 0. A quarter as many more
	// may wait for QueueTime.
	Concurrency int
	QueueTime   time.Duration
	// Share is the percentage of the calls in flight at a provider that one organization may have;
	// fairshare.DefaultPercent when 0.
	Share int
	// Peers exchanges reports with the other replicas; nil for none.
	Peers Peers
	Log   *slog.Logger
}

// Defaults of the bulkhead.
const (
	DefaultConcurrency = 1024
	defaultQueueTime   = 250 * time.Millisecond
)

// Monitor holds the health of all vendors. It is safe for concurrent use.
type Monitor struct {
	Options

	// base is when the monitor was made. Times inside the package are durations since base; see now.
	base time.Time

	// targets is read without a lock and replaced as a whole under mu.
	targets atomic.Pointer[map[provider.Target]*target]

	mu       sync.Mutex
	vendors  map[string]*vendor
	circuits map[Circuit]*circuit

	// changed wakes Run after a transition that the other replicas should learn of.
	changed chan struct{}

	refusals refusals
}

// Circuit identifies a breaker by its vendor and the vendor's model family.
type Circuit struct{ Provider, Family string }

// vendor is the state that all targets of a provider share.
type vendor struct {
	name        string
	bulkhead    *bulkhead
	budgets     [groups]budget // by the caller's group
	credentials credentials
	pool        pooledCredentials
	// unlisted counts the models with an entry that no policy lists, families the circuits made for such models.
	unlisted, families int
	other              *target
}

// target is the state of one model of a vendor.
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

// find returns the entry of a target and makes it if needed. Targets that no policy lists share one entry for their
// provider until a call was served; see served.
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
		return m.addTarget(v, t, m.circuit(v, Family(t.Model), false))
	}
	if v.other == nil {
		v.other = m.addTarget(v, provider.Target{Provider: t.Provider, Model: otherModel}, m.circuit(v, otherModel, false))
	}
	return v.other
}

// served makes an entry for a model that no policy lists once the vendor has served it, up to maxUnlisted. Names that
// no vendor serves take no entry.
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
	m.addTarget(v, t, m.circuit(v, Family(t.Model), true))
}

// Known reports whether a target has an entry of its own: every target that a policy lists and that was called, and a
// bounded number of others.
func (m *Monitor) Known(t provider.Target) bool { return (*m.targets.Load())[t] != nil }

// addTarget makes and stores the entry of a target. The caller holds the lock.
func (m *Monitor) addTarget(v *vendor, t provider.Target, c *circuit) *target {
	next := maps.Clone(*m.targets.Load())
	made := &target{vendor: v, circuit: c, traffic: newTraffic()}
	next[t] = made
	m.targets.Store(&next)
	return made
}

// vendor returns the entry of a vendor and makes it if needed. The caller holds the lock.
func (m *Monitor) vendor(name string) *vendor {
	v := m.vendors[name]
	if v == nil {
		v = &vendor{name: name, bulkhead: newBulkhead(m.Concurrency, m.Share, m.QueueTime)}
		m.vendors[name] = v
	}
	return v
}

// circuit returns the circuit of a family and makes it if needed. The number of families that no policy lists is
// bounded; beyond it they share one circuit. The caller holds the lock.
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

// transition logs a change of phase, of a circuit or of one organization's breaker in it, and wakes the exchange with
// the other replicas.
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

// now returns the present time at half the cost of time.Now: it reads the monotonic clock only.
func (m *Monitor) now() time.Time { return m.base.Add(time.Since(m.base)) }

// Retry takes one retry of an organization's call to the same vendor from the budget of the organization's group. It
// reports whether the budget allowed it.
func (m *Monitor) Retry(t provider.Target, organization string) bool {
	m.mu.Lock()
	v := m.vendor(t.Provider)
	m.mu.Unlock()
	return v.budgets[callerOf(organization).id%groups].spend()
}

// Speed returns the recent latency of a target; the zero Latency when too little is known.
func (m *Monitor) Speed(t provider.Target) Latency {
	found := (*m.targets.Load())[t]
	if found == nil {
		return Latency{}
	}
	now := m.now()
	return Latency{P50: found.answers.median(now), FirstToken: found.beginning.median(now)}
}

// Latency returns the time that routing ranks a target by: the usual wait for the first token, or for the whole answer
// of a target that has streamed nothing. It returns false until there are enough measurements.
func (m *Monitor) Latency(t provider.Target) (time.Duration, bool) {
	speed := m.Speed(t)
	wait := cmp.Or(speed.FirstToken, speed.P50)
	return wait, wait > 0
}

// Slow returns the time that only a share of the recent calls of a target exceed: until the first content of streams, or
// until whole answers. It returns 0 until there are enough measurements.
func (m *Monitor) Slow(t provider.Target, streams bool, share float64) time.Duration {
	found := (*m.targets.Load())[t]
	switch {
	case found == nil:
		return 0
	case streams:
		return found.beginning.slow(m.now(), share)
	}
	return found.answers.slow(m.now(), share)
}

// Available reports whether circuit and bulkhead would let a call of an organization through, whatever its credential.
func (m *Monitor) Available(t provider.Target, organization string) bool {
	found := (*m.targets.Load())[t]
	return found == nil || found.available(callerOf(organization), m.now())
}

// jitter returns a random number in [0, 1).
func jitter() float64 { return rand.Float64() } //nolint:gosec // It spreads load and protects nothing.
