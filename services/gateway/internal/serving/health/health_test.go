package health

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var here = provider.Target{Provider: "acme", Model: "m-1"}

func call() Call { return Call{Target: here, Credential: "key"} }

func failure(status int) *provider.Error {
	return &provider.Error{Class: apierr.ClassServerError, Status: status}
}

// do makes one call with the given end and returns the refusal, if any.
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

// Which failures open a circuit, and which don't.
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
		ends []*provider.Error // nil is a good end
		want Phase
	}{
		{"server errors", call(), times(5, failure(500)), Open},
		{"too few", call(), times(4, failure(500)), Closed},
		{"connection failures", call(), times(5, &provider.Error{Class: apierr.ClassTransient}), Open},
		{"half of them", call(), append(times(5, nil), times(5, failure(503))...), Open},
		{"fewer than half", call(), append(times(6, nil), times(5, failure(503))...), Closed},
		{"failures at first, then hardly any", call(), append(append(times(3, failure(500)), times(17, nil)...), failure(500)), Closed},
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

// A failure that one request meets repeatedly at the same vendor counts once.
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

// Families of a vendor fail independently, and so do vendors.
func TestCircuitsAreApart(t *testing.T) {
	m := New(Options{})
	for range 5 {
		do(t, m, call(), failure(500))
	}
	for _, target := range []provider.Target{{Provider: "acme", Model: "n"}, {Provider: "other", Model: "m-1"}} {
		if r := do(t, m, Call{Target: target}, nil); r != nil {
			t.Errorf("%s: %v", target, r)
		}
	}
	version := Call{Target: provider.Target{Provider: "acme", Model: "m-1-2024-08-06"}}
	if r := do(t, m, version, nil); r == nil || r.Cause != CauseOpen {
		t.Errorf("a version of the same family: %v", r)
	}
}

// tripped returns a monitor whose one circuit is open.
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

// Of many concurrent callers, exactly one probes when the time has come.
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

// A probe that never reports an outcome doesn't block the vendor for ever; an outcome that it reports late is ignored.
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

// A call that began before a transition does not count after it.
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

// A call with an organization's own key respects an open circuit and never probes it, but is not locked out where only
// such keys are left.
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
		want := [][]string{{`"to":"open"`, "server_error (status 500)"}, {`"to":"half_open"`}, {`"to":"closed"`}}
		if len(lines) != len(want) {
			t.Fatalf("log, want a line for each of %d transitions:\n%s", len(want), log.String())
		}
		for i, parts := range want {
			for _, part := range parts {
				if !strings.Contains(lines[i], part) {
					t.Errorf("line %d of the log, want %s in it:\n%s", i, part, lines[i])
				}
			}
		}
		status := m.Snapshot()[0]
		if len(status.Changes) != 3 {
			t.Fatalf("changes %+v, want 3", status.Changes)
		}
		if first := status.Changes[0]; first.To != Open || first.At.IsZero() || first.Cause == "" {
			t.Errorf("first change %+v, want open with a time and a cause", first)
		}
		if status.InFlight != 0 {
			t.Errorf("%d calls in flight, want none", status.InFlight)
		}
	})
}
