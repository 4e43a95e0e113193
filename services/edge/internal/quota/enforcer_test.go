package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// fakePlans are plans by name.
type fakePlans map[string]*plan.Plan

func (f fakePlans) Plan(name string) *plan.Plan { return f[name] }

// fakeStores are Redis and Postgres, which may be away, lose what they hold, and take their time.
type fakeStores struct {
	mu      sync.Mutex
	held    map[string]int64 // by window, as in Redis
	counted map[time.Time]int64
	spent   int64 // in every window
	away    bool
	delay   time.Duration
}

func newFakeStores() *fakeStores {
	return &fakeStores{held: make(map[string]int64), counted: make(map[time.Time]int64), delay: 300 * time.Microsecond}
}

var errAway = errors.New("connection refused")

func (f *fakeStores) Add(_ context.Context, reports []Report) ([]int64, error) {
	time.Sleep(f.delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errAway
	}
	counts := make([]int64, len(reports))
	for i, r := range reports {
		id := fmt.Sprint(r.Organization, r.Key, r.Meter, r.Start, r.End)
		held, ok := f.held[id]
		if !ok {
			held = -1
		}
		if held = max(held, r.Base); held < 0 {
			counts[i] = -1
			continue
		}
		f.held[id] = max(0, held+r.Delta)
		counts[i] = f.held[id]
	}
	return counts, nil
}

// Counted counts calls by the minute, whatever their holder.
func (f *fakeStores) Counted(_ context.Context, windows []Window) ([]int64, error) {
	time.Sleep(2 * f.delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make([]int64, len(windows))
	for i, w := range windows {
		for minute, n := range f.counted {
			if !minute.Before(w.Start) && minute.Before(w.End) {
				counts[i] += n
			}
		}
	}
	return counts, nil
}

func (f *fakeStores) Spent(_ context.Context, windows []Window) ([]int64, error) {
	time.Sleep(f.delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	amounts := make([]int64, len(windows))
	for i := range windows {
		amounts[i] = f.spent
	}
	return amounts, nil
}

func (f *fakeStores) count() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted[time.Now().UTC().Truncate(time.Minute)]++
}

func (f *fakeStores) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fakeStores) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.held)
}

// start runs a replica until stop.
func start(t *testing.T, plans Plans, shared Shared, durable Durable) (x *Enforcer, stop func()) {
	t.Helper()
	x = New(plans, "", shared, durable)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx, testkit.Logger(t)) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return x, stop
}

func planOf(limits ...plan.Limit) fakePlans { return fakePlans{"p": {Name: "p", Limits: limits}} }

var acme = Caller{Key: "key_1", Organization: "acme", OrganizationPlan: "p"}

// take makes a call that is answered at once, and reports whether it was admitted.
func take(t *testing.T, x *Enforcer, f *fakeStores, use Use) bool {
	t.Helper()
	_, err := x.Take(t.Context(), acme, use)
	if err == nil {
		f.count()
		return true
	}
	if e := apierr.From(err); e.Reason != ReasonExceeded || e.RetryAfter <= 0 {
		t.Errorf("refused with %v, retry after %v", err, e.RetryAfter)
	}
	return false
}

