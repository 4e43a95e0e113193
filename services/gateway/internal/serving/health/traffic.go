package health

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Times of what is counted of a target's calls.
const (
	// TrafficWindow is how far back calls are counted, RecentWindow the end of it
	// that says how a vendor is now.
	TrafficWindow = 5 * time.Minute
	RecentWindow  = time.Minute

	trafficSlots = 30
)

// traffic counts a target's calls with the fleet's credentials, by what came of
// them. Safe for concurrent use, without a lock.
type traffic struct {
	window
	lastGood, lastBad atomic.Int64 // Unix nanoseconds
	class             atomic.Pointer[apierr.Class]
}

func newTraffic() traffic { return traffic{window: newWindow(TrafficWindow, trafficSlots)} }

// count takes a verdict. Void says nothing; an answer that was the caller's fault
// is a call that the vendor served.
func (t *traffic) count(v Verdict, at time.Duration, now time.Time) {
	if v.Outcome == Void {
		return
	}
	t.add(at, v.Outcome == Bad)
	if v.Outcome == Bad {
		t.lastBad.Store(now.UnixNano())
		class := v.Class // Only a failure allocates.
		t.class.Store(&class)
		return
	}
	t.lastGood.Store(now.UnixNano())
}

// Figures are how a target has done lately, with the fleet's credentials.
type Figures struct {
	provider.Target
	// Circuit is the family's.
	Circuit Circuit
	// Calls and Failures of TrafficWindow, and of RecentWindow. A failure is the
	// vendor's fault.
	Calls, Failures, RecentCalls, RecentFailures int
	// LastGood and LastBad are the last calls, zero for none; LastClass is the last
	// failure's.
	LastGood, LastBad time.Time
	LastClass         apierr.Class
	// P50 and P99 are times of whole answers, FirstToken the median of streams; 0 is
	// too little known.
	P50, P99, FirstToken time.Duration
}

// Figures of all targets that were ever called, by provider and model.
func (m *Monitor) Figures() []Figures {
	now := m.now()
	at := now.Sub(m.base)
	targets := *m.targets.Load()
	all := make([]Figures, 0, len(targets))
	for name, t := range targets {
		f := Figures{
			Target: name, Circuit: t.circuit.name,
			P50: t.answers.median(now), P99: t.answers.quantile(now, 0.99), FirstToken: t.beginning.median(now),
			LastGood: moment(t.traffic.lastGood.Load()), LastBad: moment(t.traffic.lastBad.Load()),
		}
		f.Calls, f.Failures = t.traffic.sum(at, TrafficWindow)
		f.RecentCalls, f.RecentFailures = t.traffic.sum(at, RecentWindow)
		if class := t.traffic.class.Load(); class != nil {
			f.LastClass = *class
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Figures) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return all
}

func moment(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

// Bulkhead is the calls under way at a vendor.
type Bulkhead struct {
	InFlight, Limit, Waiting int
	// Rejected were turned away since the start.
	Rejected uint32
}

// Bulkhead of a vendor.
func (m *Monitor) Bulkhead(provider string) Bulkhead {
	m.mu.Lock()
	v := m.vendors[provider]
	m.mu.Unlock()
	if v == nil {
		return Bulkhead{Limit: m.Concurrency}
	}
	b := v.bulkhead
	return Bulkhead{InFlight: int(b.inFlight.Load()), Limit: b.limit, Waiting: int(b.waiting.Load()), Rejected: b.rejected.Load()}
}
