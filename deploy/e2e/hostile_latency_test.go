//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// latencies holds the durations of calls, by kind and by the phase in which they began. Quiet and hostile phases
// alternate, so that other load on the machine affects both.
type latencies struct {
	mu     sync.Mutex
	phase  int // even phases are quiet
	counts map[string]map[int][]time.Duration
	failed map[string]*failedCalls
}

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
func (l *latencies) nextPhase() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase++
}

// currentPhase returns the phase in which a call that starts now begins.
func (l *latencies) currentPhase() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

// untimed is the phase before the first; its durations are dropped.
const untimed = -1

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

// comparison compares how long one kind of call takes in quiet and in hostile phases: the median of the phases' 99th
// percentiles. Phases of fewer than minCalls calls are left out. If that leaves none, quiet and hostile are percentiles
// over all phases, or 0 if there are too few calls even then.
type comparison struct {
	kind           string
	quiet, hostile time.Duration
	calls, phases  int
}

// measured reports whether there were enough calls to compare.
func (v comparison) measured() bool { return v.quiet > 0 && v.hostile > 0 }

// ratio returns how many times as long calls took beside hostile traffic.
func (v comparison) ratio() float64 { return float64(v.hostile) / float64(v.quiet) }

func (v comparison) String() string {
	return fmt.Sprintf("p99 %s quiet, %s beside hostile traffic (%.2fx, %d calls in %d phases)",
		v.quiet.Round(time.Millisecond/10), v.hostile.Round(time.Millisecond/10), v.ratio(), v.calls, v.phases)
}

// comparisons returns the comparison of each kind of call, sorted by kind.
func (l *latencies) comparisons() (all []comparison) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, phases := range l.counts {
		v := comparison{kind: kind}
		var of, together [2][]time.Duration
		for phase, took := range phases {
			v.calls += len(took)
			together[phase%2] = append(together[phase%2], took...)
			if len(took) >= minCalls {
				v.phases++
				of[phase%2] = append(of[phase%2], quantile(took, percentile))
			}
		}
		v.quiet, v.hostile = quantile(of[0], 0.5), quantile(of[1], 0.5)
		if !v.measured() && min(len(together[0]), len(together[1])) >= minCalls {
			v.phases, v.quiet, v.hostile = len(phases), quantile(together[0], percentile), quantile(together[1], percentile)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b comparison) int { return strings.Compare(a.kind, b.kind) })
	return all
}

// quantile returns the value that a share of all values don't exceed, 0 for no values.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(math.Ceil(share*float64(len(sorted))))-1, len(sorted)-1)]
}

// check fails the test if a call was not answered, or if calls took longer beside hostile traffic than most times as
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
		case v.hostile > time.Duration(most*float64(v.quiet))+floor:
			t.Errorf("%s: %s: more than %.1fx and %s", v.kind, v, most, floor)
		}
	}
}

// The comparison must be able to fail: it finds a kind of call that takes twice as long in hostile phases.
func TestLatencyComparison(t *testing.T) {
	t.Parallel()
	l := newLatencies("never")
	for phase := range 6 {
		for n := range 100 {
			took := time.Duration(n+1) * time.Millisecond
			l.record("steady", phase, took)
			l.record("slowed", phase, took*time.Duration(1+phase%2))
		}
		for range minCalls / 2 {
			l.record("rare", phase, time.Second*time.Duration(1+phase%2))
		}
		l.nextPhase()
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
