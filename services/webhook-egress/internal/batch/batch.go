// Package batch combines concurrent calls into shared ones, like a database's group commit: while one flush runs, the
// next one fills. A single call does not wait for others. The enqueue path and the settling of results use it.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"switchyard.dev/services/platform/lifecycle"
)

// ErrStopped is returned by Do once all flushers of the group have ended.
var ErrStopped = errors.New("batch: stopped")

// Group combines the items of concurrent callers into one flush.
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

// New returns a Group that flushes at most most items at a time. flush returns one result per item, in their order,
// or one error for all. A panic in flush becomes an error that wraps panics.Err (package platform/panics).
func New[T, R any](most int, flush func(context.Context, []T) ([]R, error)) *Group[T, R] {
	return &Group[T, R]{
		calls: make(chan call[T, R], most), max: most, flush: flush, stopped: make(chan struct{}),
	}
}

// Do submits an item and waits for its result. When ctx ends first, the item may still be flushed.
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
	select { // The result of a flush that finished just before the stop still counts.
	case a := <-c.answer:
		return a.result, a.err
	default:
		return zero, ErrStopped
	}
}

// Run flushes until ctx ends, with n concurrent flushers. A flush in progress is finished. Run must be called once
// only.
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

// gather adds the calls that are already waiting to the first; it does not wait for more.
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
