package delivery_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// transaction is a store's transaction: when it began and how many drafts it stored.
type transaction struct {
	Began time.Duration
	Size  int
}

// slow is a store whose transactions take a while.
type slow struct {
	memory

	began time.Time
	made  []transaction
}

const commitTime = 5 * time.Millisecond

func (s *slow) Enqueue(ctx context.Context, drafts []*delivery.Draft, lease delivery.Lease) ([]delivery.Stored, error) {
	s.mu.Lock()
	s.made = append(s.made, transaction{time.Since(s.began), len(drafts)})
	s.mu.Unlock()
	time.Sleep(commitTime)
	return s.memory.Enqueue(ctx, drafts, lease)
}

// Single drafts are stored at once. After a transaction of many, drafts wait a moment for others.
func TestDraftsShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{began: time.Now()}
		s := newService(t, &store.memory, func(o *delivery.Options) { o.Store = store })
		var callers sync.WaitGroup
		defer callers.Wait()
		enqueue := func(n int) {
			for range n {
				callers.Go(func() {
					if _, err := s.Enqueue(t.Context(), request()); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
		}
		const ms = time.Millisecond
		enqueue(10) // One for each flusher; the others wait until the first has ended.
		time.Sleep(2 * commitTime)
		enqueue(1)
		time.Sleep(ms / 2)
		enqueue(1)
		time.Sleep(2 * commitTime)
		enqueue(1)
		callers.Wait()
		want := []transaction{{0, 1}, {0, 1}, {5 * ms, 8}, {11 * ms, 2}, {20*ms + ms/2, 1}}
		if diff := cmp.Diff(want, store.made); diff != "" {
			t.Errorf("transactions (-want +got):\n%s", diff)
		}
	})
}
