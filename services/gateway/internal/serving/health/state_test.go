package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	testPolicy = Policy{
		FailureShare: 0.5, Sample: 4, Window: 30 * time.Second,
		Delay: 4 * time.Second, MaxDelay: 32 * time.Second, ProbeTime: 15 * time.Second, LeaseWait: time.Second,
	}
	t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// Every event in every phase, with the state that it leads to at t0 + 1 s.
func TestStep(t *testing.T) {
	now := t0.Add(time.Second)
	closed := State{Since: t0}
	ownOpen := State{Phase: Open, Since: t0, Until: t0.Add(4 * time.Second), Own: true, Cause: "x"}
	due := State{Phase: Open, Since: t0, Until: now, Own: true, Streak: 1, Cause: "x"}
	follows := State{Phase: Open, Since: t0, Until: t0.Add(10 * time.Second), Cause: "y"}
	lapsed := State{Phase: Open, Since: t0, Until: now, Cause: "y"}
	probing := State{Phase: HalfOpen, Since: t0, Until: t0.Add(15 * time.Second), Own: true, Streak: 1, Cause: "x"}
	silent := State{Phase: HalfOpen, Since: t0, Until: now, Own: true, Streak: 1, Cause: "x"}

	tripped := Event{Kind: Tripped, Cause: "calls fail", Jitter: 0.5}
	tripOpen := State{Phase: Open, Since: now, Until: now.Add(4 * time.Second), Own: true, Cause: "calls fail"}
	failure := Event{Kind: Failed, Cause: "again", Jitter: 0.5}
	quorum := Event{Kind: Viewed, Quorum: true, For: 7 * time.Second}
	nobody := Event{Kind: Viewed}
	recovered := Event{Kind: Viewed, Quorum: true, For: 7 * time.Second, Closed: t0.Add(time.Millisecond)}
	recoveredBefore := Event{Kind: Viewed, Closed: t0.Add(-time.Millisecond)}

	with := func(s State, change func(*State)) State { change(&s); return s }
	cases := []struct {
		name string
		from State
		e    Event
		want State
	}{
		{"closed: trips", closed, tripped, tripOpen},
		{"closed: a Retry-After is a floor", closed, Event{Kind: Tripped, Floor: time.Minute, Jitter: 0.5}, State{Phase: Open, Since: now, Until: now.Add(time.Minute), Own: true}},
		{"closed: a short Retry-After shortens nothing", closed, Event{Kind: Tripped, Floor: time.Second, Jitter: 0.5}, State{Phase: Open, Since: now, Until: now.Add(4 * time.Second), Own: true}},
		{"closed: jitter", closed, Event{Kind: Tripped, Jitter: 0}, State{Phase: Open, Since: now, Until: now.Add(3200 * time.Millisecond), Own: true}},
		{"closed: asked", closed, Event{Kind: Asked}, closed},
		{"closed: a late probe passes", closed, Event{Kind: Passed}, closed},
		{"closed: a late probe fails", closed, failure, closed},
		{"closed: a late probe is void", closed, Event{Kind: Voided}, closed},
		{"closed: a late denial", closed, Event{Kind: Denied}, closed},
		{"closed: most say open", closed, quorum, State{Phase: Open, Since: now, Until: now.Add(7 * time.Second), Cause: "most replicas report it open"}},
		{"closed: nobody says open", closed, nobody, closed},

		{"open: trips again", ownOpen, tripped, ownOpen},
		{"open: asked too soon", ownOpen, Event{Kind: Asked}, ownOpen},
		{"open: asked in time", due, Event{Kind: Asked}, with(due, func(s *State) { s.Phase, s.Since, s.Until = HalfOpen, now, now.Add(15*time.Second) })},
		{"open: a late probe passes", ownOpen, Event{Kind: Passed}, ownOpen},
		{"open: a late probe fails", ownOpen, failure, ownOpen},
		{"open: a late void", ownOpen, Event{Kind: Voided}, ownOpen},
		{"open: most say open", ownOpen, quorum, ownOpen},
		{"open: nobody says open", ownOpen, nobody, ownOpen},
		{"open: another recovered since", ownOpen, recovered, with(ownOpen, func(s *State) { s.Recovered, s.Until = true, now })},
		{"open: another recovered before", ownOpen, recoveredBefore, ownOpen},

		{"following: trips itself", follows, tripped, tripOpen},
		{"following: asked too soon", follows, Event{Kind: Asked}, follows},
		{"following: the reports ran out", lapsed, Event{Kind: Asked}, State{Since: now, Cause: "the other replicas' reports ran out"}},
		{"following: most still say open", follows, quorum, with(follows, func(s *State) { s.Until = now.Add(7 * time.Second) })},
		{"following: most no longer say open", follows, nobody, State{Since: now, Cause: "most replicas no longer report it open"}},

		{"half-open: trips", probing, tripped, probing},
		{"half-open: asked", probing, Event{Kind: Asked}, probing},
		{"half-open: the probe is given up", silent, Event{Kind: Asked}, with(silent, func(s *State) { s.Since, s.Until = now, now.Add(15*time.Second) })},
		{"half-open: passed", probing, Event{Kind: Passed}, State{Since: now, Own: true, Cause: "a probe passed"}},
		{"half-open: failed", probing, failure, State{Phase: Open, Since: now, Until: now.Add(16 * time.Second), Own: true, Streak: 2, Cause: "again"}},
		{"half-open: failed often", with(probing, func(s *State) { s.Streak = 9 }), failure, State{Phase: Open, Since: now, Until: now.Add(32 * time.Second), Own: true, Streak: 10, Cause: "again"}},
		{"half-open: void", probing, Event{Kind: Voided}, with(probing, func(s *State) { s.Phase, s.Since, s.Until = Open, now, now })},
		{"half-open: denied", probing, Event{Kind: Denied}, with(probing, func(s *State) { s.Phase, s.Since, s.Until = Open, now, now.Add(time.Second) })},
		{"half-open: most say open", probing, quorum, probing},
		{"half-open: nobody says open", probing, nobody, probing},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.from.Step(c.e, testPolicy, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Invariants that hold for every sequence of events.
func TestStepProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		now := t0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Second)).Draw(t, "pause")))
			e := Event{
				Kind:   EventKind(rapid.IntRange(int(Tripped), int(Viewed)).Draw(t, "kind")),
				Floor:  time.Duration(rapid.Int64Range(0, int64(MaxCooldown)).Draw(t, "floor")),
				Jitter: rapid.Float64Range(0, 0.999).Draw(t, "jitter"),
				Quorum: rapid.Bool().Draw(t, "quorum"),
				For:    time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "for")),
				Closed: now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "closed"))),
			}
			before := s
			s = s.Step(e, testPolicy, now)
			check(t, before, s, e, now)
		}
		// No state is a trap: a caller that waits and whose probe passes gets through.
		now = now.Add(MaxCooldown + 2*testPolicy.MaxDelay)
		if s = s.Step(Event{Kind: Asked}, testPolicy, now); s.Phase == HalfOpen {
			s = s.Step(Event{Kind: Passed}, testPolicy, now)
		}
		if s.Phase != Closed {
			t.Fatalf("a trap: %+v", s)
		}
	})
}

