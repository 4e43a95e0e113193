package health

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// of returns a call of an organization.
func of(organization string) Call {
	c := call()
	c.Organization = organization
	return c
}

// fails makes n failing calls of an organization, as far as they are allowed.
func fails(t *testing.T, m *Monitor, organization string, n int) (refused *Refusal) {
	t.Helper()
	for range n {
		if r := do(t, m, of(organization), failure(500)); r != nil {
			refused = r
		}
	}
	return refused
}

// One organization's failures, however many, take the vendor from that one only.
func TestOneOrganizationOpensNoCircuitForOthers(t *testing.T) {
	m := New(Options{})
	for range 5 {
		do(t, m, of("good"), nil)
	}
	if r := fails(t, m, "hostile", 500); r == nil || r.Cause != CauseHeld || r.RetryAfter <= 0 {
		t.Errorf("refusal of the one whose calls fail: %+v", r)
	}
	if r := do(t, m, of("good"), nil); r != nil {
		t.Errorf("another organization: %s", r.Text())
	}
	if r := do(t, m, of("new"), nil); r != nil {
		t.Errorf("an organization without any call before: %s", r.Text())
	}
	if got := phase(m); got != Closed {
		t.Errorf("the circuit is %s, want closed", got)
	}
	if got := m.Snapshot()[0].Held; got != 1 {
		t.Errorf("%d organizations held back, want one", got)
	}
}

// The failures of an organization that called alone open nothing for those that call later.
func TestAQuietHourIsNoLever(t *testing.T) {
	m := New(Options{})
	fails(t, m, "hostile", 50)
	for i := range 20 {
		if r := do(t, m, of(fmt.Sprint("customer-", i)), nil); r != nil {
			t.Fatalf("customer %d: %s", i, r.Text())
		}
	}
	if got := phase(m); got != Closed {
		t.Errorf("the circuit is %s after others were served", got)
	}
}

// The only organization, as in a private installation, is protected as well, and operators see the circuit open.
func TestTheOnlyCallerIsProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := New(Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
		fails(t, m, "only", 4)
		if got := phase(m); got != Closed {
			t.Fatalf("%s after four failures", got)
		}
		fails(t, m, "only", 1)
		if got := phase(m); got != Open {
			t.Fatalf("the circuit is shown as %s, want open", got)
		}
		if r := do(t, m, of("only"), nil); r == nil || r.Cause != CauseOpen {
			t.Fatalf("the sixth call: %+v", r)
		}
		if m.Available(here, "only") || !m.Available(here, "another") {
			t.Error("the vendor is for the organization itself not available, for others it is")
		}
		time.Sleep(7 * time.Second)
		if r := do(t, m, of("only"), nil); r != nil || phase(m) != Closed {
			t.Errorf("the probe: %v, %s", r, phase(m))
		}
		if changes := m.Snapshot()[0].Changes; len(changes) != 3 {
			t.Errorf("%d changes are remembered, want three", len(changes))
		}
		if text := log.String(); !strings.Contains(text, `"organization":"only"`) {
			t.Errorf("the log does not name the organization: %s", text)
		}
	})
}

// A vendor's failures for several organizations open its circuit for every organization.
func TestSeveralOrganizationsOpenACircuit(t *testing.T) {
	for organizations := 2; organizations <= 8; organizations++ {
		m := New(Options{})
		for i := range 8 * organizations {
			fails(t, m, fmt.Sprint("org-", i%organizations), 1)
		}
		if got := phase(m); got != Open {
			t.Errorf("%d organizations fail: %s, want open", organizations, got)
		}
		if r := do(t, m, of("new"), nil); r == nil || r.Cause != CauseOpen {
			t.Errorf("%d organizations fail: a further one: %+v", organizations, r)
		}
	}
}

