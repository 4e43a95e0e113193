package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// minSettleRetry and maxSettleRetry bound the delay between tries to settle while the database is unavailable.
const minSettleRetry, maxSettleRetry = 50 * time.Millisecond, 2 * time.Second

// conclude settles a result and retries until that succeeds. If the lease has expired meanwhile, the fence rejects
// the result.
func (e *Engine) conclude(ctx context.Context, result Result) {
	for pause := minSettleRetry; ; pause = min(2*pause, maxSettleRetry) {
		held, err := e.settle.Do(ctx, result)
		if err == nil {
			e.meters.settled(ctx, result, held)
			if result.Job.OrderingKey != "" && result.Step.Status.Ended() {
				e.Wake() // The next delivery with the key is due.
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-e.abandon:
			return
		case <-time.After(pause):
		}
	}
}

// flush settles a batch. A batch that the store rejects, or that makes it panic, is settled result by result, so that
// only the faulty one is affected.
func (e *Engine) flush(ctx context.Context, results []Result) ([]bool, error) {
	held, err := e.flushAll(ctx, results)
	if !unsettleable(err) {
		return held, err
	}
	held = make([]bool, len(results))
	for i := range results {
		if held[i], err = e.flushOne(ctx, results[i]); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// unsettleable reports whether settling the same results again would fail again.
func unsettleable(err error) bool {
	return errors.Is(err, delivery.ErrRejected) || errors.Is(err, panics.Err)
}

// flushOne settles one result, if necessary without the data from the receiver and the breaker: the attempt has to
// count, or the delivery would be sent for ever. If even that cannot be stored, the lease expires.
func (e *Engine) flushOne(ctx context.Context, result Result) (bool, error) {
	for _, one := range []Result{result, bare(result)} {
		held, err := e.flushAll(ctx, []Result{one})
		switch {
		case err == nil:
			return held[0], nil
		case !unsettleable(err):
			return false, err
		}
	}
	e.o.Log.ErrorContext(ctx, "a result cannot be stored; the delivery is retried when its lease has expired",
		slog.String("delivery_id", result.Job.ID.String()), slog.String("organization", result.Job.Organization))
	return false, nil
}

// bare returns the result without data from outside.
func bare(r Result) Result {
	r.Own, r.Host = breaker.Move{}, breaker.Move{}
	if r.Attempt != nil {
		a := *r.Attempt
		a.ResponseBody, a.Truncated, a.RetryAfter, a.RemoteIP = "", true, "", ""
		r.Attempt = &a
	}
	return r
}

func (e *Engine) flushAll(ctx context.Context, results []Result) (held []bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	err = lifecycle.Protect(ctx, "webhook settle", func() (err error) {
		held, err = e.o.Store.Settle(ctx, results)
		return err
	})
	if err != nil {
		e.o.Log.WarnContext(ctx, "settle failed", slog.Int("results", len(results)), slog.String("error", err.Error()))
	}
	return held, err
}
