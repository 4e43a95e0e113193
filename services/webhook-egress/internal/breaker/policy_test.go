package breaker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tight = Policy{Failures: 3, Share: 0.5, Sample: 6, Window: time.Minute, Pause: 10 * time.Second, MaxPause: 60 * time.Second}
)

// middle is a random number that neither shortens nor lengthens a pause.
const middle = 0.5

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestTransitions(t *testing.T) {
	failed, passed := Report{Event: Failed, Began: at(100)}, Report{Event: Passed, Began: at(100)}
	admitted := func(r Report) Report { r.Admitted = true; return r }
	counting := State{Row: 2, Bad: 2, Counted: at(90)}
	half := State{Phase: HalfOpen, Since: at(95), Opened: 1, Level: 1, InFlight: 1, GiveUp: at(120)}
	open := State{Phase: Open, Since: at(95), Opened: 1, Until: at(105)}
	changed := func(s State) State { s.Changed = at(100); return s }
	for name, tt := range map[string]struct {
		from State
		r    Report
		want State
	}{
		"success of a quiet one":            {State{}, passed, State{}},
		"first failure":                     {State{}, failed, changed(State{Row: 1, Bad: 1, Counted: at(100)})},
		"success between failures":          {counting, passed, changed(State{Good: 1, Bad: 2, Counted: at(90)})},
		"third failure in a row":            {counting, failed, changed(State{Phase: Open, Since: at(100), Opened: 1, Until: at(110)})},
		"half of enough":                    {State{Good: 3, Bad: 2, Counted: at(90)}, failed, changed(State{Phase: Open, Since: at(100), Opened: 1, Until: at(110)})},
		"half of too few":                   {State{Good: 2, Bad: 1, Counted: at(90)}, failed, changed(State{Row: 1, Good: 2, Bad: 2, Counted: at(90)})},
		"after the window":                  {State{Row: 1, Good: 9, Bad: 9, Counted: at(30)}, failed, changed(State{Row: 2, Bad: 1, Counted: at(100)})},
		"asked for more time":               {counting, Report{Event: Failed, Began: at(100), RetryAfter: 30 * time.Second}, changed(State{Phase: Open, Since: at(100), Opened: 1, Until: at(130)})},
		"asked for too much time":           {counting, Report{Event: Failed, Began: at(100), RetryAfter: time.Hour}, changed(State{Phase: Open, Since: at(100), Opened: 1, Until: at(160)})},
		"failure while open":                {open, failed, open},
		"success while open":                {open, passed, open},
		"failed try":                        {half, admitted(failed), changed(State{Phase: Open, Since: at(100), Opened: 2, Until: at(120)})},
		"try that got through":              {half, admitted(passed), changed(State{Phase: HalfOpen, Since: at(95), Opened: 1, Level: 2, GiveUp: at(120)})},
		"try that came to nothing":          {half, Report{Event: Void, Admitted: true}, changed(State{Phase: HalfOpen, Since: at(95), Opened: 1, Level: 1, GiveUp: at(120)})},
		"success that nobody let in":        {half, passed, half},
		"success from before":               {half, Report{Event: Passed, Began: at(94), Admitted: true}, half},
		"failure from before":               {half, Report{Event: Failed, Began: at(94)}, half},
		"last of the ramp":                  {State{Phase: HalfOpen, Since: at(95), Opened: 2, Level: 8, InFlight: 1, Passed: 7}, admitted(passed), changed(State{Since: at(100), Opened: 2})},
		"opens again soon after it closed":  {State{Since: at(95), Opened: 2, Row: 2, Bad: 2, Counted: at(96)}, failed, changed(State{Phase: Open, Since: at(100), Opened: 3, Until: at(140)})},
		"opens again long after it closed":  {State{Since: at(30), Opened: 2, Row: 2, Bad: 2, Counted: at(96)}, failed, changed(State{Phase: Open, Since: at(100), Opened: 1, Until: at(110)})},
		"pause is bounded":                  {State{Phase: HalfOpen, Since: at(95), Opened: 60, Level: 1, InFlight: 1}, admitted(failed), changed(State{Phase: Open, Since: at(100), Opened: 61, Until: at(160)})},
		"the clock was set back":            {State{Phase: HalfOpen, Since: at(4000), Level: 1, InFlight: 1}, admitted(failed), changed(State{Phase: Open, Since: at(100), Opened: 1, Until: at(110)})},
		"nothing comes of a delivery, once": {State{}, Report{Event: Void, Admitted: true}, State{}},
	} {
		if diff := cmp.Diff(tt.want, tight.After(tt.from, tt.r, at(100), middle)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAdmit(t *testing.T) {
	lease := 20 * time.Second
	open := State{Phase: Open, Since: at(90), Opened: 2, Until: at(110)}
	half := State{Phase: HalfOpen, Since: at(95), Opened: 2, Level: 4, InFlight: 3, Passed: 1, GiveUp: at(110)}
	for name, tt := range map[string]struct {
		from    State
		now     int
		allowed int
		wait    time.Duration
		want    State
	}{
		"closed":                            {State{Row: 1}, 100, 5, 0, State{Row: 1}},
		"open":                              {open, 100, 0, 10 * time.Second, open},
		"open long enough":                  {open, 110, 1, 0, State{Phase: HalfOpen, Since: at(110), Opened: 2, Level: 1, InFlight: 1, GiveUp: at(130), Changed: at(110)}},
		"room for one":                      {half, 100, 1, 0, State{Phase: HalfOpen, Since: at(95), Opened: 2, Level: 4, InFlight: 4, Passed: 1, GiveUp: at(120), Changed: at(100)}},
		"those before are lost":             {half, 110, 4, 0, State{Phase: HalfOpen, Since: at(95), Opened: 2, Level: 4, InFlight: 4, Passed: 1, GiveUp: at(130), Changed: at(110)}},
		"no room":                           {State{Phase: HalfOpen, Level: 1, InFlight: 1, GiveUp: at(101)}, 100, 0, time.Second, State{Phase: HalfOpen, Level: 1, InFlight: 1, GiveUp: at(101)}},
		"the clock was set back, open":      {State{Phase: Open, Since: at(4000), Opened: 1, Until: at(4010)}, 100, 1, 0, State{Phase: HalfOpen, Since: at(100), Opened: 1, Level: 1, InFlight: 1, GiveUp: at(120), Changed: at(100)}},
		"the clock was set back, half open": {State{Phase: HalfOpen, Since: at(4000), Level: 2, InFlight: 2, GiveUp: at(4010)}, 100, 2, 0, State{Phase: HalfOpen, Since: at(100), Level: 2, InFlight: 2, GiveUp: at(120), Changed: at(100)}},
		"no room for long":                  {State{Phase: HalfOpen, Level: 1, InFlight: 1, GiveUp: at(119)}, 100, 0, waiting, State{Phase: HalfOpen, Level: 1, InFlight: 1, GiveUp: at(119)}},
	} {
		got, allowed, wait := tight.Admit(tt.from, 5, lease, at(tt.now))
		if allowed != tt.allowed || wait != tt.wait {
			t.Errorf("%s: %d, %s", name, allowed, wait)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever comes in whatever order: an open target is left alone until its time,
// a half-open one never has more under way than its level, no pause is longer
// than the longest, and a target that has recovered is closed in the end.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s, running := start, State{}, 0
		lease := 20 * time.Second
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "ms")) * time.Millisecond)
			random := rapid.Float64Range(0, 0.999).Draw(t, "random")
			before := s
			if want := rapid.IntRange(0, 12).Draw(t, "want"); want > 0 {
				var allowed int
				var wait time.Duration
				s, allowed, wait = tight.Admit(s, want, lease, now)
				switch {
				case before.Phase == Open && now.Before(before.Until) && (allowed > 0 || wait <= 0):
					t.Fatalf("%d let through for an open target: %+v", allowed, before)
				case s.Phase == HalfOpen && s.InFlight > s.Level:
					t.Fatalf("too many: %+v", s)
				}
				running += allowed
			} else {
				admitted := running > 0 && rapid.Bool().Draw(t, "admitted")
				if admitted {
					running--
				}
				r := Report{
					Event: rapid.SampledFrom([]Event{Passed, Failed, Void}).Draw(t, "event"), Admitted: admitted,
					Began:      now.Add(-time.Duration(rapid.IntRange(0, 15).Draw(t, "ago")) * time.Second),
					RetryAfter: time.Duration(rapid.IntRange(0, 7200).Draw(t, "asks")) * time.Second,
				}
				s = tight.After(s, r, now, random)
			}
			if pause := s.Until.Sub(s.Since); s.Phase == Open && pause > tight.MaxPause*6/5 {
				t.Fatalf("open for %s: %+v", pause, s)
			}
			if s.InFlight < 0 {
				t.Fatalf("in flight below zero: %+v", s)
			}
			if s.Level > rampTop {
				t.Fatalf("level above %d: %+v", rampTop, s)
			}
		}
		for i := 0; !s.Quiet(tight, now); i++ {
			var allowed int
			var wait time.Duration
			s, allowed, wait = tight.Admit(s, 1, lease, now)
			now = now.Add(wait + 100*time.Millisecond)
			if allowed > 0 {
				s = tight.After(s, Report{Event: Passed, Began: now, Admitted: true}, now, middle)
			}
			if i > 1000 {
				t.Fatalf("never recovers: %+v", s)
			}
		}
	})
}
