// Package lifecycle runs the parts of one service and stops them in a defined order. Each service's app package
// registers its parts on a Runner, then calls Run once:
//
//	ctx is done, or a part fails
//	-> readiness off, DrainDelay passes (load balancers stop sending traffic)
//	-> OnDrain steps, in order of registration, within Grace
//	-> the contexts of the parts end, the parts return
//	-> OnClose steps, in reverse order of registration
//	ctx done, or a part fails
//	-> readiness off, DrainDelay passes (load balancers look elsewhere)
//	-> OnDrain steps, in order of registration, within Grace
//	-> the contexts of the parts end, the parts return
//	-> OnClose steps, in reverse order of registration
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/panics"
)

// ErrDraining is the readiness error of a service that is stopping.
var ErrDraining = errors.New("draining")

// Options are the durations of the drain.
type Options struct {
	// DrainDelay passes between readiness off and the first drain step.
	DrainDelay time.Duration
	// Grace bounds all drain steps together. Each step gets at least one second, even if the grace is used up.
	Grace time.Duration
}

// Runner holds the parts of a service. Register everything before Run, from one goroutine; Ready and Draining are safe
// for concurrent use.
type Runner struct {
	log      *slog.Logger
	opts     Options
	draining atomic.Bool
	parts    []task
	drains   []task
	closes   []task
	checks   []task
}

// task is a named function: a part, step or check.
type task struct {
	name string
	run  func(context.Context) error
}

// call runs the task and returns its panic as an error.
func (t task) call(ctx context.Context) (err error) {
	defer panics.Recover(&err)
	return t.run(ctx)
}

// New returns a Runner without parts. log receives the phases of the drain.
func New(log *slog.Logger, opts Options) *Runner {
	r := &Runner{log: log, opts: opts}
	r.Check("lifecycle", func(context.Context) error {
		if r.draining.Load() {
			return ErrDraining
		}
		return nil
	})
	return r
}

// Go registers a background part, which Run starts. The part's context ends when the drain steps are done; the part
// must then return soon, and may return the context's error or cause. A part that returns another error, or panics,
// stops the service in order: requests in progress are finished first. A part that returns nil has finished its work
// and stops nothing.
func (r *Runner) Go(name string, run func(context.Context) error) {
	r.parts = append(r.parts, task{name, run})
}

// OnDrain registers a step that stops accepting work or finishes work in progress. A step that runs longer than its
// context is reported as an error. If it does not return within another second, it is abandoned.
func (r *Runner) OnDrain(name string, step func(context.Context) error) {
	r.drains = append(r.drains, task{name, step})
}

// OnClose registers a step that frees what parts and drain steps use, such as a pool. Like deferred calls, steps run in
// reverse order: register each after those it depends on. All close steps together have five seconds, with the same
// rules as drain steps.
func (r *Runner) OnClose(name string, step func(context.Context) error) {
	r.closes = append(r.closes, task{name, step})
}

// Draining reports whether the service has begun to stop. From then on a listener should close connections that its
// callers would use again.
func (r *Runner) Draining() bool { return r.draining.Load() }

// Run starts the parts and blocks until ctx is done or a part fails, then drains. The error joins those of all parts
// and steps. It is nil if ctx ended and every part and step succeeded.
func (r *Runner) Run(ctx context.Context) error {
	base := context.WithoutCancel(ctx)
	running := r.start(base)
	reason := running.wait(ctx)

	r.draining.Store(true)
	r.log.InfoContext(base, "draining", "reason", reason.Error(), "delay", r.opts.DrainDelay.String())
	<-time.After(r.opts.DrainDelay)

	deadline := time.Now().Add(r.opts.Grace)
	drained := r.steps(base, "drain", r.drains, deadline)

	stopped := running.stop(reason, deadline)

	slices.Reverse(r.closes)
	closed := r.steps(base, "close", r.closes, time.Now().Add(closeGrace))
	return errors.Join(slices.Concat(stopped, drained, closed)...)
}
