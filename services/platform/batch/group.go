package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"switchyard.dev/services/platform/lifecycle"
)

// ErrStopped is returned to callers of a Group whose flushers have all ended.
var ErrStopped = errors.New("batch: stopped")

// Group flushes the items of many callers together and gives each caller the result of its own. It is safe for
// concurrent use.
type Group[T, R any] struct {
	queue   *Queue[call[T, R]]
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

// NewGroup returns a Group that flushes nothing until Run. flush returns one result per item, in their order, or one
// error for all. A panic in flush becomes an error that wraps panics.Err (package platform/panics).
func NewGroup[T, R any](o Options, flush func(context.Context, []T) ([]R, error)) *Group[T, R] {
	g := &Group[T, R]{flush: flush, stopped: make(chan struct{})}
	g.queue = NewQueue(o, g.flushCalls)
	return g
}

// Do submits an item and waits for its result. When ctx ends first, the item may still be flushed.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	p, err := g.Submit(ctx, item)
	if err != nil {
		var zero R
		return zero, err
	}
	return p.Wait(ctx)
}

// Pending is an item that was submitted.
type Pending[R any] struct {
	answer  <-chan answer[R]
	stopped <-chan struct{}
}

// Submit submits an item as soon as there is room for it. It does not wait for the result.
func (g *Group[T, R]) Submit(ctx context.Context, item T) (Pending[R], error) {
	c := call[T, R]{item, make(chan answer[R], 1)}
	select {
	case g.queue.items <- c:
		g.queue.hurryIfFull()
		return Pending[R]{c.answer, g.stopped}, nil
	case <-ctx.Done():
		return Pending[R]{}, context.Cause(ctx)
	case <-g.stopped:
		return Pending[R]{}, ErrStopped
	}
}

// Wait returns the result of the item. It must be called once only. When ctx ends first, the item may still be flushed.
func (p Pending[R]) Wait(ctx context.Context) (R, error) {
	var zero R
	select {
	case a := <-p.answer:
		return a.result, a.err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-p.stopped:
	}
	select { // The result of a flush that finished just before the stop still counts.
	case a := <-p.answer:
		return a.result, a.err
	default:
		return zero, ErrStopped
	}
}

// Run flushes until ctx ends, with n concurrent flushers. A flush in progress is finished, and callers whose items still
// wait get ErrStopped. Run must be called once only.
func (g *Group[T, R]) Run(ctx context.Context, n int) error {
	var flushers sync.WaitGroup
	for range n {
		flushers.Go(func() { _ = g.queue.Run(ctx) })
	}
	flushers.Wait()
	close(g.stopped)
	return nil
}

func (g *Group[T, R]) flushCalls(ctx context.Context, calls []call[T, R]) {
	ctx = context.WithoutCancel(ctx)
	items := make([]T, len(calls))
	for i, c := range calls {
		items[i] = c.item
	}
	var results []R
	err := lifecycle.Protect(ctx, "batch", func() (err error) {
		if results, err = g.flush(ctx, items); err == nil && len(results) != len(items) {
			err = fmt.Errorf("batch: flush returned %d results for %d items", len(results), len(items))
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
