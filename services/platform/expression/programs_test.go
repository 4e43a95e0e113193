package expression

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Programs of one organization don't take the place of another's, and an organization keeps the last of its own.
func TestOrganizationHasItsShareOfPrograms(t *testing.T) {
	p := newPrograms()
	text := func(i int) string { return fmt.Sprintf("%s%d", strings.Repeat("x", 1000), i) }
	add := func(organization string, n int) {
		for i := range n {
			p.add(organization, text(i), &Program{})
		}
	}
	add("acme", 10)
	add("hostile", 3000)
	for i := range 10 {
		if p.find("acme", text(i)) == nil {
			t.Fatal("another organization's programs took the place of one's")
		}
	}
	hostile, _ := p.organizations.Peek("hostile")
	if hostile.size > keptShare || p.find("hostile", text(2999)) == nil || p.find("hostile", text(0)) != nil {
		t.Errorf("one organization keeps %d bytes, want its last programs of at most %d", hostile.size, keptShare)
	}
	for _, organization := range []string{"b", "c", "d", "e", "f"} {
		add(organization, 1000)
	}
	total := 0
	for _, own := range p.organizations.Values() {
		total += own.size
	}
	if total != p.size || p.size > keptSize || p.find("hostile", text(2999)) != nil {
		t.Errorf("%d bytes are counted, %d kept, want at most %d without the idle organization's", p.size, total, keptSize)
	}
}

// Compiling is bounded for an organization, whatever others compile. It suffices for as many expressions as an
// organization's share holds at once, and for some in each second after that.
func TestOrganizationCompilesWithinItsRate(t *testing.T) {
	p, now := newPrograms(), time.Now()
	compiled := func(organization string, size int) (n int) {
		for p.permitCompile(organization, strings.Repeat("x", size), now) {
			n++
		}
		return n
	}
	if n := compiled("acme", 70); n < 1000 {
		t.Errorf("%d expressions of ordinary length are compiled at once, want 1,000", n)
	}
	if n := compiled("hostile", MaxSize); n < 50 || n > 200 {
		t.Errorf("%d expressions of the largest size are compiled at once", n)
	}
	now = now.Add(time.Second)
	if n := compiled("hostile", MaxSize); n < 5 || n > 20 {
		t.Errorf("%d expressions of the largest size are compiled in the next second", n)
	}
}

// Evaluations of an organization take at most half of the processors' time, whatever others evaluate.
func TestOrganizationEvaluatesWithinItsRate(t *testing.T) {
	p, now := newPrograms(), time.Now()
	spent := func(organization string, cost uint64) (seconds float64) {
		for p.permitEvaluation(organization, now) {
			p.recordEvaluation(organization, cost, now)
			seconds += float64(cost) / processorSecond
		}
		return seconds
	}
	half := float64(runtime.GOMAXPROCS(0)) / 2
	for _, cost := range []uint64{20, MaxCost, MaxCost + 100} {
		organization := fmt.Sprint("hostile with ", cost)
		if got := spent(organization, cost); got < 0.9*half || got > 1.1*half {
			t.Errorf("%s: evaluates for %.2f s at once, want %.1f s", organization, got, half)
		}
		later := now
		now = now.Add(time.Second)
		if got := spent(organization, cost); got < 0.9*half || got > 1.1*half {
			t.Errorf("%s: evaluates for %.2f s in the next second, want %.1f s", organization, got, half)
		}
		now = later
	}
	if !p.permitEvaluation("acme", now) {
		t.Error("another organization can't evaluate")
	}
}

// Concurrent evaluations that spend more than is left are made up for.
func TestOverspentEvaluationsAreMadeUpFor(t *testing.T) {
	p, now := newPrograms(), time.Now()
	for range evaluatePerSecond()/MaxCost + 100 {
		p.recordEvaluation("acme", MaxCost, now)
	}
	if p.permitEvaluation("acme", now.Add(time.Millisecond)) {
		t.Error("evaluates although it has overspent")
	}
	if !p.permitEvaluation("acme", now.Add(time.Minute)) {
		t.Error("can't evaluate a minute later")
	}
}

// A share holds the filters of an organization with as many endpoints as it may have.
func TestShareHoldsOrdinaryPrograms(t *testing.T) {
	p := newPrograms()
	for i := range 1000 {
		p.add("acme", fmt.Sprintf("event.payload.customer.country in ['DE', 'AT'] && event.payload.total > %4d", i), &Program{})
	}
	if own, _ := p.organizations.Peek("acme"); own.kept.Len() != 1000 {
		t.Errorf("%d of 1,000 programs are kept", own.kept.Len())
	}
}
