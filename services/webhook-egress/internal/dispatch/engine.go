// Package dispatch sends deliveries. A new one comes leased from the enqueue
// that stored it and is sent from memory; what waits in the store (retries,
// overflow, what a dead replica left) is claimed flow by flow. No database
// connection is held while a request is under way, and results are settled in
// batches, each under the fence of its lease.
//
//	enqueue --Send--> jobs --> worker: sign, send, decide --> settle
//	                   ^                                        |
//	        claim <----+------------- due rows <----------------+
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
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/rate"
)

// LeaseMargin is what a lease is longer than the longest request: reading the
// job, waiting for a settle. An attempt that outlives its lease could be made
// twice at the same time.
const LeaseMargin = 5 * time.Second

// settleRows is how many results share a transaction at most.
const settleRows = 256

// Store claims and settles. Its errors are temporary, and the engine tries
// again, but for delivery.ErrRejected.
type Store interface {
	// Claim leases due rows: it asks Grant about the flows that are ready, and
	// takes at most as many rows of each.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Settle records results. It gives, for each, whether its lease still held;
	// where it did not, only the attempt is recorded, as late.
	Settle(ctx context.Context, results []Result) (held []bool, err error)
}

// Claim asks for work.
type Claim struct {
	Replica int64
	Lease   time.Duration
	// Flows is how many flows are looked at, at most.
	Flows int
	// FullFlows and FullOrganizations are passed over.
	FullFlows         []int64
	FullOrganizations []string
	// Bytes is how much the bodies of all rows together may have.
	Bytes int
	// Grant decides on the flows that were picked, in their order. It is called
	// once, within the transaction.
	Grant func(ctx context.Context, picked []Picked) []Grant
}

// Picked is a flow that a claim looks at.
type Picked struct {
	Flow   delivery.Flow
	Target breaker.Target
	// Held flows wait for something of ours: one row tries whether it is there.
	Held bool
	// Breaker is what the store knows of the target's.
	Breaker breaker.State
	// Rate is how many deliveries may begin per second; zero for no limit.
	Rate float64
}

// Grant is how many rows to take of a flow. Without rows or a wait, the flow
// keeps its place.
type Grant struct {
	Rows int
	// Wait is until the flow is to be looked at again, at least.
	Wait time.Duration
	// Park says why the flow is parked for the wait.
	Park delivery.Fault
	// Admitted: the breaker counts the rows.
	Admitted bool
}

// Claimed is the work that was leased.
type Claimed struct {
	Jobs []delivery.Job
	// Flows were looked at; Drained are those of them without further due rows.
	Flows   int
	Drained []int64
	// Gone are rows without a delivery. They were taken away.
	Gone []delivery.ID
	// Next is when a flow will be ready, counted from now; negative for none planned.
	Next time.Duration
}

// Result is what became of a leased job.
type Result struct {
	Job  delivery.Job
	Step delivery.Step
	// Attempt is nil when no request was made.
	Attempt *delivery.Attempt
	// Move is what it changed for the target. It holds whether or not the lease does.
	Move breaker.Move
}

// Secrets finds the signing secrets of an organization, current first.
type Secrets interface {
	Of(ctx context.Context, organization string) []secret.Value
}

// Opener decrypts what delivery.Sealer encrypted.
type Opener interface {
	Open(sealed []byte, owner string) ([]byte, error)
}

// Sender makes one request. It never follows a redirect.
type Sender interface {
	Send(ctx context.Context, url string, header map[string]string, body []byte) Reply
}

// Replica is this process among its peers.
type Replica interface {
	// ID leases rows; it changes when the replica had been given up by others.
	ID() int64
	// Leave gives back all that is leased to this replica.
	Leave(ctx context.Context) error
}

