package breaker_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/breaker"
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

const lease = 20 * time.Second

var policy = breaker.Policy{Failures: 3, Pause: 10 * time.Second, MaxPause: 30 * time.Second}

func TestSteps(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var s breaker.State
	failed := func(times int) {
		for range times {
			s = policy.After(s, breaker.Event{Failed: true}, now, 0.5)
		}
	}
	admitted := func(want time.Duration) {
		t.Helper()
		var wait time.Duration
		if s, wait = policy.Admit(s, 0, now, lease); wait != want {
			t.Fatalf("wait %v, want %v: %+v", wait, want, s)
		}
	}
	failed(2)
	s = policy.After(s, breaker.Event{}, now, 0.5)
	failed(2)
	admitted(0) // not three in a row
	failed(1)
	admitted(10 * time.Second)
	failed(5) // begun before it opened: nothing new
	admitted(10 * time.Second)
	now = now.Add(10 * time.Second)
	admitted(0)           // the probe
	admitted(time.Second) // no other beside it
	failed(1)
	admitted(20 * time.Second) // twice as long
	now = now.Add(20 * time.Second)
	admitted(0)
	failed(1)
	admitted(30 * time.Second) // at most
	now = now.Add(30 * time.Second)
	admitted(0)
	now = now.Add(lease)
	admitted(0) // the probe never told: another
	s = policy.After(s, breaker.Event{}, now, 0.5)
	admitted(0)
	failed(2)
	admitted(0)
	now = now.Add(-99 * time.Hour)
	failed(1)
	now = now.Add(-99 * time.Hour)
	admitted(0) // a clock set back holds nothing up
}

// A pause lasts at least as long as the receiver asked, up to the longest pause.
func TestRetryAfterExtendsThePause(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for asked, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, time.Second: 10 * time.Second, 15 * time.Second: 15 * time.Second, time.Hour: policy.MaxPause,
	} {
		now, failure, s := start, breaker.Event{Failed: true, RetryAfter: asked}, breaker.State{}
		for range policy.Failures {
			s = policy.After(s, failure, now, 0.5)
		}
		if got := s.Until.Sub(now); got != want {
			t.Errorf("asked to wait %v: paused for %v, want %v", asked, got, want)
		}
		now = s.Until
		s, _ = policy.Admit(s, 0, now, lease)
		s = policy.After(s, failure, now, 0.5)
		if got, want := s.Until.Sub(now), max(want, 20*time.Second); got != want {
			t.Errorf("asked to wait %v by the probe: paused for %v, want %v", asked, got, want)
		}
	}
}

// probes returns the lanes that probe a host in a number of openings, each of which fails. The lanes ask in the order of
// their numbers, each again after its wait.
func probes(lanes, openings int) (probed []uint64) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var s breaker.State
	for range 3 {
		s = policy.After(s, breaker.Event{Lane: 1, Failed: true}, now, 0.5)
	}
	for range openings {
		now = s.Until
		for wait := time.Duration(-1); wait != 0; {
			least := time.Hour
			for lane := range uint64(lanes) {
				if s, wait = policy.Admit(s, lane+1, now, lease); wait == 0 {
					probed = append(probed, lane+1)
					s = policy.After(s, breaker.Event{Lane: lane + 1, Failed: true}, now, 0.5)
					break
				}
				least = min(least, wait)
			}
			if wait > 0 {
				now = now.Add(least)
			}
		}
	}
	return probed
}

// Lanes take turns to probe a host: a lane whose probe failed lets the waiting lanes go first.
func TestLanesTakeTurns(t *testing.T) {
	const lanes = 3
	for i, probed := 0, probes(lanes, 30); i+lanes <= len(probed); i++ {
		if turns := slices.Compact(slices.Sorted(slices.Values(probed[i : i+lanes]))); len(turns) != lanes {
			t.Errorf("probes %d to %d are of lanes %v only", i, i+lanes-1, turns)
		}
	}
}

// More lanes than the state remembers take turns, too, whichever of them ask first.
func TestManyLanesTakeTurns(t *testing.T) {
	const lanes, openings = 40, 400
	turns := make(map[uint64]int)
	for _, lane := range probes(lanes, openings) {
		turns[lane]++
	}
	for lane := range uint64(lanes) {
		if n := turns[lane+1]; n < 3 || n > 20 {
			t.Errorf("lane %d had %d of %d turns", lane+1, n, openings)
		}
	}
}

// A host's circuit opens only if no other lane was answered within the last minute.
func TestAnsweredLaneKeepsTheHostClosed(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := policy.After(breaker.State{}, breaker.Event{Lane: 1, Failed: true}, now, 0.5)
	s = policy.After(s, breaker.Event{Lane: 2}, now, 0.5)
	fail := func(lane uint64, want bool) {
		t.Helper()
		if s = policy.After(s, breaker.Event{Lane: lane, Failed: true}, now, 0.5); s.Open() != want {
			t.Fatalf("open %v, want %v: %+v", s.Open(), want, s)
		}
	}
	for range 9 {
		fail(1, false)
	}
	before := s
	fail(2, true)
	s = before
	now = now.Add(time.Minute)
	fail(1, false)
	now = now.Add(time.Millisecond)
	fail(1, true)
}

func TestReplicasShareIt(t *testing.T) {
	client := testkit.Redis(t)
	now := time.Now()
	replica := func() *breaker.Breaker {
		states := shared.New(shared.Options{
			Store: redisdb.NewKV(client, "breaker"), Merge: breaker.Merge, Life: breaker.Life,
			Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		})
		return breaker.New(states, policy, func() time.Time { return now }, func() float64 { return 0.5 })
	}
	a, b := replica(), replica()
	for i := range 3 {
		from := []*breaker.Breaker{a, b}[i%2]
		if opened := from.Report(t.Context(), "https://x", "", true, false, 0); (opened != "") != (i == 2) {
			t.Errorf("failure %d opened %q", i+1, opened)
		}
	}
	now = now.Add(time.Second)
	if wait := b.Admit(t.Context(), "https://x", "", lease); wait != 9*time.Second {
		t.Errorf("the other replica waits %v", wait)
	}
	if wait := b.Admit(t.Context(), "https://y", "", lease); wait != 0 {
		t.Errorf("another destination waits %v", wait)
	}
}