// Replicas that come, go, are killed, and lose Redis and what it holds, admit a limit's calls in every window, and at most
// a lease each beyond it. While Redis is away, they may admit what they admit in a second beyond that; when it is back, each
// replica may count what others have not reported yet once more.
func TestReplicasShareALimit(t *testing.T) {
	for name, tt := range map[string]struct {
		amount int64
		// every is how often something happens, after which replicas may exceed the limit by beyond.
		every  time.Duration
		happen func(f *fakeStores, i int)
		kill   bool
		beyond int64
		below  int64
	}{
		"small":             {amount: 20},
		"large":             {amount: 3000},
		"killed":            {amount: 1000, every: 3 * time.Second, kill: true},
		"Redis loses all":   {amount: 1000, every: 5 * time.Second, happen: func(f *fakeStores, _ int) { f.lose() }, beyond: 3},
		"Redis comes, goes": {amount: 1000, every: 5 * time.Second, happen: func(f *fakeStores, i int) { f.set(i%2 == 0) }, beyond: 3 * 2 * 200, below: 12 * 3 * 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, plans := newFakeStores(), planOf(plan.Limit{Meter: plan.Calls, Period: plan.Minute, Amount: tt.amount, Kind: plan.Hard})
				const replicas, minutes = 3, 4
				until := time.Now().Truncate(time.Minute).Add(minutes * time.Minute)
				admitted := make(map[time.Time]int64)
				var mu sync.Mutex
				var all sync.WaitGroup
				for r := range replicas {
					all.Go(func() {
						x, stop := start(t, plans, f, f)
						pause, next := rand.New(rand.NewPCG(uint64(r), 1)), time.Now().Add(tt.every)
						for i := 0; time.Now().Before(until); {
							minute := time.Now().Truncate(time.Minute)
							if take(t, x, f, UseOf("llm_requests")) {
								mu.Lock()
								admitted[minute]++
								mu.Unlock()
							}
							time.Sleep(time.Duration(1+pause.IntN(8)) * time.Millisecond)
							if tt.every == 0 || time.Now().Before(next) {
								continue
							}
							next = next.Add(tt.every)
							if tt.kill {
								stop()
								x, stop = start(t, plans, f, f)
							} else if r == 0 {
								tt.happen(f, i)
								i++
							}
						}
					})
				}
				all.Wait()
				least, most := tt.amount*95/100-tt.below, tt.amount+replicas*lease(tt.amount)+tt.beyond
				for minute, n := range admitted {
					if n < least || n > most {
						t.Errorf("%d admitted in the minute %s, want %d to %d", n, minute.Format(time.TimeOnly), least, most)
					}
				}
				if len(admitted) < minutes {
					t.Errorf("calls in %d minutes, want %d", len(admitted), minutes)
				}
			})
		})
	}
}

// Limits of every kind and period hold beside each other, over the ends of minutes, days and months.
// Calls that were made while no plan held count as soon as one holds again.
func TestCallsWithoutAPlanCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStores()
		x, stop := start(t, planOf(plan.Limit{Meter: plan.Calls, Amount: 5, Period: plan.Day, Kind: plan.Hard}), f, f)
		defer stop()
		for range 2 {
			if !take(t, x, f, UseOf("llm_requests")) {
				t.Fatal("refused within the limit")
			}
		}
		for range 4 {
			f.count()
		}
		time.Sleep(compareEvery)
		if take(t, x, f, UseOf("llm_requests")); take(t, x, f, UseOf("llm_requests")) {
			t.Error("a call was admitted though seven have been made")
		}
		if states := x.Limits(t.Context(), acme); len(states) != 1 || states[0].Used != 7 {
			t.Errorf("the limits say %+v, want 7 used", states)
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // It begins at midnight of the first of January 2000, in UTC.
		f := newFakeStores()
		plans := planOf(
			plan.Limit{Meter: plan.Calls, Period: plan.Minute, Amount: 2, Kind: plan.Hard},
			plan.Limit{Meter: plan.Calls, Period: plan.Day, Amount: 1, Kind: plan.Soft},
			plan.Limit{Meter: plan.Calls, Period: plan.Month, Amount: 3, Kind: plan.Metered},
			plan.Limit{Meter: plan.Deliveries, Period: plan.Month, Amount: 1, Kind: plan.Hard},
		)
		x, _ := start(t, plans, f, f)
		for i, step := range []struct {
			at       time.Time
			metric   string
			refused  string
			wait     time.Duration
			exceeded string
		}{
			{date(1, 1, 0, 0), "llm_requests", "", 0, ""},
			{date(1, 1, 0, 0), "notifications_sent", "", 0, "calls day; "},
			{date(1, 1, 0, 0), "llm_requests", "calls minute", time.Minute, ""},
			{date(1, 1, 0, 1), "llm_requests", "", 0, "calls day; "},
			{date(1, 1, 0, 1), "deliveries", "", 0, "calls day; calls month; "},
			{date(1, 1, 0, 2), "events", "deliveries month", 31*24*time.Hour - 2*time.Minute, ""},
			{date(1, 2, 0, 0), "llm_requests", "", 0, "calls month; "},
			{date(2, 1, 0, 0), "deliveries", "", 0, ""},
			{date(2, 1, 0, 0), "", "", 0, ""},
		} {
			time.Sleep(time.Until(step.at))
			synctest.Wait()
			asked := time.Now()
			v, err := x.Take(t.Context(), acme, UseOf(step.metric))
			refused, exceeded := "", ""
			if err != nil {
				refused = fmt.Sprint(v.Refused.Meter, " ", v.Refused.Period)
				if e := apierr.From(err); e.Reason != ReasonExceeded || e.ErrorClass().Retryable() {
					t.Errorf("step %d: %s of class %s", i+1, e.Reason, e.ErrorClass())
				}
				if wait := apierr.From(err).RetryAfter + time.Since(asked); wait < step.wait-time.Second || wait > step.wait {
					t.Errorf("step %d: retry after %v, want %v", i+1, wait, step.wait)
				}
			}
			for _, s := range v.Exceeded {
				exceeded += fmt.Sprint(s.Meter, " ", s.Period, "; ")
			}
			if refused != step.refused || exceeded != step.exceeded {
				t.Errorf("step %d: refused %q, exceeded %q; want %q, %q", i+1, refused, exceeded, step.refused, step.exceeded)
			}
		}
	})
}

