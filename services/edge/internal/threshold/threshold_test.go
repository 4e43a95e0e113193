package threshold

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/houseeventtest"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	noon = time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	acme = Holder{Organization: "acme", Plan: "p"}
	key  = Holder{Organization: "acme", Key: "key_1", Plan: "p"}
)

func reach(t *testing.T, h Holder, l plan.Limit, at time.Time, used int64) []Event {
	t.Helper()
	events, err := Reached(h, l, quota.WindowAt(h.Organization, h.Key, l.Meter, l.Period, at), used)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Every percentage has an event, also if they are reached at once: a rule may be for one of them.
func TestReached(t *testing.T) {
	l := plan.Limit{Meter: plan.Calls, Period: plan.Month, Amount: 10, Kind: plan.Hard}
	for used, want := range map[int64][]int64{
		0: nil, 7: nil, 8: {80}, 9: {80}, 10: {80, 100}, 1 << 62: {80, 100},
	} {
		var got []int64
		for _, e := range reach(t, acme, l, noon, used) {
			houseeventtest.Check(t, houseevent.QuotaReached, e.Data)
			var data reachedData
			if err := json.Unmarshal(e.Data, &data); err != nil {
				t.Fatal(err)
			}
			got = append(got, data.Percent)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d used (-want +got):\n%s", used, diff)
		}
	}
	got := reach(t, key, l, noon, 8)
	want := []Event{{
		Organization: "acme", Type: houseevent.QuotaReached, Subject: "key/key_1",
		Keep: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC).Add(remembered),
		Data: []byte(`{"organization_id":"acme","key_id":"key_1","plan":"p","limit":"calls","window":"month","limit_value":10,"used":8,"percent":80,"kind":"hard","period_start":"2026-03-01T00:00:00Z"}`),
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Event{}, "ID")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// What is told again under the same id, and what is another event.
func TestIDs(t *testing.T) {
	l := plan.Limit{Meter: plan.Calls, Period: plan.Month, Amount: 10, Kind: plan.Hard}
	id := func(h Holder, l plan.Limit, at time.Time, used int64) string {
		t.Helper()
		events := reach(t, h, l, at, used)
		if len(events) == 0 {
			t.Fatal("nothing is reached")
		}
		return events[len(events)-1].ID
	}
	with := func(change func(*plan.Limit)) plan.Limit {
		other := l
		change(&other)
		return other
	}
	first := id(acme, l, noon, 10)
	if again := id(acme, l, noon.Add(24*time.Hour), 12); again != first {
		t.Errorf("the same limit in the same month has the ids %s and %s", first, again)
	}
	for name, other := range map[string]string{
		"80 %":         id(acme, l, noon, 8),
		"a key":        id(key, l, noon, 10),
		"organization": id(Holder{Organization: "other", Plan: "p"}, l, noon, 10),
		"next month":   id(acme, l, noon.AddDate(0, 1, 0), 10),
		"meter":        id(acme, with(func(l *plan.Limit) { l.Meter = plan.Tokens }), noon, 10),
		"period":       id(acme, with(func(l *plan.Limit) { l.Period = plan.Day }), noon, 10),
		"kind":         id(acme, with(func(l *plan.Limit) { l.Kind = plan.Soft }), noon, 10),
		"amount":       id(acme, with(func(l *plan.Limit) { l.Amount = 9 }), noon, 10),
	} {
		if other == first {
			t.Errorf("%s: has the id of another event", name)
		}
	}
	minute := with(func(l *plan.Limit) { l.Period = plan.Minute })
	if events := reach(t, acme, minute, noon, 9); len(events) > 0 {
		t.Errorf("90 %% of a limit of a minute: %+v, want no event", events)
	}
	if events := reach(t, acme, minute, noon, 10); len(events) != 1 {
		t.Errorf("a limit of a minute that is used up: %+v, want one event", events)
	}
	if a, b := id(acme, minute, noon, 10), id(acme, minute, noon.Add(59*time.Minute), 10); a != b {
		t.Error("a limit of a minute is told twice in an hour")
	}
	if a, b := id(acme, minute, noon, 10), id(acme, minute, noon.Add(time.Hour), 10); a == b {
		t.Error("a limit of a minute is not told in the next hour")
	}
}

func TestUsedUp(t *testing.T) {
	one, err := UsedUp(Exhausted{"acme", "p", "crd_1", 7}, true, noon)
	if err != nil {
		t.Fatal(err)
	}
	houseeventtest.Check(t, houseevent.CreditsExhausted, one.Data)
	again, _ := UsedUp(Exhausted{"acme", "", "crd_1", 9}, false, noon.Add(time.Hour))
	next, _ := UsedUp(Exhausted{"acme", "p", "crd_2", 7}, true, noon)
	if one.ID != again.ID || one.ID == next.ID || one.Subject != "organization/acme" {
		t.Errorf("%+v, again %s, after another grant %s", one, again.ID, next.ID)
	}
}

func TestWindowsSince(t *testing.T) {
	for name, tt := range map[string]struct {
		period plan.Period
		since  time.Time
		want   []time.Time
	}{
		"one month":      {plan.Month, noon.Add(-slack), []time.Time{time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}},
		"two months":     {plan.Month, noon.AddDate(0, -1, 0), []time.Time{time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}},
		"from its first": {plan.Day, time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC), []time.Time{time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)}},
		"minutes, at most 5": {plan.Minute, noon.Add(-time.Hour), []time.Time{
			noon.Truncate(time.Minute), noon.Truncate(time.Minute).Add(-time.Minute), noon.Truncate(time.Minute).Add(-2 * time.Minute),
			noon.Truncate(time.Minute).Add(-3 * time.Minute), noon.Truncate(time.Minute).Add(-4 * time.Minute),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []time.Time
			for _, w := range windowsSince(acme, plan.Limit{Meter: plan.Calls, Period: tt.period}, tt.since, noon) {
				got = append(got, w.Start)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fakeStore has one active holder and what it used.
type fakeStore struct {
	mu       sync.Mutex // held in a round
	used     int64
	shared   int64 // what replicas hold calls to; negative for unknown
	compared time.Time
	fails    bool
	reads    int
	events   map[string]bool
}

var errAway = errors.New("connection refused")

func (f *fakeStore) Alone(ctx context.Context, do func(context.Context, time.Time) (time.Time, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, err := do(ctx, f.compared)
	if err == nil {
		f.compared = until
	}
	return err
}

func (f *fakeStore) Active(_ context.Context, _ time.Time, _ string, after Holder, _ int) ([]Holder, error) {
	if after == (Holder{}) {
		return []Holder{acme}, nil
	}
	return nil, nil
}

func (f *fakeStore) Used(_ context.Context, windows []quota.Window) ([]int64, error) {
	f.reads++
	amounts := make([]int64, len(windows))
	for i, w := range windows {
		if w.End.After(time.Now()) {
			amounts[i] = f.used
		}
	}
	return amounts, nil
}

func (f *fakeStore) Add(_ context.Context, reports []quota.Report) ([]int64, error) {
	if f.fails {
		return nil, errAway
	}
	counts := make([]int64, len(reports))
	for i := range reports {
		counts[i] = f.shared
	}
	return counts, nil
}

func (f *fakeStore) Exhausted(context.Context, time.Time, time.Time, string, string, int) ([]Exhausted, error) {
	return nil, nil
}

func (f *fakeStore) Record(_ context.Context, events []Event) error {
	if f.fails {
		return errAway
	}
	for _, e := range events {
		f.events[e.ID] = true
	}
	return nil
}

type fakePlans map[string]*plan.Plan

func (f fakePlans) Plan(name string) *plan.Plan { return f[name] }

// A watcher looks at what is far from its limits once a minute, tells each percentage once, and repeats a round that failed.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{shared: -1, compared: time.Now(), events: make(map[string]bool)}
		plans := fakePlans{"p": {Name: "p", Limits: []plan.Limit{{Meter: plan.Calls, Period: plan.Month, Amount: 10, Kind: plan.Hard}}}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- NewWatcher(f, f, plans, "", testkit.Logger(t)).Run(ctx) }()
		after := func(d time.Duration, used, shared int64, fails bool, wantReads, wantEvents int) {
			t.Helper()
			f.mu.Lock()
			f.used, f.shared, f.fails, f.reads = used, shared, fails, 0
			f.mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.reads != wantReads || len(f.events) != wantEvents {
				t.Errorf("%d readings and %d events, want %d and %d", f.reads, len(f.events), wantReads, wantEvents)
			}
		}
		after(time.Minute, 3, -1, false, 4, 0)
		after(time.Minute, 5, -1, false, 12, 0)
		after(time.Minute, 9, -1, false, 12, 1)
		f.mu.Lock()
		before := f.compared
		f.mu.Unlock()
		after(time.Minute, 10, -1, true, 12, 1)
		f.mu.Lock()
		if !f.compared.Equal(before) {
			t.Error("a round that failed counts as done")
		}
		f.mu.Unlock()
		// Calls that a replica had admitted when it was killed: they refuse others, and are not counted.
		after(time.Minute, 9, 10, false, 4, 2)
		after(time.Minute, 12, 10, false, 4, 2) // What is used up rests.
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
