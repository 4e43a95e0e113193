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

// pace is how long calls of one kind took, by the phase in which they began. Quiet
// and hostile phases take turns, so that what else the machine does falls on both.
type pace struct {
	mu     sync.Mutex
	phase  int // even ones are quiet
	counts map[string]map[int][]time.Duration
	failed map[string]*failures
}

// failures are calls of one kind in one phase that should have been answered.
type failures struct {
	first string
	calls int
}

func newPace() *pace {
	return &pace{counts: map[string]map[int][]time.Duration{}, failed: map[string]*failures{}}
}

// turn begins the next phase.
func (p *pace) turn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase++
}

// now is the phase that a call begins in.
func (p *pace) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase
}

// untimed is the phase before the first, of which nothing is kept.
const untimed = -1

func (p *pace) note(kind string, phase int, took time.Duration) {
	if phase == untimed {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[kind] == nil {
		p.counts[kind] = map[int][]time.Duration{}
	}
	p.counts[kind][phase] = append(p.counts[kind][phase], took)
}

// fail notes a call that should have been answered.
func (p *pace) fail(kind string, phase int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := fmt.Sprintf("%s in phase %d", kind, phase)
	if p.failed[place] == nil {
		p.failed[place] = &failures{first: why}
	}
	p.failed[place].calls++
}

const (
	// leastCalls is how many calls a phase needs for a percentile.
	leastCalls = 20
	percentile = 0.99
)

// verdict is what became of a kind's pace: the medians, over the phases, of the 99th
// percentile.
type verdict struct {
	kind           string
	quiet, hostile time.Duration
	calls, phases  int
}

// ratio is how much longer calls took beside hostile traffic.
func (v verdict) ratio() float64 { return float64(v.hostile) / float64(v.quiet) }

func (v verdict) String() string {
	return fmt.Sprintf("%s: p99 %s quiet, %s beside hostile traffic (%.2fx, %d calls in %d phases)",
		v.kind, v.quiet.Round(time.Millisecond/10), v.hostile.Round(time.Millisecond/10), v.ratio(), v.calls, v.phases)
}

// verdicts are those of all kinds.
func (p *pace) verdicts() (all []verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for kind, phases := range p.counts {
		v := verdict{kind: kind}
		var of [2][]time.Duration
		for phase, took := range phases {
			v.calls += len(took)
			if len(took) < leastCalls {
				continue
			}
			v.phases++
			of[phase%2] = append(of[phase%2], quantile(took, percentile))
		}
		v.quiet, v.hostile = quantile(of[0], 0.5), quantile(of[1], 0.5)
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b verdict) int { return strings.Compare(a.kind, b.kind) })
	return all
}

// quantile is the value below which a share of them lie, 0 of none.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(math.Ceil(share*float64(len(sorted))))-1, len(sorted)-1)]
}

// check wants every call to have been answered, and none to have waited for hostile
// traffic: at most most times as long as beside none, and floor beyond it.
func (p *pace) check(t *testing.T, most float64, floor time.Duration) {
	t.Helper()
	for _, place := range slices.Sorted(maps.Keys(p.failed)) {
		t.Errorf("%s: %d calls were not answered as they should be, the first: %s", place, p.failed[place].calls, p.failed[place].first)
	}
	for _, v := range p.verdicts() {
		t.Log(v)
		switch {
		case v.quiet == 0 || v.hostile == 0:
			t.Errorf("%s: there were too few calls to tell", v.kind)
		case v.hostile > time.Duration(most*float64(v.quiet))+floor:
			t.Errorf("%s: more than %.1fx and %s", v, most, floor)
		}
	}
}

// The judgement itself must be able to fail.
func TestPaceTells(t *testing.T) {
	p := newPace()
	for phase := range 6 {
		for n := range 100 {
			took := time.Duration(n+1) * time.Millisecond
			p.note("steady", phase, took)
			p.note("slowed", phase, took*time.Duration(1+phase%2))
		}
		p.turn()
	}
	p.note("rare", 0, time.Second)
	for kind, want := range map[string]float64{"steady": 1, "slowed": 2} {
		i := slices.IndexFunc(p.verdicts(), func(v verdict) bool { return v.kind == kind })
		if got := p.verdicts()[i]; got.ratio() != want || got.phases != 6 || got.calls != 600 {
			t.Errorf("%s, want %.1fx", got, want)
		}
	}
	if i := slices.IndexFunc(p.verdicts(), func(v verdict) bool { return v.kind == "rare" }); p.verdicts()[i].quiet != 0 {
		t.Error("one call is enough for a percentile")
	}
}
