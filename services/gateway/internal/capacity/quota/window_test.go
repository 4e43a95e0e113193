package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestWindow(t *testing.T) {
	var w Window
	slot := noon.Unix()
	w.Add(slot, Amount{100, 1})
	w.Add(slot+10, Amount{200, 1})
	w.Add(slot+10, Amount{-50, 0})
	for after, want := range map[int64]Amount{0: {250, 2}, 10: {250, 2}, 60: {250, 2}, 61: {150, 1}, 70: {150, 1}, 71: {}, 1000: {}} {
		at := w
		if got := at.used(slot + 10 + max(0, after-10)); got != want {
			t.Errorf("after %d seconds: %+v, want %+v", after, got, want)
		}
	}
	w.advance(slot + 65)
	if w.Add(slot, Amount{1, 1}) {
		t.Error("a slot that has aged out was changed")
	}
	if got := w.At(slot); got != (Amount{}) {
		t.Errorf("a slot that has aged out holds %+v", got)
	}
	if !w.Add(slot+5, Amount{7, 0}) || w.used(slot+65) != (Amount{157, 1}) {
		t.Errorf("the oldest slot was not changed: %+v", w.used(slot+65))
	}
}

func TestCheck(t *testing.T) {
	filled := func(entries ...int64) *Window {
		var w Window
		for i := 0; i < len(entries); i += 2 {
			w.Add(noon.Unix()+entries[i], Amount{entries[i+1], 1})
		}
		w.advance(noon.Unix())
		return &w
	}
	limit := Limit{Tokens: 1000}
	now := noon.Add(250 * time.Millisecond)
	for name, c := range map[string]struct {
		window  *Window
		outside Outside
		limit   Limit
		need    Amount
		wait    time.Duration
		cause   Cause
	}{
		"free":             {filled(), Outside{}, limit, Amount{1000, 1}, 0, CauseNone},
		"never":            {filled(), Outside{}, limit, Amount{1001, 1}, never, CauseLimit},
		"fits":             {filled(-60, 400, -1, 500), Outside{}, limit, Amount{100, 1}, 0, CauseNone},
		"the oldest":       {filled(-60, 400, -1, 500), Outside{}, limit, Amount{101, 1}, 750 * time.Millisecond, CauseLimit},
		"a later one":      {filled(-60, 400, -1, 500), Outside{}, limit, Amount{501, 1}, 59*time.Second + 750*time.Millisecond, CauseLimit},
		"requests":         {filled(-60, 400, -1, 500), Outside{}, Limit{Requests: 2}, Amount{0, 1}, 750 * time.Millisecond, CauseLimit},
		"debt":             {filled(-30, 5000), Outside{}, limit, Amount{1, 1}, 30*time.Second + 750*time.Millisecond, CauseLimit},
		"blocked":          {filled(), Outside{Blocked: now.Add(7 * time.Second)}, limit, Amount{1, 1}, 7 * time.Second, CauseVendor},
		"no longer":        {filled(), Outside{Blocked: now}, limit, Amount{1, 1}, 0, CauseNone},
		"cut":              {filled(), Outside{Factor: 0.9, Cut: now}, limit, Amount{901, 1}, never, CauseLimit},
		"recovering":       {filled(), Outside{Factor: 0.9, Cut: now.Add(-50 * time.Second)}, limit, Amount{950, 1}, 0, CauseNone},
		"recovered":        {filled(), Outside{Factor: 0.9, Cut: now.Add(-time.Hour)}, limit, Amount{1000, 1}, 0, CauseNone},
		"used by others":   {filled(), Outside{Unseen: 500, From: now, Until: now.Add(50 * time.Second)}, limit, Amount{600, 1}, 9*time.Second + 750*time.Millisecond, CauseLimit},
		"forgotten":        {filled(), Outside{Unseen: 500, From: now.Add(-time.Minute), Until: now}, limit, Amount{1000, 1}, 0, CauseNone},
		"no limit":         {filled(-1, 5000), Outside{}, Limit{}, Amount{5000, 1}, 0, CauseNone},
		"requests are cut": {filled(-1, 0, -1, 0), Outside{Factor: 0.5, Cut: now}, Limit{Requests: 4}, Amount{0, 1}, 59*time.Second + 750*time.Millisecond, CauseLimit},
	} {
		wait, cause := check(c.window, c.outside, c.limit, c.need, false, now)
		if wait != c.wait || cause != c.cause {
			t.Errorf("%s: %v %q, want %v %q", name, wait, cause, c.wait, c.cause)
		}
	}
}

