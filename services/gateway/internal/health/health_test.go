package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var here = routing.Target{Provider: "acme", Model: "m-1"}

func call() Call { return Call{Target: here, Credential: "key"} }

func failure(status int) *provider.Error {
	return &provider.Error{Class: apierr.ClassServerError, Status: status}
}

// do makes one call that ends as told; it reports the refusal.
func do(t *testing.T, m *Monitor, c Call, e *provider.Error) *Refusal {
	t.Helper()
	p, r := m.Acquire(t.Context(), c)
	if r != nil {
		return r
	}
	p.First()
	if e != nil {
		p.Fail(t.Context(), e, false)
	} else {
		p.End(t.Context(), Verdict{Outcome: Good})
	}
	return nil
}

func phase(m *Monitor) Phase {
	for _, s := range m.Snapshot() {
		if s.Circuit == (Circuit{"acme", "m-1"}) {
			return s.Phase
		}
	}
	return -1
}

// What may and what may not open a circuit.
func TestWhatOpensACircuit(t *testing.T) {
	byok := call()
	byok.Byok = true
	times := func(n int, e *provider.Error) []*provider.Error {
		var all []*provider.Error
		for range n {
			all = append(all, e)
		}
		return all
	}
	cases := []struct {
		name string
		call Call
		ends []*provider.Error // nil ends well
		want Phase
	}{
		{"server errors", call(), times(5, failure(500)), Open},
		{"too few", call(), times(4, failure(500)), Closed},
		{"connection failures", call(), times(5, &provider.Error{Class: apierr.ClassTransient}), Open},
		{"half of them", call(), append(times(5, nil), times(5, failure(503))...), Open},
		{"fewer than half", call(), append(times(6, nil), times(5, failure(503))...), Closed},
		{"requests at fault", call(), times(50, &provider.Error{Class: apierr.ClassPolicy, Status: 400}), Closed},
		{"too long requests", call(), times(50, &provider.Error{Class: apierr.ClassContextOverflow, Status: 400}), Closed},
		{"content", call(), times(50, &provider.Error{Class: apierr.ClassContentPolicy, Status: 400}), Closed},
		{"not sent", call(), times(50, provider.Unsupported("tools", "are not supported")), Closed},
		{"organizations' own keys", byok, times(50, failure(500)), Closed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := New(Options{})
			for _, e := range c.ends {
				if r := do(t, m, c.call, e); r != nil {
					t.Fatal(r)
				}
			}
			if got := phase(m); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A failure that one request meets again at the same vendor counts once.
func TestRepeatedFailureCountsOnce(t *testing.T) {
	m := New(Options{})
	for range 4 {
		do(t, m, call(), failure(500))
		p, r := m.Acquire(t.Context(), call())
		if r != nil {
			t.Fatal(r)
		}
		p.Fail(t.Context(), failure(500), true)
	}
	if got := phase(m); got != Closed {
		t.Errorf("%s after four failures, each met twice", got)
	}
}

// Families fail apart; vendors too.
func TestCircuitsAreApart(t *testing.T) {
	m := New(Options{})
	for range 5 {
		do(t, m, call(), failure(500))
	}
	for _, target := range []routing.Target{{Provider: "acme", Model: "n"}, {Provider: "other", Model: "m-1"}} {
		if r := do(t, m, Call{Target: target}, nil); r != nil {
			t.Errorf("%s: %v", target, r)
		}
	}
	version := Call{Target: routing.Target{Provider: "acme", Model: "m-1-2024-08-06"}}
	if r := do(t, m, version, nil); r == nil || r.Cause != CauseOpen {
		t.Errorf("a version of the same family: %v", r)
	}
}

// tripped is a monitor whose one circuit is open.
func tripped(t *testing.T, log *bytes.Buffer) *Monitor {
	t.Helper()
	m := New(Options{Log: slog.New(slog.NewJSONHandler(log, nil))})
	for range 5 {
		do(t, m, call(), failure(500))
	}
	if r := do(t, m, call(), nil); r == nil || r.Cause != CauseOpen || r.RetryAfter <= 0 {
		t.Fatalf("refusal %+v", r)
	}
	return m
}

func TestProbe(t *testing.T) {
	cases := []struct {
		name string
		end  func(ctx context.Context, p *Permit)
		want Phase
	}{
		{"passes", func(ctx context.Context, p *Permit) { p.End(ctx, Verdict{Outcome: Good}) }, Closed},
		{"passes at the first content", func(ctx context.Context, p *Permit) { p.Begin(ctx) }, Closed},
		{"is answered", func(ctx context.Context, p *Permit) {
			p.Fail(ctx, &provider.Error{Class: apierr.ClassPolicy, Status: 400}, false)
		}, Closed},
		{"is rate limited", func(ctx context.Context, p *Permit) {
			p.Fail(ctx, &provider.Error{Class: apierr.ClassRateLimit, Status: 429}, false)
		}, Closed},
		{"fails", func(ctx context.Context, p *Permit) { p.Fail(ctx, failure(500), false) }, Open},
		{"its caller leaves", func(ctx context.Context, p *Permit) { p.End(ctx, Verdict{}) }, Open},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := tripped(t, &bytes.Buffer{})
				time.Sleep(7 * time.Second)
				probe, r := m.Acquire(t.Context(), call())
				if r != nil || phase(m) != HalfOpen {
					t.Fatalf("%v, %s", r, phase(m))
				}
				for range 3 {
					if _, r := m.Acquire(t.Context(), call()); r == nil || r.Cause != CauseOpen {
						t.Fatalf("a second probe beside the first: %v", r)
					}
				}
				c.end(t.Context(), &probe)
				if got := phase(m); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				if c.name == "its caller leaves" {
					if r := do(t, m, call(), nil); r != nil || phase(m) != Closed {
						t.Errorf("the next probe: %v, %s", r, phase(m))
					}
				}
			})
		})
	}
}

