// Package batch gathers the items of many goroutines into batches, so that one transaction or one call of a server
// handles them together. A Queue is for items whose senders wait for no result; a Group returns a result to each
// caller. Both are bounded. A batch ends when it is full or when its waiting time is over. Without a waiting time, a
// batch is what arrived while the previous one was flushed, as in a database's group commit, and a single item is
// flushed at once.
package batch

import (
	"context"
	"fmt"
	"time"
)

// Options of a Queue or a Group.
type Options struct {
	// Size is how many items may wait.
	Size int
	// Most is the maximum number of items in a batch.
	Most int
	// Linger returns how long a batch that has its first item waits for further ones. The wait ends early once Most
	// further items have arrived. Nil and zero mean no wait. It is called for each batch.
	Linger func() time.Duration
}

// Queue collects items and flushes them in batches, in the order in which they arrived. It is safe for concurrent use.
// Run it as a part of the service, and call Drain when Run has ended:
//
//	runner.Go("name", queue.Run)
//	runner.OnClose("name", queue.Drain)
//	runner.Go("name", queue.Run)
//	runner.OnClose("name", queue.Drain)
type Queue[T any] struct {
	o     Options
	flush func(ctx context.Context, items []T)
	items chan T
	hurry chan struct{} // ends the waiting time of a batch
	// gathering holds a token while a batch is gathered: of several Runs only one waits for further items, or they would
	// share these.
	gathering chan struct{}
}

// NewQueue returns a Queue that flushes nothing until Run. Calls of flush don't overlap, unless Run is called more than
// once. flush must not keep items, because the next batch reuses the slice.
func NewQueue[T any](o Options, flush func(ctx context.Context, items []T)) *Queue[T] {
	return &Queue[T]{o: o, flush: flush, items: make(chan T, o.Size), hurry: make(chan struct{}, 1), gathering: make(chan struct{}, 1)}
}

// Offer adds an item and reports whether there was room for it. It doesn't block.
func (q *Queue[T]) Offer(item T) bool {
	select {
	case q.items <- item:
	default:
		return false
	}
	q.hurryIfFull()
	return true
}

// Put adds an item. It blocks until there is room for it.
func (q *Queue[T]) Put(item T) {
	q.items <- item
	q.hurryIfFull()
}

// Hurry ends the wait of a batch that waits for further items, so that it is flushed now.
func (q *Queue[T]) Hurry() {
	select {
	case q.hurry <- struct{}{}:
	default:
	}
}

// hurryIfFull ends the wait of a batch once the queue holds Most items besides the first item of the batch. If no batch
// waits at that moment, the next one may be flushed early.
func (q *Queue[T]) hurryIfFull() {
	if q.o.Linger != nil && len(q.items) >= q.o.Most {
		q.Hurry()
	}
}

// Run flushes batches until ctx ends. Drain flushes the items that remain.
func (q *Queue[T]) Run(ctx context.Context) error {
	var room []T
	for {
		batch, ok := q.next(ctx, room)
		if !ok {
			return nil
		}
		q.flush(ctx, batch)
		clear(batch)
		room = batch
	}
}

// Drain flushes the remaining items. It returns an error if ctx ends first. Call it when Run has ended.
func (q *Queue[T]) Drain(ctx context.Context) error {
	for {
		select {
		case first := <-q.items:
			q.flush(ctx, q.gather([]T{first}))
		default:
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("batch: drain: %w", context.Cause(ctx))
		}
	}
}

// next waits for a batch and appends it to room, the slice of an earlier one. It reports false when ctx has ended.
func (q *Queue[T]) next(ctx context.Context, room []T) (batch []T, ok bool) {
	select {
	case q.gathering <- struct{}{}:
		defer func() { <-q.gathering }()
	case <-ctx.Done():
		return nil, false
	}
	select {
	case first := <-q.items:
		q.linger(ctx)
		return q.gather(append(room[:0], first)), true
	case <-ctx.Done():
		return nil, false
	}
}

// linger waits for further items, until there are enough for a batch or the waiting time is over.
func (q *Queue[T]) linger(ctx context.Context) {
	if q.o.Linger == nil {
		return
	}
	wait := q.o.Linger()
	if wait <= 0 || len(q.items)+1 >= q.o.Most {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.hurry:
	case <-ctx.Done():
	}
}

// gather appends waiting items to a batch without blocking.
func (q *Queue[T]) gather(batch []T) []T {
	for len(batch) < q.o.Most {
		select {
		case item := <-q.items:
			batch = append(batch, item)
		default:
			return batch
		}
	}
	return batch
}
