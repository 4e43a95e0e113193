package ledger

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

var modes = []Mode{ModeSynced, ModeCommitted, ModeAsync}

// A reader sees every row that was acknowledged before it began, in whatever way calls come: each is in the store, or
// is announced until it is.
func TestReadersSeeAcknowledgedRows(t *testing.T) {
	for seed := range uint64(4) {
		run(t, []Mode{ModeSynced, ModeCommitted}[seed%2], func(r running) {
			random := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex
			var acknowledged []uuid.UUID
			var calls, reads sync.WaitGroup
			for range 500 {
				calls.Go(func() {
					ids := r.commit(1)
					mu.Lock()
					defer mu.Unlock()
					acknowledged = append(acknowledged, ids...)
				})
				if random.IntN(10) == 0 {
					mu.Lock()
					want := slices.Clone(acknowledged)
					mu.Unlock()
					pending := r.store.announced()
					reads.Go(func() { r.read(want, pending) })
				}
				// Bursts, steady calls, and pauses after which the writer is idle.
				time.Sleep([]time.Duration{0, 0, 0, time.Millisecond, linger / 2, 3 * linger}[random.IntN(6)])
			}
			calls.Wait()
			reads.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			if left := r.store.announced(); len(left) > 0 {
				r.t.Errorf("announced while nothing is written: %v", left)
			}
			if r.store.count() != 500 || r.Waiting() != 0 {
				r.t.Errorf("%d rows, %d bytes wait, want 500 and none", r.store.count(), r.Waiting())
			}
		})
	}
}

// read reads as soon as pending announcements are withdrawn, and checks what it finds.
func (r running) read(want []uuid.UUID, pending map[int]bool) {
	for {
		open := r.store.announced()
		maps.DeleteFunc(pending, func(n int, _ bool) bool { return !open[n] })
		if len(pending) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stored := r.store.ids()
	for _, id := range want {
		if !stored[id] {
			r.t.Errorf("a row of %d that were acknowledged is not to be seen", len(want))
			return
		}
	}
}

// Calls go on while announcements fail or hang.
func TestAnnouncementsFail(t *testing.T) {
	run(t, ModeSynced, func(r running) {
		r.store.behave(func(m *memory) { m.announceTook = time.Hour })
		start := time.Now()
		ids := r.commit(3)
		if took := time.Since(start); took > 2*commitTime {
			r.t.Errorf("3 answers waited for %v", took)
		}
		r.store.behave(func(m *memory) { m.announceTook = time.Millisecond })
		time.Sleep(time.Minute)
		if !slices.Equal(r.store.stored(), ids) || len(r.store.announced()) > 0 {
			r.t.Errorf("%d rows, %d announcements, want %d and none", r.store.count(), len(r.store.announced()), len(ids))
		}
	})
}