// Of many who ask at once when the time has come, one probes.
func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, &bytes.Buffer{})
		time.Sleep(7 * time.Second)
		var wg sync.WaitGroup
		var mu sync.Mutex
		through := 0
		for range 50 {
			wg.Go(func() {
				if _, r := m.Acquire(t.Context(), call()); r == nil {
					mu.Lock()
					through++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if through != 1 {
			t.Errorf("%d probes, want one", through)
		}
	})
}

// A probe that never says anything doesn't keep the vendor out for ever; should
// it speak after all, nobody listens.
func TestSilentProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, &bytes.Buffer{})
		time.Sleep(7 * time.Second)
		silent, _ := m.Acquire(t.Context(), call())
		time.Sleep(16 * time.Second)
		second, r := m.Acquire(t.Context(), call())
		if r != nil {
			t.Fatal(r)
		}
		silent.End(t.Context(), Verdict{Outcome: Good})
		if phase(m) != HalfOpen {
			t.Errorf("%s after a probe that was given up", phase(m))
		}
		second.End(t.Context(), Verdict{Outcome: Good})
		if phase(m) != Closed {
			t.Errorf("%s after the probe", phase(m))
		}
	})
}

// What began before a change says nothing about what came after it.
func TestLateResultsDontCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		var late []Permit
		for range 20 {
			p, _ := m.Acquire(t.Context(), call())
			late = append(late, p)
		}
		for range 5 {
			do(t, m, call(), failure(500))
		}
		time.Sleep(7 * time.Second)
		if r := do(t, m, call(), nil); r != nil {
			t.Fatal(r)
		}
		for i := range late {
			late[i].Fail(t.Context(), failure(500), false)
		}
		if phase(m) != Closed {
			t.Errorf("%s: failures of before opened it again", phase(m))
		}
	})
}

// An organization's own key minds an open circuit, probes nothing, and is not
// locked out where only such keys are left.
func TestByokAtAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, &bytes.Buffer{})
		own := call()
		own.Byok = true
		if r := do(t, m, own, nil); r == nil || r.Cause != CauseOpen {
			t.Errorf("refusal %v", r)
		}
		time.Sleep(7 * time.Second)
		for range 2 {
			if r := do(t, m, own, nil); r != nil {
				t.Errorf("after its time: %v", r)
			}
		}
		if phase(m) != Open {
			t.Errorf("%s, want the fleet's own probe to decide", phase(m))
		}
	})
}

func TestTransitionsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := tripped(t, &log)
		time.Sleep(7 * time.Second)
		do(t, m, call(), nil)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], `"to":"open"`) || !strings.Contains(lines[0], "server_error (status 500)") ||
			!strings.Contains(lines[1], `"to":"half_open"`) || !strings.Contains(lines[2], `"to":"closed"`) {
			t.Errorf("log, want a line for each transition:\n%s", log.String())
		}
		status := m.Snapshot()[0]
		if len(status.Changes) != 3 || status.Changes[0].To != Open || status.Changes[0].At.IsZero() || status.Changes[0].Cause == "" || status.InFlight != 0 {
			t.Errorf("snapshot %+v", status)
		}
	})
}

func TestCredentialsRest(t *testing.T) {
	limited := func(after time.Duration) *provider.Error {
		return &provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: after}
	}
	cases := []struct {
		name  string
		e     *provider.Error
		cause Cause
		for_  time.Duration
		// else_ is what another model of the vendor is refused for with that key.
		else_ Cause
	}{
		{"a rate limit with a hint", limited(7 * time.Second), CauseRateLimited, 7 * time.Second, ""},
		{"… without one", limited(0), CauseRateLimited, time.Second, ""},
		{"… with an endless one", limited(24 * time.Hour), CauseRateLimited, 5 * time.Minute, ""},
		{"a refused key", &provider.Error{Class: apierr.ClassAuth, Status: 401}, CauseKeyRefused, 10 * time.Second, CauseKeyRefused},
		{"a model that is not the key's", &provider.Error{Class: apierr.ClassAuth, Status: 403}, CauseKeyRefused, 10 * time.Second, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{})
				do(t, m, call(), c.e)
				if r := do(t, m, call(), nil); r == nil || r.Cause != c.cause || r.RetryAfter != c.for_ || r.Soft || m.Admits(call()) {
					t.Errorf("refusal %+v, want %s for %s", r, c.cause, c.for_)
				}
				another := call()
				another.Credential = "key-2"
				if r := do(t, m, another, nil); r != nil {
					t.Errorf("another key: %v", r)
				}
				elsewhere := call()
				elsewhere.Target.Model = "n"
				r := do(t, m, elsewhere, nil)
				if got := (&Refusal{}).Cause; r != nil {
					got = r.Cause
					if got != c.else_ {
						t.Errorf("another model: %v", r)
					}
				} else if c.else_ != "" {
					t.Errorf("another model: not refused, want %s", c.else_)
				}
				time.Sleep(c.for_)
				if r := do(t, m, call(), nil); r != nil {
					t.Errorf("after its rest: %v", r)
				}
				if phase(m) != Closed {
					t.Error("the circuit moved")
				}
			})
		})
	}
}

// What the vendor said is left is minded before it has to say no.
func TestLimitsArePreShed(t *testing.T) {
	left := func(requests, tokens int64) provider.Limits {
		return provider.Limits{
			Requests: provider.Allowance{Known: true, Remaining: requests, Reset: 3 * time.Second},
			Tokens:   provider.Allowance{Known: true, Remaining: tokens, Reset: 5 * time.Second},
		}
	}
	cases := []struct {
		name   string
		limits provider.Limits
		tokens int
		cause  Cause
		for_   time.Duration
	}{
		{"enough", left(1, 1000), 1000, "", 0},
		{"no requests", left(0, 1000), 1, CauseNoRequests, 3 * time.Second},
		{"too few tokens", left(1, 999), 1000, CauseNoTokens, 5 * time.Second},
		{"no tokens, and the need unknown", left(1, 0), 0, CauseNoTokens, 5 * time.Second},
		{"nothing said", provider.Limits{}, 1000, "", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{})
				p, _ := m.Acquire(t.Context(), call())
				p.Learn(c.limits)
				p.End(t.Context(), Verdict{Outcome: Good})
				asked := call()
				asked.Tokens = c.tokens
				r := do(t, m, asked, nil)
				if (r == nil) != (c.cause == "") || r != nil && (r.Cause != c.cause || r.RetryAfter != c.for_ || !r.Soft || r.Class() != apierr.ClassRateLimit) {
					t.Fatalf("refusal %+v, want %s", r, c.cause)
				}
				asked.Insist = true
				if r := do(t, m, asked, nil); r != nil {
					t.Errorf("insisting: %v", r)
				}
				time.Sleep(5 * time.Second)
				asked.Insist = false
				if r := do(t, m, asked, nil); r != nil {
					t.Errorf("after the reset: %v", r)
				}
			})
		})
	}
}

func TestBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Concurrency: 4})
		var held []Permit
		for range 4 {
			p, r := m.Acquire(t.Context(), call())
			if r != nil {
				t.Fatal(r)
			}
			held = append(held, p)
		}
		start := time.Now()
		if _, r := m.Acquire(t.Context(), call()); r == nil || r.Cause != CauseFull || time.Since(start) != 250*time.Millisecond {
			t.Errorf("%+v after %v, want a short wait and a refusal", r, time.Since(start))
		}
		// One may wait; who comes beside it is refused at once.
		got := make(chan *Refusal, 1)
		var waited Permit
		go func() {
			var r *Refusal
			waited, r = m.Acquire(t.Context(), call())
			got <- r
		}()
		synctest.Wait()
		start = time.Now()
		if _, r := m.Acquire(t.Context(), call()); r == nil || time.Since(start) != 0 {
			t.Errorf("%+v after %v, want a refusal at once", r, time.Since(start))
		}
		held[0].End(t.Context(), Verdict{})
		if r := <-got; r != nil {
			t.Errorf("the one that waited: %v", r)
		}
		held[0] = waited
		// Another vendor is not touched; a caller who leaves waits no longer.
		if r := do(t, m, Call{Target: routing.Target{Provider: "other", Model: "m"}}, nil); r != nil {
			t.Error(r)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		if _, r := m.Acquire(gone, call()); r == nil || time.Since(start) != 0 {
			t.Errorf("a caller who left: %v after %v", r, time.Since(start))
		}
		if s := m.Snapshot()[0]; s.InFlight != 4 || s.Limit != 4 {
			t.Errorf("snapshot %+v", s)
		}
		for i := range held {
			held[i].End(t.Context(), Verdict{})
		}
		if s := m.Snapshot()[0]; s.InFlight != 0 {
			t.Errorf("%d in flight after all", s.InFlight)
		}
	})
}

// A probe that the bulkhead holds back gives its turn back.
func TestBulkheadGivesTheProbeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Concurrency: 1})
		for range 5 {
			do(t, m, call(), failure(500))
		}
		time.Sleep(7 * time.Second)
		elsewhere := call()
		elsewhere.Target.Model = "n"
		hog, _ := m.Acquire(t.Context(), elsewhere)
		if _, r := m.Acquire(t.Context(), call()); r == nil || r.Cause != CauseFull {
			t.Fatal(r)
		}
		hog.End(t.Context(), Verdict{})
		if r := do(t, m, call(), nil); r != nil {
			t.Errorf("the probe's turn is lost: %v", r)
		}
	})
}