// One organization adds nothing to the failures of others: what the others see must suffice without it.
func TestSharedDecision(t *testing.T) {
	p := Policy{FailureShare: 0.5, Sample: 5}
	cases := []struct {
		name  string
		parts []Tally
		want  bool
	}{
		{"nothing", nil, false},
		{"one alone", []Tally{{100, 100}}, false},
		{"one, others well", []Tally{{100, 100}, {50, 1}}, false},
		{"one, another's single failure", []Tally{{100, 100}, {1, 1}}, false},
		{"one, another's few calls with one failure", []Tally{{100, 100}, {4, 1}}, false},
		{"two", []Tally{{3, 3}, {3, 3}}, true},
		{"two, not half of the second's", []Tally{{100, 100}, {100, 49}}, false},
		{"half of all, each", []Tally{{10, 5}, {10, 5}, {10, 5}}, true},
		{"many with a call each", []Tally{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, true},
		{"too few in all", []Tally{{2, 2}, {2, 2}}, false},
		{"a large one is well", []Tally{{1000, 0}, {5, 5}, {5, 5}}, false},
	}
	for _, c := range cases {
		var all Tally
		for _, part := range c.parts {
			all.Calls, all.Failures = all.Calls+part.Calls, all.Failures+part.Failures
		}
		if got := p.opens(all, c.parts); got != c.want {
			t.Errorf("%s: opens = %t, want %t", c.name, got, c.want)
		}
	}
}

// An organization whose probes fail keeps an open circuit open for itself only: others probe before it.
func TestHostileProbesKeepNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		for range 5 {
			fails(t, m, "hostile", 1)
			fails(t, m, "good", 1)
		}
		if phase(m) != Open {
			t.Fatal("the circuit is not open")
		}
		// The vendor is well again. The hostile organization calls ten times a second, the other one once in three
		// seconds.
		for tick := range 1200 {
			do(t, m, of("hostile"), failure(500))
			if tick%30 == 29 && do(t, m, of("good"), nil) == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := phase(m); got != Closed {
			t.Errorf("after two minutes the circuit is %s", got)
		}
	})
}

// When the prober leaves or has no outcome, another organization may probe.
func TestSilentProbesGiveTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		for range 5 {
			fails(t, m, "hostile", 1)
			fails(t, m, "good", 1)
		}
		time.Sleep(7 * time.Second)
		p, r := m.Acquire(t.Context(), of("hostile"))
		if r != nil {
			t.Fatal(r)
		}
		p.End(t.Context(), Verdict{})
		if _, r := m.Acquire(t.Context(), of("hostile")); r == nil || r.RetryAfter <= 0 {
			t.Errorf("the one whose probe said nothing has the next one too: %+v", r)
		}
		if r := do(t, m, of("good"), nil); r != nil || phase(m) != Closed {
			t.Errorf("another's probe: %v, %s", r, phase(m))
		}
	})
}

// An organization that is the only caller makes every probe.
func TestTheOnlyCallersProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		fails(t, m, "only", 5)
		var probes int
		begun := time.Now()
		for time.Since(begun) < 5*time.Minute {
			if do(t, m, of("only"), failure(500)) == nil {
				probes++
			}
			time.Sleep(100 * time.Millisecond)
		}
		if probes < 5 || probes > 10 {
			t.Errorf("%d probes in five minutes of an outage, want some five to ten", probes)
		}
	})
}

// When a circuit has opened for all and closed again, no organization is still held back.
func TestAnOutageLeavesNobodyHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		fails(t, m, "first", 5)
		for range 3 {
			fails(t, m, "second", 1)
			fails(t, m, "third", 1)
		}
		if phase(m) != Open {
			t.Fatal("the circuit is not open")
		}
		time.Sleep(7 * time.Second)
		if r := do(t, m, of("third"), nil); r != nil {
			t.Fatal(r)
		}
		if r := do(t, m, of("first"), nil); r != nil {
			t.Errorf("the first is still held back: %s", r.Text())
		}
	})
}

// A replica follows what others report of one organization for that organization only.
func TestReplicasHoldBackTheSameOrganization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 3)
		defer leave()
		time.Sleep(2 * time.Second)
		fails(t, m[0], "hostile", 5)
		fails(t, m[1], "hostile", 5)
		time.Sleep(2 * time.Second)
		if got := phase(m[2]); got != Closed {
			t.Fatalf("two replicas saw one organization fail, and the third is %s for all", got)
		}
		if r := do(t, m[2], of("good"), nil); r != nil {
			t.Errorf("another organization: %s", r.Text())
		}
		if r := do(t, m[2], of("hostile"), nil); r == nil {
			t.Error("the third lets the organization go that two of three hold back")
		}
		time.Sleep(20 * time.Second)
		for i, one := range m {
			time.Sleep(2 * time.Second)
			if r := do(t, one, of("hostile"), nil); r != nil {
				t.Errorf("replica %d does not probe: %s", i, r.Text())
			}
		}
	})
}

// The state kept for organizations is bounded, and no single organization can use it up.
func TestOrganizationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		for i := range 12_000 {
			var e *provider.Error
			if i%10 == 0 {
				e = failure(500)
			}
			do(t, m, of(fmt.Sprint("org-", i)), e)
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Second)
		c := m.find(here, false).circuit
		if n := len(*c.tenants.by.Load()); n > maxTenants {
			t.Errorf("%d organizations are remembered, want at most %d", n, maxTenants)
		}
		if phase(m) != Closed {
			t.Fatalf("a tenth fails, and the circuit is %s", phase(m))
		}
		if r := fails(t, m, "hostile", 6); r == nil || r.Cause != CauseHeld {
			t.Errorf("among so many, one whose calls fail is not held back: %+v", r)
		}
	})
}
