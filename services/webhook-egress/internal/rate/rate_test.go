package rate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/platform/kv/kvtest"
	"switchyard.dev/services/platform/testkit"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTake(t *testing.T) {
	for name, tt := range map[string]struct {
		due   time.Duration // from now
		rate  float64
		want  int
		taken int
		wait  time.Duration
	}{
		"one a second, idle":        {-time.Hour, 1, 5, 1, time.Second},
		"one a second, just taken":  {600 * time.Millisecond, 1, 5, 0, 600 * time.Millisecond},
		"a hundred a second, idle":  {-time.Hour, 100, 500, 10, 10 * time.Millisecond},
		"a hundred, no more wanted": {0, 100, 3, 3, 0},
		"one in ten seconds":        {0, 0.1, 2, 1, 10 * time.Second},
		"the clock was set back":    {time.Hour, 1, 2, 1, time.Second},
	} {
		_, taken, wait := take(start.Add(tt.due), start, tt.rate, tt.want)
		if taken != tt.taken || wait != tt.wait {
			t.Errorf("%s: %d, wait %s; want %d, %s", name, taken, wait, tt.taken, tt.wait)
		}
	}
}

// Over any period no more requests begin than the rate and one burst allow, and a
// caller that waits for as long as it is told gets one.
func TestRateIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.05, 2000).Draw(t, "rate")
		now, due, total := start, time.Time{}, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			var taken int
			var wait time.Duration
			want := rapid.IntRange(1, 40).Draw(t, "want")
			due, taken, wait = take(due, now, perSecond, want)
			total += taken
			if most := perSecond*(now.Sub(start)+burstTime).Seconds() + 2; float64(total) > most {
				t.Fatalf("%d in %s at %g a second", total, now.Sub(start), perSecond)
			}
			if taken < want {
				if wait <= 0 {
					t.Fatalf("no time to wait: %s", wait)
				}
				now = now.Add(wait)
				if due, taken, _ = take(due, now, perSecond, 1); taken != 1 {
					t.Fatal("nothing after the wait")
				}
				total++
			}
		}
	})
}

func TestReplicasShareARate(t *testing.T) {
	store := new(kvtest.Memory)
	now := start
	var limiters []*Limiter
	for range 3 {
		limiters = append(limiters, New(store, testkit.Logger(t), func() time.Time { return now }))
	}
	total := 0
	for range 1000 { // ten seconds
		for _, l := range limiters {
			total += l.Take(t.Context(), []Ask{{Flow: 7, PerSecond: 20, Want: 3}})[0].Allowed
		}
		now = now.Add(10 * time.Millisecond)
	}
	if total < 199 || total > 203 {
		t.Errorf("%d in ten seconds over three replicas, want 200", total)
	}
	store.SetAway(true)
	total = 0
	for range 1000 {
		total += limiters[0].Take(t.Context(), []Ask{{Flow: 7, PerSecond: 20, Want: 3}})[0].Allowed
		now = now.Add(10 * time.Millisecond)
	}
	if total < 199 || total > 203 {
		t.Errorf("%d in ten seconds without Redis, want 200", total)
	}
}

func TestFlowsAreLimitedApart(t *testing.T) {
	l := New(nil, testkit.Logger(t), func() time.Time { return start })
	permits := l.Take(t.Context(), []Ask{{Flow: 1, PerSecond: 1, Want: 2}, {Flow: 2, PerSecond: 1, Want: 2}})
	if permits[0].Allowed != 1 || permits[1].Allowed != 1 || permits[0].Wait != time.Second {
		t.Errorf("permits %+v", permits)
	}
}
