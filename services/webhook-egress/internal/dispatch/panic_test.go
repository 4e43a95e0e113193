package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/rate"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// memory is a store of one queue. refuse says why a result is not taken; it may panic.
type memory struct {
	mu      sync.Mutex
	waiting []delivery.Job
	settled []dispatch.Result
	claims  int
	broken  bool
	refuse  func(dispatch.Result) error
}

var _ dispatch.Store = (*memory)(nil)

func (m *memory) Claim(ctx context.Context, c dispatch.Claim) (dispatch.Claimed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims++
	if len(m.waiting) == 0 {
		return dispatch.Claimed{Next: -1}, nil
	}
	job := m.waiting[0]
	rows := c.Grant(ctx, []dispatch.Picked{{Flow: job.Flow()}})[0].Rows
	if m.broken {
		panic("a row that can't be read")
	}
	taken := m.waiting[:min(rows, len(m.waiting))]
	m.waiting = m.waiting[len(taken):]
	return dispatch.Claimed{Jobs: taken, Flows: 1, Next: -1}, nil
}

func (m *memory) Settle(_ context.Context, results []dispatch.Result) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make([]bool, len(results))
	for i, r := range results {
		if m.refuse != nil {
			if err := m.refuse(r); err != nil {
				return nil, err
			}
		}
		held[i] = true
	}
	m.settled = append(m.settled, results...)
	return held, nil
}

func (m *memory) results() []dispatch.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled
}

// alone is a replica without others.
type alone struct{}

func (alone) ID() int64                   { return 1 }
func (alone) Leave(context.Context) error { return nil }

// answers sends nothing and replies to each delivery as its type says.
type answers func(header map[string]string) dispatch.Reply

func (a answers) Send(_ context.Context, r dispatch.Request) dispatch.Reply {
	return a(r.Header)
}

// run runs an engine over a store for a while, with four slots.
func run(t *testing.T, store dispatch.Store, reply answers, d time.Duration) (logged string) {
	t.Helper()
	return runWith(t, 4, store, reply, d)
}

// runWith is run with a number of slots.
func runWith(t *testing.T, slots int, store dispatch.Store, reply answers, d time.Duration) (logged string) {
	t.Helper()
	var log strings.Builder
	engine, err := dispatch.New(dispatch.Options{
		Store: store, Secrets: &secrets{}, Sender: reply, Replica: alone{},
		Policy:  delivery.Policy{Schedule: []time.Duration{time.Minute}, HoldDelay: time.Minute},
		Breaker: breaker.New(breaker.Options{Policy: breaker.DefaultPolicy(), Log: slog.New(slog.DiscardHandler), Now: time.Now, Random: rand.Float64}),
		Rates:   rate.New(nil, slog.New(slog.DiscardHandler), time.Now),
		Limits:  dispatch.LimitsOf(slots, 64<<20), Lease: 20 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Meter: metricnoop.NewMeterProvider().Meter("test"), Tracer: noop.NewTracerProvider().Tracer("test"), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	time.Sleep(d)
	cancel()
	running.Wait()
	return log.String()
}

// jobs are deliveries of one flow, by event type.
func jobs(types ...string) []delivery.Job {
	all := make([]delivery.Job, len(types))
	for i, eventType := range types {
		all[i] = delivery.Job{
			ID: delivery.NewID(time.Now()), FlowID: 1, Organization: "acme", URL: "https://receiver.example/", EventType: eventType,
			SigningMode: signing.OrgTimestamp, Body: []byte("{}"), MaxAttempts: 2, Host: "receiver.example", Port: 443,
		}
	}
	return all
}

// of is the only result of an event type.
func of(t *testing.T, store *memory, eventType string) dispatch.Result {
	t.Helper()
	var found []dispatch.Result
	for _, r := range store.results() {
		if r.Job.EventType == eventType {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s was settled %d times, want once", eventType, len(found))
	}
	return found[0]
}

// A panic uses up one attempt of its delivery, is logged once, and neither ends
// the worker nor counts against the target.
func TestPanicOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{waiting: jobs("a", "poison", "b", "c", "d", "e", "f")}
		last := jobs("last")
		last[0].Attempts = 1
		store.waiting = append(store.waiting, last...)
		logged := run(t, store, func(header map[string]string) dispatch.Reply {
			if kind := header["X-Webhook-Event"]; kind == "poison" || kind == "last" {
				panic("boom")
			}
			return dispatch.Reply{Status: http.StatusOK}
		}, time.Minute)

		for _, good := range []string{"a", "b", "c", "d", "e", "f"} {
			if r := of(t, store, good); r.Step.Status != delivery.StatusDelivered {
				t.Errorf("%s is %s, want delivered", good, r.Step.Status)
			}
		}
		r := of(t, store, "poison")
		if r.Step.Status != delivery.StatusRetrying {
			t.Errorf("the first attempt that panicked leaves its delivery %s, want retrying", r.Step.Status)
		}
		if r.Step.Attempts != 1 {
			t.Errorf("it counts as %d attempts, want 1", r.Step.Attempts)
		}
		if r.Attempt == nil || r.Attempt.Error != delivery.FaultInternal {
			t.Errorf("the attempt is recorded as %+v, want %s", r.Attempt, delivery.FaultInternal)
		}
		if r.Own.Changed {
			t.Error("it moved the target's breaker")
		}
		if r := of(t, store, "last"); r.Step.Status != delivery.StatusFailed {
			t.Errorf("the last attempt that panicked leaves its delivery %s, want failed", r.Step.Status)
		}
		if n := strings.Count(logged, "an attempt panicked"); n != 2 {
			t.Errorf("logged %d times, want once for each: %s", n, logged)
		}
	})
}

