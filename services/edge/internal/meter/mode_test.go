package meter

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/testkit"
)

// A reader sees every call that was answered before it began, in whatever way calls come, and the database gets many
// batches at once.
func TestReadersSeeAnsweredCalls(t *testing.T) {
	for seed := range uint64(4) {
		dir := t.TempDir() + "/spool"
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			store.takes = time.Millisecond
			m, stop := start(t, store, dir, ModeSynced)
			random := rand.New(rand.NewPCG(seed, 3))
			var answered atomic.Int64
			var calls, reads sync.WaitGroup
			for range 500 {
				calls.Go(func() {
					if err := m.Count(Counter{Organization: "org-1", Key: "key_a", Metric: "llm_requests", Minute: time.Now()})(); err != nil {
						t.Error(err)
					}
					answered.Add(1)
				})
				if random.IntN(10) == 0 {
					want, pending := answered.Load(), store.announcements()
					reads.Go(func() { read(t, store, want, pending) })
				}
				time.Sleep([]time.Duration{0, 0, 0, time.Millisecond, behind / 2, 3 * behind}[random.IntN(6)])
			}
			calls.Wait()
			reads.Wait()
			stop()
			if got := store.total(); got != 500 || store.applies > 250 {
				t.Errorf("counted %d in %d statements, want 500 in few", got, store.applies)
			}
			if left := store.announcements(); len(left) > 0 {
				t.Errorf("announced at the end: %v", left)
			}
		})
	}
}

// read reads as soon as the pending announcements are withdrawn.
func read(t *testing.T, store *fakeStore, want int64, pending map[int]bool) {
	t.Helper()
	for len(pending) > 0 {
		time.Sleep(time.Millisecond)
		open := store.announcements()
		maps.DeleteFunc(pending, func(n int, _ bool) bool { return !open[n] })
	}
	if got := store.total(); got < want {
		t.Errorf("a reader sees %d calls of %d that were answered", got, want)
	}
}

// When the disk fails calls are counted in the database, beside what is on disk already; with neither they fail.
func TestBrokenDisk(t *testing.T) {
	dir := t.TempDir() + "/spool"
	counts := reopened(t, dir)
	store := newStore()
	m := New(store, counts, ModeSynced, testkit.Logger(t))
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = m.Write(ctx) })
	m.away.Store(true) // so that no count waits for an announcement, which Replay would make
	count := func() error {
		return m.Count(Counter{Organization: "org-1", Key: "key_a", Metric: "llm_requests", Minute: time.Now()})()
	}
	for range 3 {
		if err := count(); err != nil {
			t.Errorf("not counted on disk: %v", err)
		}
	}
	if err := counts.Close(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := count(); err != nil {
			t.Errorf("not counted in the database: %v", err)
		}
	}
	heir := New(store, reopened(t, dir), ModeSynced, testkit.Logger(t))
	heir.adopt(t.Context())
	if got := store.total(); got != 7 {
		t.Errorf("counted %d, want the 3 on disk and the 4 that it did not take", got)
	}
	store.behave(away)
	if err := count(); err == nil {
		t.Error("counted with neither disk nor database")
	}
	cancel()
	loops.Wait()
}

// reopened returns another process's spool in a folder.
func reopened(t *testing.T, dir string) *spool.Spool {
	t.Helper()
	counts, err := spool.Open(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counts.Close() })
	return counts
}
