// Package batch gathers the items of many goroutines into batches, so that one transaction or one call of a server
// serves them all. A Queue takes items whose givers wait for no answer, a Group answers each of its callers. Both are
// bounded. A batch ends when it is full or when its time is up; without such a time it is what came in while the batch
// before was flushed, as with a database's group commit, and an item that comes alone waits for no other.
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
	// Most is how many items a batch has at most.
	Most int
	// Linger returns how long a batch that has its first item waits for further ones. It waits no longer once Most further
	// ones are there. Nil and zero wait for none. It is asked for each batch.
	Linger func() time.Duration
}

// Queue takes items and flushes them in batches, in the order in which they came. It is safe for concurrent use.
// Run it as a part of the service, and Drain it when Run has ended:
//
//	runner.Go("name", queue.Run)
//	runner.OnClose("name", queue.Drain)
type Queue[T any] struct {
	o     Options
	flush func(ctx context.Context, items []T)
	items chan T
	hurry chan struct{} // ends the time that a batch waits
}

// NewQueue returns a Queue that flushes nothing until Run. Calls of flush don't overlap, unless Run is called more than
// once. flush must not keep items, whose room the next batch uses.
func NewQueue[T any](o Options, flush func(ctx context.Context, items []T)) *Queue[T] {
	return &Queue[T]{o: o, flush: flush, items: make(chan T, o.Size), hurry: make(chan struct{}, 1)}
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

// Put adds an item as soon as there is room for it.
func (q *Queue[T]) Put(item T) {
	q.items <- item
	q.hurryIfFull()
}

// Hurry has a batch flushed that waits for further items.
func (q *Queue[T]) Hurry() {
	select {
	case q.hurry <- struct{}{}:
	default:
	}
}

// hurryIfFull ends the wait of a batch once the queue holds as many items as a batch has at most, besides the first item
// of the batch. When no batch waits at that moment, the next one may be flushed early.
func (q *Queue[T]) hurryIfFull() {
	if q.o.Linger != nil && len(q.items) >= q.o.Most {
		q.Hurry()
	}
}

// Run flushes batches until ctx ends. What waits then is left to Drain.
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

// Drain flushes what waits, until nothing does or ctx ends, which is an error. Call it when Run has ended.
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

// next waits for a batch, which takes the room of an earlier one. It reports false when ctx has ended.
func (q *Queue[T]) next(ctx context.Context, room []T) (batch []T, ok bool) {
	select {
	case first := <-q.items:
		q.linger(ctx)
		return q.gather(append(room[:0], first)), true
	case <-ctx.Done():
		return nil, false
	}
}

// linger waits for further items, until there are enough for a batch or the time is up.
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

// gather adds to a batch what waits, and waits for nothing.
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
