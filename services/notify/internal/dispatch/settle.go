package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
)

// startSettling writes results as they come. The function it returns writes those that are left, and ends it.
func (e *Engine) startSettling(ctx context.Context) (end func() error) {
	running, stop := context.WithCancel(ctx)
	var settler sync.WaitGroup
	settler.Go(func() { _ = e.results.Run(running) })
	return func() error {
		stop()
		settler.Wait()
		return e.results.Drain(ctx)
	}
}

// settle writes a batch of results. A slot is free again once its result is written.
func (e *Engine) settle(ctx context.Context, batch []Result) {
	e.conclude(context.WithoutCancel(ctx), batch)
	for range batch {
		<-e.slots
	}
}

// conclude stores a batch, and retries while the store is unavailable. If a lease has expired meanwhile, the fence
// rejects the result.
func (e *Engine) conclude(ctx context.Context, batch []Result) {
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		err := e.flush(ctx, batch)
		switch {
		case err == nil:
			return
		case unsettleable(err) && len(batch) > 1:
			for i := range batch {
				e.conclude(ctx, batch[i:i+1])
			}
			return
		case unsettleable(err) && batch[0].bare():
			// The attempt has to count, or the recipient would be tried until its deadline.
			continue
		case unsettleable(err):
			e.o.Log.ErrorContext(ctx, "a result cannot be stored; its recipient is retried when the lease has expired",
				slog.String("notification_id", batch[0].Leased.Notification.String()), slog.String("error", err.Error()))
			return
		}
		e.o.Log.WarnContext(ctx, "settle failed", slog.String("channel", string(e.o.Channel)),
			slog.Int("results", len(batch)), slog.String("error", err.Error()))
		select {
		case <-e.abandon: // The store did not recover in time: the leases expire.
			return
		case <-time.After(pause):
		}
	}
}

// unsettleable reports whether storing the same results again would fail again.
func unsettleable(err error) bool {
	return errors.Is(err, ErrRejected) || errors.Is(err, panics.Err)
}

// bare removes the receiver's data from a result, and reports whether there was any.
func (r *Result) bare() (changed bool) {
	r.Tries = slices.Clone(r.Tries)
	for i := range r.Tries {
		o := &r.Tries[i].Outcome
		changed = changed || o.Detail != "" || o.Status != 0
		o.Detail, o.Status = "", 0
	}
	return changed
}

func (e *Engine) flush(ctx context.Context, batch []Result) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var held []bool
	err := lifecycle.Protect(ctx, "notify settle", func() (err error) {
		held, err = e.o.Store.Settle(ctx, e.o.Channel, batch)
		return err
	})
	if err != nil {
		return err
	}
	for i := range batch {
		e.meters.settled(ctx, &batch[i], held[i])
	}
	return nil
}