func check(t *rapid.T, before, after State, e Event, now time.Time) {
	t.Helper()
	opened := before.Phase == Closed && after.Phase != Closed
	switch {
	case opened && e.Kind != Tripped && (e.Kind != Viewed || !e.Quorum):
		t.Fatalf("opened by %+v", e)
	case before.Phase == Open && after.Phase == HalfOpen && now.Before(before.Until):
		t.Fatalf("probed before its time: %+v", before)
	case after.Phase == HalfOpen && !after.Own:
		t.Fatalf("a follower probes: %+v", after)
	case after != before && after.Own && after.Phase == Open && after.Until.Sub(after.Since) > max(testPolicy.MaxDelay*6/5, e.Floor, before.Until.Sub(before.Since)):
		t.Fatalf("open for %v", after.Until.Sub(after.Since))
	case after.Phase != before.Phase && after.Since.Before(now):
		t.Fatalf("a change that began before: %+v", after)
	}
	if report, ok := after.report(now, testPolicy); ok && report.Open && !after.Own {
		t.Fatalf("a follower reports: %+v", after)
	}
}

// Replicas exchange their reports in any order, with and without failures of their own: a vendor that fails nowhere is
// open nowhere, one bad replica opens it on no other, and a vendor that fails at a majority of them is open at all.
func TestFleetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "replicas")
		failing := rapid.IntRange(0, n).Draw(t, "failing")
		states := make([]State, n)
		now := t0
		for i := range failing {
			states[i] = states[i].Step(Event{Kind: Tripped, Jitter: 0.5}, testPolicy, now)
		}
		for range rapid.IntRange(n, 40).Draw(t, "exchanges") {
			i := rapid.IntRange(0, n-1).Draw(t, "who")
			states[i] = see(states, i, n, now)
		}
		for i := range states {
			states[i] = see(states, i, n, now)
		}
		for i, s := range states {
			own := i < failing
			follows := failing >= n/2+1
			if want := own || follows; (s.Phase != Closed) != want {
				t.Fatalf("%d of %d fail, replica %d is %s", failing, n, i, s.Phase)
			}
		}
	})
}

// see returns the event that the others' reports are for replica i.
func see(states []State, i, n int, now time.Time) State {
	var reports []Report
	for j, s := range states {
		if report, ok := s.report(now, testPolicy); ok && j != i {
			reports = append(reports, report)
		}
	}
	return states[i].Step(states[i].view(reports, n, now), testPolicy, now)
}

// A replica whose own probe passed is not reopened by what others observed before.
func TestRecoveryStands(t *testing.T) {
	now := t0.Add(10 * time.Second)
	mine := State{Since: t0.Add(8 * time.Second), Own: true}
	old := []Report{{Open: true, For: time.Minute, Age: 9 * time.Second}, {Open: true, For: time.Minute, Age: 5 * time.Second}}
	if e := mine.view(old, 3, now); e.Quorum {
		t.Error("reports from before the recovery count")
	}
	fresh := []Report{{Open: true, For: time.Minute, Age: time.Second}, {Open: true, For: time.Minute, Age: time.Second}}
	if e := mine.view(fresh, 3, now); !e.Quorum {
		t.Error("reports since the recovery don't count")
	}
}

func TestFamily(t *testing.T) {
	for _, c := range [][2]string{
		{"gpt-4o", "gpt-4o"},
		{"gpt-4o-2024-08-06", "gpt-4o"},
		{"gpt-4-0613", "gpt-4"},
		{"claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
		{"claude-3-5-haiku@20241022", "claude-3-5-haiku"},
		{"claude-3-opus-latest", "claude-3-opus"},
		{"gemini-1.5-pro-002", "gemini-1.5-pro"},
		{"gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"},
		{"Meta-Llama/Llama-3.1-405B:free", "meta-llama/llama-3.1-405b"},
		{"llama3.2:1b", "llama3.2"},
		{"-latest", "-latest"},
		{"", ""},
	} {
		if got := Family(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}
