package batch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/batch"
)

// flushed is a flush of a Queue that takes a given time and records each batch's items and when the batch came.
type flushed struct {
	takes time.Duration
	began time.Time

	mu      sync.Mutex
	batches []flush
}

type flush struct {
	At    time.Duration
	Items []int
}

func newFlushed(takes time.Duration) *flushed { return &flushed{takes: takes, began: time.Now()} }

func (f *flushed) flush(_ context.Context, items []int) {
	f.mu.Lock()
	f.batches = append(f.batches, flush{time.Since(f.began), append([]int(nil), items...)})
	f.mu.Unlock()
	time.Sleep(f.takes)
}

func (f *flushed) want(t *testing.T, want ...flush) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.batches); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// run runs a queue until the function it returns is called.
func run(t *testing.T, q *batch.Queue[int]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return func() { cancel(); running.Wait() }
}

func after(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Without a time to wait, a batch is what came in during the flush before it, up to the maximum.
func TestQueueFlushesWhatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(time.Second)
		q := batch.NewQueue(batch.Options{Size: 10, Most: 3}, f.flush)
		stop := run(t, q)
		q.Put(1)
		synctest.Wait()
		for n := range 5 {
			q.Put(n + 2)
		}
		time.Sleep(3 * time.Second)
		q.Put(7)
		synctest.Wait()
		stop()
		f.want(t, flush{0, []int{1}}, flush{time.Second, []int{2, 3, 4}}, flush{2 * time.Second, []int{5, 6}}, flush{3 * time.Second, []int{7}})
	})
}

// With a time to wait, a batch ends by size, by age, or in a hurry.
func TestQueueLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(0)
		q := batch.NewQueue(batch.Options{Size: 10, Most: 3, Linger: after(time.Second)}, f.flush)
		stop := run(t, q)
		q.Put(1)
		time.Sleep(time.Second / 2)
		q.Put(2)
		time.Sleep(time.Second)
		for n := range 4 {
			q.Put(n + 3)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		q.Put(7)
		synctest.Wait()
		q.Hurry()
		synctest.Wait()
		stop()
		f.want(t,
			flush{time.Second, []int{1, 2}},
			flush{1500 * time.Millisecond, []int{3, 4, 5}},
			flush{2500 * time.Millisecond, []int{6}},
			flush{2500 * time.Millisecond, []int{7}},
		)
	})
}

// Of two Runs, one waits for further items; the other begins the next batch.
func TestOneRunLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(time.Second)
		q := batch.NewQueue(batch.Options{Size: 10, Most: 3, Linger: after(time.Second)}, f.flush)
		stop, stopSecond := run(t, q), run(t, q)
		q.Put(1)
		time.Sleep(time.Second / 2)
		q.Put(2)
		time.Sleep(time.Second / 2)
		synctest.Wait()
		q.Put(3)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		stopSecond()
		f.want(t, flush{time.Second, []int{1, 2}}, flush{2 * time.Second, []int{3}})
	})
}

// The time to wait is read for each batch.
func TestQueueLingersByTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(0)
		waits := []time.Duration{0, time.Second}
		q := batch.NewQueue(batch.Options{Size: 10, Most: 3, Linger: func() time.Duration {
			wait := waits[0]
			waits = waits[1:]
			return wait
		}}, f.flush)
		stop := run(t, q)
		q.Put(1)
		synctest.Wait()
		q.Put(2)
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		f.want(t, flush{0, []int{1}}, flush{time.Second, []int{2}})
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(time.Second)
		q := batch.NewQueue(batch.Options{Size: 2, Most: 2}, f.flush)
		var taken []bool
		for n := range 3 {
			taken = append(taken, q.Offer(n))
		}
		if diff := cmp.Diff([]bool{true, true, false}, taken); diff != "" {
			t.Errorf("offers taken (-want +got):\n%s", diff)
		}
		var putting sync.WaitGroup
		putting.Go(func() { q.Put(3) })
		stop := run(t, q)
		putting.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		f.want(t, flush{0, []int{0, 1}}, flush{time.Second, []int{3}})
	})
}

// Items that wait when Run has ended are flushed by Drain, in batches and without waiting.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(time.Second)
		q := batch.NewQueue(batch.Options{Size: 10, Most: 2, Linger: after(time.Minute)}, f.flush)
		stop := run(t, q)
		stop()
		for n := range 3 {
			q.Put(n)
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Errorf("Drain = %v", err)
		}
		f.want(t, flush{0, []int{0, 1}}, flush{time.Second, []int{2}})
		for n := range 5 {
			q.Put(n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := q.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain beyond its time = %v, want DeadlineExceeded", err)
		}
		f.want(t, flush{0, []int{0, 1}}, flush{time.Second, []int{2}}, flush{2 * time.Second, []int{0, 1}}, flush{3 * time.Second, []int{2, 3}})
	})
}

// A batch that waits for further items is flushed when Run is to end.
func TestRunEndsWhileABatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlushed(0)
		q := batch.NewQueue(batch.Options{Size: 10, Most: 2, Linger: after(time.Minute)}, f.flush)
		stop := run(t, q)
		q.Put(1)
		synctest.Wait()
		time.Sleep(time.Second)
		stop()
		f.want(t, flush{time.Second, []int{1}})
	})
}