// Retries are a tenth of the calls, and a few more at the begin.
func TestRetryBudget(t *testing.T) {
	m := New(Options{})
	granted := 0
	for range 1000 {
		p, _ := m.Acquire(t.Context(), call())
		p.First()
		p.End(t.Context(), Verdict{Outcome: Good})
		if m.Retry(here) {
			granted++
		}
	}
	if granted < 100 || granted > 112 {
		t.Errorf("%d retries of 1000 calls", granted)
	}
	if !m.Retry(routing.Target{Provider: "other", Model: "m"}) {
		t.Error("another vendor has no budget")
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		if got := m.Speed(here); got != (Latency{}) {
			t.Errorf("latency %+v of an unknown target", got)
		}
		near := func(got, want time.Duration) bool { return got > want*85/100 && got < want*115/100 }
		take := func(n int, first, rest time.Duration) {
			for range n {
				p, r := m.Acquire(t.Context(), call())
				if r != nil {
					t.Fatal(r)
				}
				time.Sleep(first)
				p.Begin(t.Context())
				time.Sleep(rest)
				p.End(t.Context(), Verdict{Outcome: Good})
			}
		}
		take(20, 100*time.Millisecond, 300*time.Millisecond)
		if got := m.Speed(here); !near(got.FirstToken, 100*time.Millisecond) || !near(got.P50, 400*time.Millisecond) {
			t.Errorf("latency %+v, want 0.1 s and 0.4 s", got)
		}
		take(1, 10*time.Second, 20*time.Second)
		if got := m.Speed(here); !near(got.P50, 400*time.Millisecond) {
			t.Errorf("one slow answer moved the median to %v", got.P50)
		}
		time.Sleep(5 * time.Minute)
		take(3, time.Second, time.Second)
		if got := m.Speed(here); !near(got.FirstToken, time.Second) || !near(got.P50, 2*time.Second) {
			t.Errorf("latency %+v: the past does not fade", got)
		}
		time.Sleep(20 * time.Minute)
		if got := m.Speed(here); got != (Latency{}) {
			t.Errorf("latency %+v after a long silence", got)
		}
		p, _ := m.Acquire(t.Context(), call())
		p.Fail(t.Context(), failure(500), false)
		if got := m.Speed(here); got != (Latency{}) {
			t.Errorf("a failure counts as fast: %+v", got)
		}
	})
}

// Model names may come from callers: what is remembered has a bound.
func TestNamesAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range 2 * maxTargets {
		c := Call{Target: routing.Target{Provider: "acme", Model: fmt.Sprintf("made-up-%dx", i)}, Credential: fmt.Sprint(i)}
		if r := do(t, m, c, &provider.Error{Class: apierr.ClassAuth, Status: 401}); r != nil {
			t.Fatal(r)
		}
	}
	if n := len(*m.targets.Load()); n > maxTargets {
		t.Errorf("%d targets", n)
	}
	if n := len(m.Snapshot()); n > maxFamilies+1 {
		t.Errorf("%d circuits", n)
	}
	if n := len(*m.vendors["acme"].credentials.by.Load()); n > maxCredentials {
		t.Errorf("%d credentials", n)
	}
}

// fleet is a board in memory that can go away.
type fleet struct {
	mu      sync.Mutex
	away    bool
	lives   map[string]time.Time
	reports map[string][]Report
	at      map[string]time.Time
	leases  map[Circuit]time.Time
	asked   int
}

func newFleet() *fleet {
	return &fleet{lives: map[string]time.Time{}, reports: map[string][]Report{}, at: map[string]time.Time{}, leases: map[Circuit]time.Time{}}
}

type seat struct {
	*fleet
	name string
}

var errAway = errors.New("away")

func (s seat) Exchange(_ context.Context, reports []Report, _ bool) (View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return View{}, errAway
	}
	now := time.Now()
	s.reports[s.name], s.at[s.name] = reports, now
	view := View{Self: s.name}
	for name, reports := range s.reports {
		age := now.Sub(s.at[name])
		if age > 5*time.Second {
			continue
		}
		view.Replicas++
		for _, r := range reports {
			r.Replica, r.Age, r.For = name, r.Age+age, r.For-age
			view.Reports = append(view.Reports, r)
		}
	}
	return view, nil
}

func (s seat) Lease(_ context.Context, c Circuit, life time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.away {
		return false, errAway
	}
	if time.Now().Before(s.leases[c]) {
		return false, nil
	}
	s.leases[c] = time.Now().Add(life)
	return true, nil
}

func (s seat) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func (f *fleet) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

// join starts n replicas on a board.
func join(t *testing.T, f *fleet, n int) (monitors []*Monitor, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range n {
		m := New(Options{Board: seat{f, fmt.Sprint("replica-", i)}})
		m.find(here)
		monitors = append(monitors, m)
		wg.Go(func() { _ = m.Run(ctx) })
	}
	return monitors, func() { cancel(); wg.Wait() }
}

func trip(t *testing.T, m *Monitor) {
	t.Helper()
	for range 5 {
		do(t, m, call(), failure(500))
	}
}

func TestReplicasFollowAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 3)
		defer leave()
		time.Sleep(2 * time.Second)
		trip(t, m[0])
		time.Sleep(2 * time.Second)
		if phase(m[1]) != Closed || phase(m[2]) != Closed {
			t.Fatal("one bad replica took the vendor from the others")
		}
		trip(t, m[1])
		time.Sleep(2 * time.Second)
		if phase(m[2]) != Open || m[2].Snapshot()[0].Own {
			t.Fatal("the third does not follow two of three")
		}
		// One of those that saw it probes; the others hear of it and may go at once.
		time.Sleep(5 * time.Second)
		if r := do(t, m[0], call(), nil); r != nil || phase(m[0]) != Closed {
			t.Fatalf("the probe: %v", r)
		}
		time.Sleep(2 * time.Second)
		if phase(m[0]) != Closed {
			t.Error("the others took the recovered replica back")
		}
		if phase(m[2]) != Closed {
			t.Error("the follower does not follow back")
		}
		if r := do(t, m[1], call(), nil); r != nil || phase(m[1]) != Closed {
			t.Errorf("the second: %v", r)
		}
	})
}

// Of replicas that opened together, one probes at a time.
func TestOneReplicaProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 2)
		defer leave()
		for _, one := range m {
			trip(t, one)
		}
		time.Sleep(7 * time.Second)
		probe, r := m[0].Acquire(t.Context(), call())
		if r != nil {
			t.Fatal(r)
		}
		if _, r := m[1].Acquire(t.Context(), call()); r == nil || r.Cause != CauseOpen {
			t.Errorf("both probe: %v", r)
		}
		probe.Fail(t.Context(), failure(500), false)
		time.Sleep(20 * time.Second)
		if r := do(t, m[1], call(), nil); r != nil || phase(m[1]) != Closed {
			t.Errorf("once the lease is over: %v", r)
		}
	})
}

func TestBoardAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 3)
		defer leave()
		trip(t, m[0])
		trip(t, m[1])
		time.Sleep(2 * time.Second)
		if phase(m[2]) != Open {
			t.Fatal("the third does not follow")
		}
		f.set(true)
		time.Sleep(2 * time.Second)
		if phase(m[2]) != Closed || phase(m[0]) != Open {
			t.Error("each must go by what it sees itself")
		}
		trip(t, m[2])
		if phase(m[2]) != Open {
			t.Error("a replica alone opens no circuit")
		}
		time.Sleep(7 * time.Second)
		for i, one := range m {
			if r := do(t, one, call(), nil); r != nil || phase(one) != Closed {
				t.Errorf("replica %d alone can't probe: %v", i, r)
			}
		}
		// Back again: what was seen meanwhile is told.
		f.set(false)
		time.Sleep(2 * time.Second)
		trip(t, m[0])
		trip(t, m[2])
		time.Sleep(2 * time.Second)
		if phase(m[1]) != Open {
			t.Error("two of three see it, and the other does not follow")
		}
	})
}

// A replica that dies takes its reports along.
func TestDeadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 1)
		defer leave()
		dead := seat{f, "dead"}
		if _, err := dead.Exchange(t.Context(), []Report{{Circuit: Circuit{"acme", "m-1"}, Open: true, For: time.Hour}}, true); err != nil {
			t.Fatal(err)
		}
		other := seat{f, "dead too"}
		if _, err := other.Exchange(t.Context(), []Report{{Circuit: Circuit{"acme", "m-1"}, Open: true, For: time.Hour}}, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if phase(m[0]) != Open {
			t.Fatal("two of three: does not follow")
		}
		time.Sleep(6 * time.Second)
		if phase(m[0]) != Closed {
			t.Error("the dead still vote")
		}
	})
}

// A closed circuit asks nobody.
func TestClosedCircuitCostsNoRoundTrip(t *testing.T) {
	f := newFleet()
	m := New(Options{Board: seat{f, "a"}})
	for range 100 {
		do(t, m, call(), nil)
	}
	if f.asked != 0 {
		t.Errorf("%d leases were asked for", f.asked)
	}
}
