package dispatch

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/rate"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// LeaseMargin is how much longer a lease has to be than the longest request, for reading the job and waiting for the
// settle. An attempt that outlives its lease could be made twice at the same time.
const LeaseMargin = 5 * time.Second

// settleRows is the largest number of results that share a transaction.
const settleRows = 256

// A result waits up to settleLinger for others to share its transaction with, while at least lingerFrom deliveries are
// in flight. The transaction itself costs as much as a dozen of its rows, and no receiver waits for it.
const settleLinger, lingerFrom = 10 * time.Millisecond, 16

// Options configures an Engine. Opener, Keys and Notify may be nil.
type Options struct {
	Store   Store
	Secrets Secrets
	Opener  Opener
	Sender  Sender
	// Keys make the asymmetric signatures.
	Keys   *signing.KeySet
	Tokens Tokens
	// Timeout bounds an attempt that needs a token, from the request for it to the last byte of the response.
	Timeout time.Duration
	Replica Replica
	Policy  delivery.Policy
	Breaker *breaker.Breaker
	Rates   *rate.Limiter
	Limits  Limits
	// Lease is how long a row stays leased to this replica.
	Lease time.Duration
	// Notify informs the other replicas that work is waiting; it must not block.
	Notify func()
	Log    *slog.Logger
	Meter  metric.Meter
	Tracer trace.Tracer
	Now    func() time.Time
}

// Engine is the dispatcher of one replica.
type Engine struct {
	o        Options
	inflight *inflight
	jobs     chan delivery.Job
	settle   *batch.Group[Result, bool]
	observe  *batch.Group[breaker.Observation, breaker.Move]
	wake     chan struct{}
	abandon  chan struct{}
	once     sync.Once
	meters   *meters
}

// New returns an Engine that sends once Run runs.
func New(o Options) (*Engine, error) {
	e := &Engine{
		o: o, inflight: newInflight(o.Limits), jobs: make(chan delivery.Job, o.Limits.Total),
		wake: make(chan struct{}, 1), abandon: make(chan struct{}),
	}
	e.settle = batch.NewGroup(batch.Options{Size: settleRows, Most: settleRows, Linger: e.linger}, e.flush)
	e.observe = batch.NewGroup(batch.Options{Size: settleRows, Most: settleRows}, func(ctx context.Context, seen []breaker.Observation) ([]breaker.Move, error) {
		return o.Breaker.Observe(ctx, seen), nil
	})
	var err error
	e.meters, err = newMeters(o.Meter, e.inflight)
	return e, err
}

// linger returns how long a result waits for others.
func (e *Engine) linger() time.Duration {
	if e.inflight.count() < lingerFrom {
		return 0
	}
	return settleLinger
}

// Run sends until ctx ends. Deliveries in flight at that moment are abandoned; call Drain before to finish them.
func (e *Engine) Run(ctx context.Context) error {
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-e.abandon:
			cancel(errAbandoned)
		case <-ctx.Done():
		}
	})
	group.Go(func() { _ = e.settle.Run(ctx, 1) })
	group.Go(func() { _ = e.observe.Run(ctx, 1) })
	group.Go(func() { e.claimLoop(ctx) })
	group.Go(func() {
		idle := make(chan delivery.Job)
		for {
			select {
			case <-ctx.Done():
				return
			case job := <-e.jobs: // It has a slot; slots bound the number of workers.
				select {
				case idle <- job:
				default:
					group.Go(func() { e.work(ctx, sending, job, idle) })
				}
			}
		}
	})
	group.Wait()
	return nil
}

// idleTime is how long a worker waits for its next job.
const idleTime = time.Second

// work handles a job, and further ones that arrive while it is idle. A new goroutine would have to grow its stack for
// each request again.
func (e *Engine) work(ctx, sending context.Context, job delivery.Job, idle <-chan delivery.Job) {
	idleTimer := time.NewTimer(idleTime)
	defer idleTimer.Stop()
	for {
		err := lifecycle.Protect(ctx, "webhook delivery", func() error {
			e.handle(ctx, sending, job)
			return nil
		})
		if err != nil { // The lease expires.
			e.o.Log.ErrorContext(ctx, "a delivery panicked", slog.String("delivery_id", job.ID.String()), slog.String("error", err.Error()))
		}
		idleTimer.Reset(idleTime)
		select {
		case <-ctx.Done():
			return
		case <-idleTimer.C:
			return
		case job = <-idle:
		}
	}
}

// Lease implements delivery.Dispatcher.
func (e *Engine) Lease() delivery.Lease {
	return delivery.Lease{Replica: e.o.Replica.ID(), Duration: e.o.Lease, Reserve: e.inflight.takeFresh}
}

// Send implements delivery.Dispatcher. The channel does not block: it has room for every slot.
func (e *Engine) Send(job delivery.Job) { e.jobs <- job }

// Return implements delivery.Dispatcher.
func (e *Engine) Return(flow delivery.Flow, bytes int) { e.wakeIf(e.inflight.give(flow, 1, bytes)) }

// Waiting implements delivery.Dispatcher. New deliveries are not queued behind those that wait: under load some
// always wait, and then all would.
func (e *Engine) Waiting() {
	e.Wake()
	if e.o.Notify != nil {
		e.o.Notify()
	}
}

// Wake makes the engine claim now.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// wakeIf wakes the engine when deliveries may be waiting for the released slots.
func (e *Engine) wakeIf(waiting bool) {
	if waiting {
		e.Wake()
	}
}

// drainReserve is the part of the grace period that is kept for giving leases back.
const drainReserve = 2 * time.Second

// Drain stops taking work and waits for the deliveries in flight. Shortly before ctx ends, the rest is abandoned
// without using up an attempt. All leases are given back, so that another replica continues at once.
func (e *Engine) Drain(ctx context.Context) error {
	empty := e.inflight.close()
	finishing := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		finishing, cancel = context.WithDeadline(ctx, deadline.Add(-drainReserve))
		defer cancel()
	}
	select {
	case <-empty:
	case <-finishing.Done():
		e.o.Log.WarnContext(ctx, "deliveries in flight are given back", slog.Int("count", e.inflight.count()))
		e.once.Do(func() { close(e.abandon) })
	}
	return e.o.Replica.Leave(context.WithoutCancel(ctx))
}

// random returns a number that spreads retries; tests of the decision pass their own.
func random() float64 { return rand.Float64() } //nolint:gosec // spreads load, guards nothing
