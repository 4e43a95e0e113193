package quota

import (
	"sync"
	"time"

	"switchyard.dev/services/edge/internal/plan"
)

// holderID is what the meter counts under: the first key of a chain of rotations, empty for the whole organization.
type holderID struct{ organization, key string }

// holder is a replica's local state of a key or an organization: the windows of its plan's limits.
type holder struct {
	holderID

	mu      sync.Mutex
	windows [len(meters)][len(periods)]window
	// due reports that the holder waits for a settlement.
	due bool
	// settled is not nil while a call waits; the next settlement closes it.
	settled chan struct{}
	// called is when the last call came, settledAt when the windows were last settled.
	called, settledAt time.Time
	// refusedSince is when the first of the calls came of which all were refused by the holder's limits; zero for none.
	refusedSince time.Time
	gone         bool // removed from the holders
}

// window is the current window of a meter and period.
type window struct {
	start, end int64 // in Unix seconds; zero before the first call
	// used is what all replicas have counted, as far as this one knows; owed is the part that is not reported yet.
	used, owed int64
	// known reports that used began with what all replicas had counted.
	known bool
	// readAt is when what was spent was read last, comparedAt when used was last compared with the meter's count.
	readAt, comparedAt time.Time
	// stale reports that counts were not reported: the next report has to raise the fleet's count to the meter's.
	stale bool
}

// roll begins a new window if the current one has ended. The one that follows a known window is known to be empty, if the
// known one ended just now.
func (w *window) roll(p plan.Period, now time.Time) {
	if w.holds(now) {
		return
	}
	start, end := p.Window(now)
	*w = window{start: start.Unix(), end: end.Unix(), known: w.known && start.Unix() == w.end, comparedAt: now}
}

func (w *window) holds(at time.Time) bool { return at.Unix() >= w.start && at.Unix() < w.end }

// at returns the window of a limit.
func (h *holder) at(l *plan.Limit) *window {
	return &h.windows[meterIndex(l.Meter)][periodIndex(l.Period)]
}

func (w *window) state(l *plan.Limit, ofKey bool) State {
	return State{Limit: l, OfKey: ofKey, Used: InUnits(l.Meter, w.used), start: w.start, end: w.end}
}

// decide takes what a plan's limits say of one more call into the verdict. It reports whether they can say it: not before
// their windows are known, and while replicas share, not beyond a lease.
func (h *holder) decide(p *plan.Plan, use Use, ofKey, sharing bool, now time.Time, v *Verdict) (settled bool) {
	settled = true
	for i := range p.Limits {
		l := &p.Limits[i]
		w := h.at(l)
		w.roll(l.Period, now)
		if !use.has(meterIndex(l.Meter)) {
			continue
		}
		if !w.known || sharing && w.owed >= lease(l.Amount) || meters[meterIndex(l.Meter)].spent && now.Sub(w.readAt) > staleAfter {
			settled = false
		}
		if s := w.state(l, ofKey); l.Kind == plan.Hard && s.Used >= l.Amount {
			v.refuse(s)
		}
	}
	return settled
}

// count counts a call in the windows of a plan's limits, each once, and takes their states into the verdict. It reports
// whether half of a lease is used up.
func (h *holder) count(p *plan.Plan, use Use, ofKey bool, v *Verdict) (urgent bool) {
	var counted [len(meters)][len(periods)]bool
	for i := range p.Limits {
		l := &p.Limits[i]
		if !use.has(meterIndex(l.Meter)) {
			continue
		}
		w, done := h.at(l), &counted[meterIndex(l.Meter)][periodIndex(l.Period)]
		if !*done && !meters[meterIndex(l.Meter)].spent {
			*done = true
			w.used++
			w.owed++
		}
		urgent = urgent || w.owed >= (lease(l.Amount)+1)/2
		v.add(w.state(l, ofKey))
	}
	return urgent
}

// giveBack takes back n calls that were counted at a moment, where the window of that is still the current one.
func (h *holder) giveBack(use Use, n int64, at time.Time) (changed bool) {
	for m := range h.windows {
		for p := range h.windows[m] {
			w := &h.windows[m][p]
			if use.has(m) && !meters[m].spent && w.holds(at) && w.used >= n {
				w.used -= n
				w.owed -= n
				changed = true
			}
		}
	}
	return changed
}

// wait returns the channel that the next settlement closes.
func (h *holder) wait() <-chan struct{} {
	if h.settled == nil {
		h.settled = make(chan struct{})
	}
	return h.settled
}

// wake ends the waiting.
func (h *holder) wake() {
	if h.settled != nil {
		close(h.settled)
		h.settled = nil
	}
}

// idle reports whether a new holder would be the same, but for what it would have to ask the fleet.
func (h *holder) idle(now time.Time) bool {
	if h.due || h.settled != nil || now.Sub(h.called) < idleTime {
		return false
	}
	for m := range h.windows {
		for p := range h.windows[m] {
			if h.windows[m][p].owed != 0 {
				return false
			}
		}
	}
	return true
}
