package health

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Times of the call counts of a target.
const (
	// TrafficWindow is how far back calls are counted; RecentWindow is the end of it that shows how a vendor is now.
	TrafficWindow = 5 * time.Minute
	RecentWindow  = time.Minute

	trafficSlots = 30
)

// traffic counts a target's calls with the fleet's credentials, by outcome. It is safe for concurrent use and takes no
// lock.
type traffic struct {
	window
	lastGood, lastBad atomic.Int64 // Unix nanoseconds
	class             atomic.Pointer[apierr.Class]
}

func newTraffic() traffic { return traffic{window: newWindow(TrafficWindow, trafficSlots)} }

// count counts a call by its verdict. It ignores Void; an answer that is the caller's fault counts as a call that the
// vendor served.
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

// Figures are the recent call counts and latencies of a target, with the fleet's credentials.
type Figures struct {
	provider.Target
	// Circuit is that of the model's family.
	Circuit Circuit
	// Calls and Failures are counted in TrafficWindow, RecentCalls and RecentFailures in RecentWindow. A failure is the
	// vendor's fault.
	Calls, Failures, RecentCalls, RecentFailures int
	// LastGood and LastBad are the times of the last served and the last failed call, zero for none; LastClass is the
	// class of the last failure.
	LastGood, LastBad time.Time
	LastClass         apierr.Class
	// P50 and P99 are quantiles of the time of a whole answer, FirstToken is the median time to the first token of a
	// stream; 0 if too little is known.
	P50, P99, FirstToken time.Duration
}

// Figures returns the figures of all targets that were ever called, by provider and model.
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

// Bulkhead is the state of a vendor's bulkhead.
type Bulkhead struct {
	InFlight, Limit, Waiting int
	// Rejected is how many calls were turned away since the start.
	Rejected uint32
}

// Bulkhead returns the state of a vendor's bulkhead.
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
