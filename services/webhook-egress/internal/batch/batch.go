// Package batch gathers concurrent calls into shared ones, as a database's
// group commit does: while one flush runs, the next fills. A call that comes
// alone doesn't wait for others. The enqueue path and the settling of results use it.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"switchyard.dev/services/platform/lifecycle"
)

// ErrStopped is the answer of a group whose flushers have all ended.
var ErrStopped = errors.New("batch: stopped")

// Group runs items of many callers through one flush.
type Group[T, R any] struct {
	calls   chan call[T, R]
	max     int
	flush   func(ctx context.Context, items []T) ([]R, error)
	stopped chan struct{}
}

type call[T, R any] struct {
	item   T
	answer chan answer[R]
}

type answer[R any] struct {
	result R
	err    error
}

// New makes a group that flushes at most most items at a time. The flush gives
// one result per item in their order, or one error for all of them; its panic is
// an error that is panics.Err (package platform/panics).
func New[T, R any](most int, flush func(context.Context, []T) ([]R, error)) *Group[T, R] {
	return &Group[T, R]{
		calls: make(chan call[T, R], most), max: most, flush: flush, stopped: make(chan struct{}),
	}
}

// Do hands an item in and waits for its result. When ctx ends first, the item
// may be flushed all the same.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	c := call[T, R]{item, make(chan answer[R], 1)}
	var zero R
	select {
	case g.calls <- c:
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-g.stopped:
		return zero, ErrStopped
	}
	select {
	case a := <-c.answer:
		return a.result, a.err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-g.stopped:
	}
	select { // A flush that ended with the group still counts.
	case a := <-c.answer:
		return a.result, a.err
	default:
		return zero, ErrStopped
	}
}

// Run flushes until ctx ends, with n flushers side by side. A flush under way
// is finished. Call it once.
func (g *Group[T, R]) Run(ctx context.Context, n int) error {
	var flushers sync.WaitGroup
	for range n {
		flushers.Go(func() { g.work(ctx) })
	}
	flushers.Wait()
	close(g.stopped)
	return nil
}

func (g *Group[T, R]) work(ctx context.Context) {
	for {
		select {
		case first := <-g.calls:
			g.flushCalls(context.WithoutCancel(ctx), g.gather(first))
		case <-ctx.Done():
			return
		}
	}
}

// gather takes what has come in meanwhile, and waits for nothing.
func (g *Group[T, R]) gather(first call[T, R]) []call[T, R] {
	calls := []call[T, R]{first}
	for len(calls) < g.max {
		select {
		case c := <-g.calls:
			calls = append(calls, c)
		default:
			return calls
		}
	}
	return calls
}

func (g *Group[T, R]) flushCalls(ctx context.Context, calls []call[T, R]) {
	items := make([]T, len(calls))
	for i, c := range calls {
		items[i] = c.item
	}
	var results []R
	err := lifecycle.Protect(ctx, "batch", func() (err error) {
		if results, err = g.flush(ctx, items); err == nil && len(results) != len(items) {
			err = fmt.Errorf("batch: %d results of %d items", len(results), len(items))
		}
		return err
	})
	for i, c := range calls {
		a := answer[R]{err: err}
		if err == nil {
			a.result = results[i]
		}
		c.answer <- a
	}
}
