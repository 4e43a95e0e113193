package steering

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

var at = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func pin(name, reason string) Setting {
	return Setting{Target: provider.Target{Provider: name}, Since: at, By: "ops", Reason: reason}
}

func TestApply(t *testing.T) {
	set := pin("one", "why")
	set.Revision = 3
	for _, c := range []struct {
		name     string
		before   Setting
		change   Change
		changed  bool
		conflict bool
	}{
		{"the first", Setting{}, Change{To: pin("one", "")}, true, false},
		{"the first, by who saw none", Setting{}, Change{To: pin("one", ""), Expected: new(0)}, true, false},
		{"another", set, Change{To: pin("two", "")}, true, false},
		{"the same for another reason", set, Change{To: pin("one", "other")}, true, false},
		{"the same", set, Change{To: pin("one", "why")}, false, false},
		{"clear", set, Change{To: Setting{Since: at, By: "ops", Reason: "done"}, Expected: new(3)}, true, false},
		{"clear nothing", Setting{Revision: 4}, Change{To: Setting{Reason: "done"}}, false, false},
		{"by who saw an older one", set, Change{To: pin("two", ""), Expected: new(2)}, false, true},
		{"clear by who saw an older one", set, Change{Expected: new(2)}, false, true},
		{"the same by who saw an older one", set, Change{To: pin("one", "why"), Expected: new(2)}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, changed, err := c.before.Apply(c.change)
			if c.conflict != (err != nil) {
				t.Fatalf("error %v, want a conflict %t", err, c.conflict)
			}
			if e := apierr.From(err); e != nil {
				if e.Reason != ReasonVersionConflict || !strings.Contains(e.Text, "present version is 3") {
					t.Fatalf("error %v, want %s with the version", e, ReasonVersionConflict)
				}
			}
			if changed != c.changed || !changed && after != c.before {
				t.Errorf("%+v, %t", after, changed)
			}
			if !changed {
				return
			}
			if after.Revision != c.before.Revision+1 || after.Target != c.change.To.Target {
				t.Errorf("revision %d to %s, want %d to %s", after.Revision, after.Target, c.before.Revision+1, c.change.To.Target)
			}
			if !after.IsSet() && after != (Setting{Revision: after.Revision}) {
				t.Errorf("%+v, want only a revision of what is cleared", after)
			}
		})
	}
}

// Of two callers that change what they saw, only one succeeds; revisions only grow.
func TestUnseenRevisionIsNotOverwritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Setting
		seen := map[string]int{"a": 0, "b": 0}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			who := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "who")
			to := rapid.SampledFrom([]Setting{{}, pin("one", ""), pin("two", ""), pin("one", "x")}).Draw(t, "to")
			if rapid.Bool().Draw(t, "looks") {
				seen[who] = s.Revision
			}
			after, changed, err := s.Apply(Change{To: to, Expected: new(seen[who])})
			if (err != nil) != (seen[who] != s.Revision) {
				t.Fatalf("%s saw %d of %d: %v", who, seen[who], s.Revision, err)
			}
			if after.Revision < s.Revision || changed != (after.Revision == s.Revision+1) {
				t.Fatalf("%+v after %+v", after, s)
			}
			s = after
		}
	})
}

func TestOverride(t *testing.T) {
	if o := (State{}).Override(); o.Pin != nil || o.Canary != nil {
		t.Errorf("%+v", o)
	}
	canary := Setting{Target: provider.Target{Provider: "p", Model: "m"}, Percentage: 12.5, Sticky: ByRun, Revision: 7}
	o := State{Pin: pin("one", ""), Canary: canary}.Override()
	if o.Pin.Provider != "one" || *o.Canary != (Canary{Target: canary.Target, Percentage: 12.5, ByRun: true, Revision: 7}) {
		t.Errorf("%+v %+v", o.Pin, o.Canary)
	}
}

// store is a Store in memory; the one in Postgres has its own tests.
type store struct {
	Store

	mu    sync.Mutex
	state State
	arms  map[int]Arms
	away  bool
}

func (s *store) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *store) State(context.Context) (State, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return State{}, 0, errors.New("away")
	}
	return s.state, 1, nil
}

func (s *store) AddArms(_ context.Context, revision int, add Arms) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("away")
	}
	s.arms[revision] = s.arms[revision].plus(add)
	return nil
}

func (s *store) Arms(_ context.Context, revision int) (Arms, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arms[revision], nil
}

// Counts are stored within a second, and kept while the store is unavailable.
func TestOverridesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{arms: make(map[int]Arms)}
		w := NewOverrides(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		note := func() {
			w.Record(CanarySample{Revision: 1, Canary: true, Took: 10 * time.Millisecond})
			w.Record(CanarySample{Revision: 1, Canary: true, Failed: true, Took: time.Second})
			w.Record(CanarySample{Revision: 1, FailedOver: true, Took: 30 * time.Millisecond})
		}
		want := func(n int64) {
			t.Helper()
			arms, err := w.Arms(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			checkArm(t, "canary", arms.Canary, Arm{Requests: 2 * n, Failed: n}, 0.5, 10*time.Millisecond)
			checkArm(t, "stable", arms.Stable, Arm{Requests: n, FailedOver: n}, 1, 30*time.Millisecond)
		}
		note()
		want(1) // at once, on this replica
		time.Sleep(flushEvery + time.Millisecond)
		if stored, _ := s.Arms(t.Context(), 1); stored.Canary.Requests != 2 {
			t.Error("not stored within a second")
		}
		want(1)
		s.set(true)
		note()
		time.Sleep(5 * flushEvery)
		want(2)
		s.set(false)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s.arms[1].Canary.Requests != 4 {
			t.Error("the rest was not stored at the end")
		}
	})
}

func TestOverridesBoundTheCounts(t *testing.T) {
	s := &store{arms: make(map[int]Arms), away: true}
	w := NewOverrides(s, slog.New(slog.DiscardHandler))
	for revision := range 100 {
		w.Record(CanarySample{Revision: revision})
		_ = w.flush(t.Context())
	}
	if len(w.counted) > maxCounted {
		t.Errorf("%d canaries are kept", len(w.counted))
	}
}

func TestOverridesKeepTheLastKnown(t *testing.T) {
	s := &store{state: State{Pin: pin("one", "")}}
	w := NewOverrides(s, slog.New(slog.DiscardHandler))
	if _, err := w.Load(t.Context(), 0); err != nil || w.Override().Pin == nil {
		t.Fatal(err)
	}
	s.away = true
	if _, err := w.Load(t.Context(), 0); err == nil || w.Override().Pin == nil {
		t.Errorf("%v, %+v", err, w.Override())
	}
}

func TestArmsWithoutRequests(t *testing.T) {
	if a := (Arm{}); a.ErrorRate() != 0 || a.MeanLatency() != 0 {
		t.Errorf("%v %v", a.ErrorRate(), a.MeanLatency())
	}
}

// checkArm checks the counts of an arm, and the rate of errors and the latency that they make.
func checkArm(t *testing.T, name string, got, want Arm, rate float64, latency time.Duration) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Arm{}, "Latency")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if got.ErrorRate() != rate || got.MeanLatency() != latency {
		t.Errorf("%s: error rate %v, mean latency %v; want %v and %v", name, got.ErrorRate(), got.MeanLatency(), rate, latency)
	}
}
