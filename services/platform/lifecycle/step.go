package lifecycle

import (
	"context"
	"fmt"
	"time"
)

const (
	// minStep is the time a step gets when earlier steps have used up the grace.
	minStep = time.Second
	// linger is how long a step may take to return once its context has ended, for example to force what it could not
	// finish.
	linger = time.Second
	// closeGrace bounds all close steps together.
	closeGrace = 5 * time.Second
)

// steps runs the tasks one after the other. A task runs even if an earlier one failed.
func (r *Runner) steps(ctx context.Context, phase string, tasks []task, deadline time.Time) []error {
	var errs []error
	for _, t := range tasks {
		start := time.Now()
		err := step(ctx, t, max(deadline.Sub(start), minStep))
		r.log.InfoContext(ctx, "stopping", "phase", phase, "step", t.name, "took", time.Since(start).String(), "ok", err == nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", phase, t.name, err))
		}
	}
	return errs
}

// step runs a task for at most d. Exceeding d is an error, even if the task returns nil.
func step(ctx context.Context, t task, d time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, overrun(d))
	defer cancel()
	err := bounded(ctx, t, linger)
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// bounded runs a task until it returns, at most until spare after the end of ctx. Then the task is abandoned and the
// error is the cause of ctx.
func bounded(ctx context.Context, t task, spare time.Duration) error {
	returned := make(chan error, 1)
	go func() { returned <- t.call(ctx) }()
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-returned:
		return err
	case <-time.After(spare):
		return context.Cause(ctx)
	}
}

// overrun is the cause of a context that ended after d.
func overrun(d time.Duration) error {
	return fmt.Errorf("not finished within %v: %w", d, context.DeadlineExceeded)
}