// A delivery that no replica which held it has settled is given up unsent: it may be
// what ends them.
func TestDeliveryThatEndsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{waiting: jobs("a", "poison", "seldom")}
		store.waiting[1].Takeovers, store.waiting[2].Takeovers = delivery.MaxTakeovers, delivery.MaxTakeovers-1
		var sent sync.Map
		logged := run(t, store, func(header map[string]string) dispatch.Reply {
			sent.Store(header["X-Webhook-Event"], true)
			return dispatch.Reply{Status: http.StatusOK}
		}, time.Minute)

		r := of(t, store, "poison")
		if _, found := sent.Load("poison"); found || r.Step.Status != delivery.StatusFailed {
			t.Errorf("it is %s, sent: %v; want failed and not sent", r.Step.Status, found)
		}
		if r.Attempt == nil || r.Attempt.Error != delivery.FaultInternal || r.Attempt.Number != 1 {
			t.Errorf("the attempt whose result is missing is recorded as %+v, want the first, %s", r.Attempt, delivery.FaultInternal)
		}
		if r.Own.Changed {
			t.Error("it moved the target's breaker")
		}
		if n := strings.Count(logged, "ended without a result"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, logged)
		}
		for _, good := range []string{"a", "seldom"} {
			if r := of(t, store, good); r.Step.Status != delivery.StatusDelivered {
				t.Errorf("%s is %s, want delivered", good, r.Step.Status)
			}
		}
	})
}

// What the store can't hold of a result, or panics at, is left out: the attempt
// counts, and the results beside it are settled as they are.
func TestResultThatCannotBeStored(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"rejected": func() error { return fmt.Errorf("bad value: %w", delivery.ErrRejected) },
		"panics":   func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memory{waiting: jobs("a", "poison", "b"), refuse: func(r dispatch.Result) error {
					if r.Attempt != nil && r.Attempt.ResponseBody == "poison" {
						return refuse()
					}
					return nil
				}}
				run(t, store, func(header map[string]string) dispatch.Reply {
					return dispatch.Reply{Status: http.StatusOK, Body: []byte(header["X-Webhook-Event"])}
				}, time.Minute)
				for eventType, want := range map[string]string{"a": "a", "poison": "", "b": "b"} {
					r := of(t, store, eventType)
					if r.Step.Status != delivery.StatusDelivered {
						t.Errorf("%s is %s, want delivered", eventType, r.Step.Status)
					}
					if r.Attempt.ResponseBody != want {
						t.Errorf("%s has the answer %q, want %q", eventType, r.Attempt.ResponseBody, want)
					}
				}
			})
		})
	}
}

// A claim that panics is made again, and keeps none of its slots.
func TestPanicOfAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{waiting: jobs("a", "b"), broken: true}
		time.AfterFunc(30*time.Second, func() {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.broken = false
		})
		logged := run(t, store, func(map[string]string) dispatch.Reply { return dispatch.Reply{Status: http.StatusOK} }, time.Minute)
		if n := len(store.results()); n != 2 {
			t.Errorf("%d deliveries settled after the claims that panicked, want 2", n)
		}
		if store.claims > 5000 {
			t.Errorf("%d claims in a minute", store.claims)
		}
		if !strings.Contains(logged, "claim failed") {
			t.Error("the panic was not logged")
		}
	})
}

// A target is not blamed for a panic of ours.
func TestPanicIsNotTheTargetsFailure(t *testing.T) {
	if delivery.TargetFailed(delivery.Answer{Fault: delivery.FaultInternal}) {
		t.Error("a panic counts as a failure of the target")
	}
}
