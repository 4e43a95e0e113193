package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memoryStore is a ReportStore in memory that can fail.
type memoryStore struct {
	mu      sync.Mutex
	reports map[string]Report
	seen    map[string]time.Time
	away    bool
}

func newReportStore() *memoryStore {
	return &memoryStore{reports: make(map[string]Report), seen: make(map[string]time.Time)}
}

func (b *memoryStore) Exchange(_ context.Context, own Report, kept time.Duration) ([]Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return nil, errors.New("away")
	}
	b.reports[own.Replica], b.seen[own.Replica] = own, time.Now()
	var all []Report
	for id, r := range b.reports {
		if r.Age = time.Since(b.seen[id]); r.Age < kept {
			all = append(all, r)
		}
	}
	return all, nil
}

func (b *memoryStore) Delete(_ context.Context, replica string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return errors.New("away")
	}
	delete(b.reports, replica)
	return nil
}

func (b *memoryStore) set(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

var errDraining = errors.New("draining")

// replica is a monitor whose sources a test can make fail.
type replica struct {
	*Monitor

	mu      sync.Mutex
	checks  []Check
	reports []ProviderReport
	ping    error
	// policy in force, and what keeps the last release from being in force.
	policy, problem string
}

func (r *replica) do(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func newReplica(id, place string, fast, slow ReportStore) *replica {
	r := &replica{}
	r.Monitor = NewMonitor(Options{Replica: id, Address: place, Version: "v1", Fast: fast, Slow: slow, Log: slog.New(slog.DiscardHandler), Sources: Sources{
		Checks:    func(context.Context) []Check { r.mu.Lock(); defer r.mu.Unlock(); return slices.Clone(r.checks) },
		Draining:  errDraining,
		Vendors:   func() []ProviderReport { r.mu.Lock(); defer r.mu.Unlock(); return slices.Clone(r.reports) },
		Providers: func() []string { return []string{"v"} },
		Policy:    func() (string, string) { r.mu.Lock(); defer r.mu.Unlock(); return r.policy, r.problem },
		Pings:     map[string]func(context.Context) error{Redis: func(context.Context) error { r.mu.Lock(); defer r.mu.Unlock(); return r.ping }},
	}})
	return r
}

func (r *replica) start(t *testing.T) (kill func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func verdict(r *replica) string {
	f := r.Fleet()
	states := make([]string, len(f.Replicas))
	for i, each := range f.Replicas {
		states[i] = each.ID + " " + string(each.State) + " " + strings.Join(each.Problems, ",")
	}
	return fmt.Sprintf("%s since %s: %s", f.Verdict, time.Since(f.Since).Round(time.Second), strings.Join(states, "; "))
}

// Replicas agree on the verdict and its beginning, including one that started later. A replica that dies is reported,
// one that stops is not, and one with the same place replaces it.
func TestReplicasAgree(t *testing.T) {
	for name, stores := range map[string]func() (fast, slow ReportStore){
		"through the fast store": func() (ReportStore, ReportStore) { return newReportStore(), newReportStore() },
		"without a fast store":   func() (ReportStore, ReportStore) { return nil, newReportStore() },
		"with a fast store that is away": func() (ReportStore, ReportStore) {
			fast := newReportStore()
			fast.set(true)
			return fast, newReportStore()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fast, slow := stores()
				a := newReplica("a", "host:1", fast, slow)
				defer a.start(t)()
				a.do(func() { a.reports = []ProviderReport{{Provider: "v", RecentAttempts: 5, RecentFailures: 5}} })
				time.Sleep(20*time.Second + 10*time.Millisecond)
				b := newReplica("b", "host:2", fast, slow)
				killB := b.start(t)
				time.Sleep(10 * time.Second)
				for _, r := range []*replica{a, b} {
					if got := verdict(r); got != "vendor_down since 29s: a up ; b up " && got != "vendor_down since 30s: a up ; b up " {
						t.Error(got)
					}
				}
				killB()
				time.Sleep(9 * time.Second)
				if got := verdict(a); !strings.HasPrefix(got, "vendor_down") {
					t.Error("within ten seconds: " + got)
				}
				time.Sleep(8 * time.Second)
				if got := verdict(a); !strings.HasPrefix(got, "gateway_degraded") || !strings.HasSuffix(got, "b down no_sign_of_life") {
					t.Error("after ten seconds: " + got)
				}
				c := newReplica("c", "host:2", fast, slow)
				killC := c.start(t)
				time.Sleep(10 * time.Second)
				if got := verdict(a); !strings.HasPrefix(got, "vendor_down") || !strings.HasSuffix(got, "a up ; c up ") {
					t.Error("replaced: " + got)
				}
				c.do(func() { c.checks = []Check{{"lifecycle", errDraining}} })
				time.Sleep(7 * time.Second)
				if got := verdict(a); !strings.HasPrefix(got, "vendor_down") || !strings.HasSuffix(got, "c draining ") {
					t.Error("draining: " + got)
				}
				killC()
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(20 * time.Second)
				if got := verdict(a); !strings.HasSuffix(got, ": a up ") {
					t.Error("left: " + got)
				}
			})
		})
	}
}

func TestMonitorTellsWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newReportStore()
		r := newReplica("a", "", nil, slow)
		defer r.start(t)()
		time.Sleep(time.Second + time.Millisecond)
		if got := verdict(r); got != "operational since 1s: a up " {
			t.Error(got)
		}
		r.do(func() { r.ping = errors.New("connection refused") })
		time.Sleep(3 * time.Second)
		if got := verdict(r); got != "gateway_degraded since 2s: a degraded redis_away" && got != "gateway_degraded since 3s: a degraded redis_away" {
			t.Error(got)
		}
		p := r.Ping(Redis)
		if p.State != Down || p.Latency != 0 {
			t.Errorf("redis is %s after %s, want down without a latency", p.State, p.Latency)
		}
		if p.At.IsZero() || time.Since(p.Since) > 3*time.Second {
			t.Errorf("redis was asked at %s and is so since %s, want at most 3s ago", p.At, p.Since)
		}
		r.do(func() { r.ping, r.checks = nil, []Check{{"ledger", errors.New("full")}} })
		slow.set(true) // Alone it still reports itself.
		time.Sleep(2 * time.Second)
		if got := verdict(r); !strings.HasPrefix(got, "gateway_down") || !strings.HasSuffix(got, "a degraded ledger_not_ready") {
			t.Error(got)
		}
		if p := r.Ping("nothing"); p.State != Unknown {
			t.Errorf("%+v", p)
		}
	})
}

// Replicas with different policies are reported, and one that can't follow a release is degraded until it does.
func TestPoliciesOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newReportStore()
		a, b := newReplica("a", "host:1", nil, slow), newReplica("b", "host:2", nil, slow)
		a.policy, b.policy = "new", "old"
		defer a.start(t)()
		defer b.start(t)()
		const differ = "2 versions of the policy are in force"
		for _, step := range []struct{ policy, problem, verdict, summary string }{
			{"old", "", "operational", differ},
			{"old", "policy_refused", "gateway_degraded", "b degraded policy_refused; " + differ},
			{"new", "", "operational", "2 of 2 replicas are healthy; no provider"},
		} {
			b.do(func() { b.policy, b.problem = step.policy, step.problem })
			time.Sleep(5 * time.Second)
			for _, r := range []*replica{a, b} {
				f := r.Fleet()
				if string(f.Verdict) != step.verdict || !strings.Contains(f.Summary, step.summary) {
					t.Errorf("%+v: %s, %q", step, f.Verdict, f.Summary)
				}
				if f.Replicas[0].Policy != "new" || f.Replicas[1].Policy != step.policy {
					t.Errorf("%+v: policies %q and %q, want new and the step's", step, f.Replicas[0].Policy, f.Replicas[1].Policy)
				}
			}
		}
	})
}