// Whatever is granted and settled when, no minute holds more than the limit, and a refused call fits after its wait.
func TestNoMinuteHoldsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{Tokens: rapid.Int64Range(1, 5000).Draw(t, "limit")}
		paced := rapid.Bool().Draw(t, "paced")
		var w Window
		now := noon
		type open struct{ index, reserved int64 }
		var log []call
		var flights []open
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 4_000).Draw(t, "pause")) * time.Millisecond)
			if len(flights) > 0 && rapid.Bool().Draw(t, "settle") {
				f := flights[0]
				flights = flights[1:]
				actual := rapid.Int64Range(0, f.reserved).Draw(t, "actual")
				w.advance(now.Unix())
				w.Add(log[f.index].at.Unix(), Amount{Tokens: actual - f.reserved})
				log[f.index].tokens = actual
				continue
			}
			need := Amount{rapid.Int64Range(0, limit.Tokens).Draw(t, "tokens"), 1}
			wait, cause := check(&w, Outside{}, limit, need, paced, now)
			if wait == 0 {
				w.Add(now.Unix(), need)
				flights = append(flights, open{int64(len(log)), need.Tokens})
				log = append(log, call{now, need.Tokens})
				continue
			}
			later := w
			if again, _ := check(&later, Outside{}, limit, need, false, now.Add(wait)); again != 0 && cause == CauseLimit {
				t.Fatalf("refused for %v, and then for %v", wait, again)
			}
		}
		if most := worst(log); most > limit.Tokens {
			t.Fatalf("a minute holds %d of %d", most, limit.Tokens)
		}
	})
}

// Replicas that are on their own stay within the limit together, however uneven its use was before.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{Tokens: rapid.Int64Range(1, 1000).Draw(t, "limit")}
		members := rapid.IntRange(1, 7).Draw(t, "members")
		var shared Window
		var log []call
		now := noon
		for range rapid.IntRange(0, 40).Draw(t, "before") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 3000).Draw(t, "pause")) * time.Millisecond)
			need := Amount{Tokens: rapid.Int64Range(0, limit.Tokens).Draw(t, "tokens")}
			if wait, _ := check(&shared, Outside{}, limit, need, false, now); wait == 0 {
				shared.Add(now.Unix(), need)
				log = append(log, call{now, need.Tokens})
			}
		}
		alone := make([]Window, members)
		for range rapid.IntRange(1, 200).Draw(t, "after") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2000).Draw(t, "pause")) * time.Millisecond)
			who := rapid.IntRange(0, members-1).Draw(t, "replica")
			need := Amount{Tokens: rapid.Int64Range(0, limit.Tokens).Draw(t, "tokens")}
			if wait, _ := (part{members, who}).check(&shared, &alone[who], Outside{}, limit, need, rapid.Bool().Draw(t, "paced"), now); wait == 0 {
				alone[who].Add(now.Unix(), need)
				log = append(log, call{now, need.Tokens})
			}
		}
		if most := worst(log); most > limit.Tokens {
			t.Fatalf("a minute holds %d of %d", most, limit.Tokens)
		}
	})
}

func TestParts(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 7, 100, -5} {
		for members := range 6 {
			var sum int64
			for rank := range max(1, members) {
				sum += part{members, rank}.of(n)
			}
			if sum != max(0, n) {
				t.Errorf("%d parts of %d add up to %d", members, n, sum)
			}
		}
	}
}

// A window that is full of a burst is granted from steadily afterwards: nothing stalls for the rest of the minute.
func TestPaceSpreadsABurst(t *testing.T) {
	limit := Limit{Tokens: 60_000}
	var w Window
	w.Add(noon.Unix(), Amount{30_000, 0})
	gap, last := time.Duration(0), noon
	sum := int64(30_000)
	for now := noon; now.Before(noon.Add(5 * time.Minute)); now = now.Add(10 * time.Millisecond) {
		need := Amount{100, 1}
		if wait, _ := check(&w, Outside{}, limit, need, true, now); wait > 0 {
			continue
		}
		w.Add(now.Unix(), need)
		gap, last = max(gap, now.Sub(last)), now
		sum += need.Tokens
	}
	if gap > 3*time.Second {
		t.Errorf("nothing was granted for %v", gap)
	}
	if used := float64(sum) / 60_000 / 5; used < 0.95 {
		t.Errorf("%.3f of the limit was granted", used)
	}
}

// A replica on its own grants waiting callers its part steadily, too, from a minute after the outage began.
func TestPartsArePaced(t *testing.T) {
	limit := Limit{Tokens: 6000}
	var shared, alone Window
	for i := range int64(60) {
		shared.Add(noon.Unix()-i, Amount{Tokens: 100})
	}
	p, now, stalled, worst := part{members: 3, rank: 1}, noon, time.Duration(0), time.Duration(0)
	granted := int64(0)
	for now.Before(noon.Add(5 * time.Minute)) {
		wait, _ := p.check(&shared, &alone, Outside{}, limit, Amount{Tokens: 20}, true, now)
		if wait == 0 {
			alone.Add(now.Unix(), Amount{Tokens: 20})
			granted += 20
			stalled = 0
			continue
		}
		wait = min(wait, time.Second)
		now = now.Add(wait)
		stalled += wait
		worst = max(worst, stalled)
	}
	if want := int64(5 * 6000 / 3); granted < want*9/10 || granted > want {
		t.Errorf("%d were granted in five minutes, of %d", granted, want)
	}
	if worst > 5*time.Second {
		t.Errorf("nothing was granted for %s", worst)
	}
}