// Options of an Engine. Opener and Notify may be nil.
type Options struct {
	Store   Store
	Secrets Secrets
	Opener  Opener
	Sender  Sender
	Replica Replica
	Policy  delivery.Policy
	Breaker *breaker.Breaker
	Rates   *rate.Limiter
	Limits  Limits
	// Lease is how long a row is ours without a sign of life.
	Lease time.Duration
	// Notify tells other replicas that work waits; it must not block.
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

// New returns an engine that does nothing until it runs.
func New(o Options) (*Engine, error) {
	e := &Engine{
		o: o, inflight: newInflight(o.Limits), jobs: make(chan delivery.Job, o.Limits.Total),
		wake: make(chan struct{}, 1), abandon: make(chan struct{}),
	}
	e.settle = batch.NewGroup(batch.Options{Size: settleRows, Most: settleRows}, e.flush)
	e.observe = batch.NewGroup(batch.Options{Size: settleRows, Most: settleRows}, func(ctx context.Context, seen []breaker.Observation) ([]breaker.Move, error) {
		return o.Breaker.Observe(ctx, seen), nil
	})
	var err error
	e.meters, err = newMeters(o.Meter, e.inflight)
	return e, err
}

// Run sends until ctx ends. What is in flight then is abandoned; Drain before
// to finish it.
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
			case job := <-e.jobs: // with a slot, which bounds how many workers there are
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

// work handles a job, and then those that come while it is idle: a new goroutine
// would first have to grow its stack again to what a request takes.
func (e *Engine) work(ctx, sending context.Context, job delivery.Job, idle <-chan delivery.Job) {
	patience := time.NewTimer(idleTime)
	defer patience.Stop()
	for {
		err := lifecycle.Protect(ctx, "webhook delivery", func() error {
			e.handle(ctx, sending, job)
			return nil
		})
		if err != nil { // The lease runs out.
			e.o.Log.ErrorContext(ctx, "a delivery panicked", slog.String("delivery_id", job.ID.String()), slog.String("error", err.Error()))
		}
		patience.Reset(idleTime)
		select {
		case <-ctx.Done():
			return
		case <-patience.C:
			return
		case job = <-idle:
		}
	}
}

// Lease implements delivery.Dispatcher.
func (e *Engine) Lease() delivery.Lease {
	return delivery.Lease{Replica: e.o.Replica.ID(), Duration: e.o.Lease, Reserve: e.inflight.takeFresh}
}

// Send implements delivery.Dispatcher: the job has a slot, so there is room in
// the channel.
func (e *Engine) Send(job delivery.Job) { e.jobs <- job }

// Return implements delivery.Dispatcher.
func (e *Engine) Return(flow delivery.Flow, bytes int) { e.wakeIf(e.inflight.give(flow, 1, bytes)) }

// Waiting implements delivery.Dispatcher. It doesn't hold back what comes after:
// while much comes in, some of it always waits, and all would.
func (e *Engine) Waiting() {
	e.Wake()
	if e.o.Notify != nil {
		e.o.Notify()
	}
}

// Wake makes the engine look for work now.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// wakeIf wakes the engine when deliveries may be waiting for what was given back.
func (e *Engine) wakeIf(waiting bool) {
	if waiting {
		e.Wake()
	}
}

// drainReserve is what of the grace is kept for giving leases back.
const drainReserve = 2 * time.Second

// Drain stops taking work and lets what is in flight finish. When ctx is about
// to end, the rest is abandoned without costing an attempt. All leases are
// given back, so that another replica goes on at once.
func (e *Engine) Drain(ctx context.Context) error {
	empty := e.inflight.close()
	patience := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		patience, cancel = context.WithDeadline(ctx, deadline.Add(-drainReserve))
		defer cancel()
	}
	select {
	case <-empty:
	case <-patience.Done():
		e.o.Log.WarnContext(ctx, "deliveries in flight are given back", slog.Int("count", e.inflight.count()))
		e.once.Do(func() { close(e.abandon) })
	}
	return e.o.Replica.Leave(context.WithoutCancel(ctx))
}

// random spreads retries; tests of the decision pass their own number.
func random() float64 { return rand.Float64() } //nolint:gosec // spreads load, guards nothing