func date(month time.Month, day, hour, minute int) time.Time {
	return time.Date(2000, month, day, hour, minute, 0, 0, time.UTC)
}

// A plan of the key and one of the organization hold at once, and what one refuses counts on neither. A failed call is
// given back on both.
func TestKeyAndOrganization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStores()
		plans := fakePlans{
			"wide":   {Name: "wide", Limits: []plan.Limit{{Meter: plan.Calls, Period: plan.Day, Amount: 4, Kind: plan.Hard}}},
			"narrow": {Name: "narrow", Limits: []plan.Limit{{Meter: plan.Calls, Period: plan.Day, Amount: 2, Kind: plan.Hard}}},
		}
		x, _ := start(t, plans, f, f)
		one := Caller{Key: "key_1", Organization: "acme", KeyPlan: "narrow", OrganizationPlan: "wide"}
		other := Caller{Key: "key_2", Organization: "acme", OrganizationPlan: "wide"}
		// An organization that is named like a key is not that key.
		named := Caller{Key: "key_3", Organization: "key_1", OrganizationPlan: "narrow"}
		use := UseOf("llm_requests")
		for i, step := range []struct {
			c       Caller
			refused bool
			ofKey   bool
		}{
			{one, false, false},
			{one, false, false},
			{one, true, true},
			{named, false, false},
			{other, false, false},
			{other, false, false},
			{other, true, false},
			{Caller{Key: "key_4", Organization: "else"}, false, false},
		} {
			v, err := x.Take(t.Context(), step.c, use)
			if (err != nil) != step.refused || v.Refused.OfKey != step.ofKey {
				t.Fatalf("call %d: %v, %+v", i+1, err, v)
			}
		}
		x.GiveBack(one, use, 1, time.Now())
		if _, err := x.Take(t.Context(), one, use); err != nil {
			t.Errorf("after a failed call: %v", err)
		}
		if _, err := x.Take(t.Context(), other, use); err == nil {
			t.Error("the organization's limit did not count the key's call")
		}
		states := x.Limits(t.Context(), one)
		if len(states) != 2 || !states[0].OfKey || states[0].Used != 2 || states[1].Used != 4 || states[1].Remaining() != 0 {
			t.Errorf("states %+v, want 2 of the key's 2 and 4 of the organization's 4", states)
		}
	})
}
