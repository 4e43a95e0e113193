//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

// latencies holds the durations of calls, by kind and by the phase in which they began. Quiet phases alternate with phases
// of hostile load, so that other load on the machine affects both.
type latencies struct {
	mu     sync.Mutex
	phases []loadKind // the load in each phase so far
	counts map[string]map[int][]time.Duration
	failed map[string]*failedCalls
}

// loadKind names what others do during a phase.
type loadKind string

const (
	unmeasured   loadKind = "" // while others begin and end
	noLoad       loadKind = "quiet"
	hostileCalls loadKind = "hostile calls"
	heldPlaces   loadKind = "held places"
)

// failedCalls counts calls of one kind in one phase that should have been answered.
type failedCalls struct {
	first string
	calls int
}

// The kinds of call whose latencies are compared.
const (
	completionKind, imageKind, streamKind    = "completions", "completions with fetched images", "streams"
	deliveryKind, notificationKind, postKind = "deliveries", "notifications", "accepted posts"
	inboxKind, noticeKind                    = "inbox streams, opened", "notice streams, opened"
)

// newLatencies returns latencies without calls. The comparisons include all the given kinds, so that a kind without calls
// fails a test.
func newLatencies(kinds ...string) *latencies {
	l := &latencies{counts: map[string]map[int][]time.Duration{}, failed: map[string]*failedCalls{}}
	for _, kind := range kinds {
		l.counts[kind] = map[int][]time.Duration{}
	}
	return l
}

// nextPhase begins the next phase.
func (l *latencies) nextPhase(others loadKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phases = append(l.phases, others)
}

// untimed is the phase before the first; its durations are dropped.
const untimed = -1

// currentPhase returns the phase in which a call that starts now begins.
func (l *latencies) currentPhase() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.phases) - 1
}

func (l *latencies) record(kind string, phase int, took time.Duration) {
	if phase == untimed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[kind] == nil {
		l.counts[kind] = map[int][]time.Duration{}
	}
	l.counts[kind][phase] = append(l.counts[kind][phase], took)
}

// recordFailure records a call that should have been answered.
func (l *latencies) recordFailure(kind string, phase int, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	where := fmt.Sprintf("%s in phase %d", kind, phase)
	if l.failed[where] == nil {
		l.failed[where] = &failedCalls{first: why}
	}
	l.failed[where].calls++
}

const (
	// minCalls is the number of calls that a phase needs for a percentile.
	minCalls   = 20
	percentile = 0.99
)

// comparison compares how long one kind of call takes in quiet phases and beside others' load: the median of the phases'
// 99th percentiles. Phases of fewer than minCalls calls are left out. If that leaves none, both are percentiles over all
// phases, or 0 if there are too few calls even then.
type comparison struct {
	kind          string
	others        loadKind
	quiet, beside time.Duration
	calls, phases int // phases in which there were calls
}

// measured reports whether there were enough calls to compare.
func (v comparison) measured() bool { return v.quiet > 0 && v.beside > 0 }

// ratio returns how many times as long calls took beside the others' load.
func (v comparison) ratio() float64 { return float64(v.beside) / float64(v.quiet) }

func (v comparison) String() string {
	return fmt.Sprintf("p99 %s quiet, %s beside %s (%.2fx, %d calls in %d phases)",
		v.quiet.Round(time.Millisecond/10), v.beside.Round(time.Millisecond/10), v.others, v.ratio(), v.calls, v.phases)
}

// comparisons returns the comparison of each kind of call with each load, sorted by both.
func (l *latencies) comparisons() (all []comparison) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(l.counts)) {
		for _, others := range []loadKind{heldPlaces, hostileCalls} {
			if slices.Contains(l.phases, others) {
				all = append(all, l.compare(kind, others))
			}
		}
	}
	return all
}

// compare compares one kind of call with one load. The caller holds the lock.
func (l *latencies) compare(kind string, others loadKind) comparison {
	v := comparison{kind: kind, others: others}
	of, together := map[loadKind][]time.Duration{}, map[loadKind][]time.Duration{}
	for phase, took := range l.counts[kind] {
		during := l.phases[phase]
		if during != noLoad && during != others {
			continue
		}
		v.calls, v.phases = v.calls+len(took), v.phases+1
		together[during] = append(together[during], took...)
		if len(took) >= minCalls {
			of[during] = append(of[during], quantile(took, percentile))
		}
	}
	v.quiet, v.beside = quantile(of[noLoad], 0.5), quantile(of[others], 0.5)
	if !v.measured() && min(len(together[noLoad]), len(together[others])) >= minCalls {
		v.quiet, v.beside = quantile(together[noLoad], percentile), quantile(together[others], percentile)
	}
	return v
}

// quantile returns the value that a share of all values don't exceed, 0 for no values.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(math.Ceil(share*float64(len(sorted))))-1, len(sorted)-1)]
}

// check fails the test if a call was not answered, or if calls took longer beside hostile load than most times as
// long as without it, and floor more.
func (l *latencies) check(t *testing.T, most float64, floor time.Duration) {
	t.Helper()
	for _, where := range slices.Sorted(maps.Keys(l.failed)) {
		t.Errorf("%s: %d calls were not answered as they should be, the first: %s", where, l.failed[where].calls, l.failed[where].first)
	}
	for _, v := range l.comparisons() {
		t.Logf("%s: %s", v.kind, v)
		switch {
		case !v.measured():
			t.Errorf("%s: there were too few calls to compare", v.kind)
		case v.beside > time.Duration(most*float64(v.quiet))+floor:
			t.Errorf("%s: %s: more than %.1fx and %s", v.kind, v, most, floor)
		}
	}
}

// The comparison must be able to fail: it finds a kind of call that takes twice as long in hostile phases. It leaves out
// phases that aren't measured.
func TestLatencyComparison(t *testing.T) {
	t.Parallel()
	l := newLatencies("never")
	for phase := range 9 {
		load := []loadKind{noLoad, hostileCalls, unmeasured}[phase%3]
		slowed := map[loadKind]time.Duration{noLoad: 1, hostileCalls: 2, unmeasured: 100}[load]
		l.nextPhase(load)
		for n := range 100 {
			took := time.Duration(n+1) * time.Millisecond
			l.record("steady", phase, took)
			l.record("slowed", phase, took*slowed)
		}
		for range minCalls / 2 {
			l.record("rare", phase, time.Second*slowed)
		}
	}
	l.record("single", 0, time.Second)
	l.record("single", 1, time.Second)
	for kind, want := range map[string]struct {
		ratio float64
		calls int
	}{"steady": {1, 600}, "slowed": {2, 600}, "rare": {2, 3 * minCalls}} {
		i := slices.IndexFunc(l.comparisons(), func(v comparison) bool { return v.kind == kind })
		if got := l.comparisons()[i]; got.ratio() != want.ratio || got.phases != 6 || got.calls != want.calls {
			t.Errorf("%s: %s, want %.1fx of %d calls", kind, got, want.ratio, want.calls)
		}
	}
	for _, kind := range []string{"never", "single"} {
		if i := slices.IndexFunc(l.comparisons(), func(v comparison) bool { return v.kind == kind }); l.comparisons()[i].measured() {
			t.Errorf("%s: too few calls are enough for a percentile", kind)
		}
	}
}
