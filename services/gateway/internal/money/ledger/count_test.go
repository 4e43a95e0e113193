package ledger

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/platform/callcount"
)

func newCount() callcount.Count {
	return callcount.Count{
		ID: uuid.New(), Organization: "acme", Key: "key_1", Metric: "llm_requests", User: "ann", Tags: map[string]string{"team": "web"},
		At: time.Date(2026, 11, 30, 10, 20, 30, 0, time.UTC),
	}
}

// record records a count and waits for it.
func (r running) record() uuid.UUID {
	r.t.Helper()
	count := newCount()
	settled, err := r.Record(r.t.Context(), count)
	if err == nil {
		err = settled()
	}
	if err != nil {
		r.t.Error(err)
	}
	return count.ID
}

func (m *memory) counted() map[uuid.UUID]callcount.Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// Counts and entries reach the store unchanged, including those recorded while the store was unavailable.
func TestRecordCounts(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			run(t, mode, func(r running) {
				want := []uuid.UUID{r.record()}
				ids := r.commit(2)
				r.store.set(true)
				want = append(want, r.record())
				ids = append(ids, r.commit(1)...)
				want = append(want, r.record())
				time.Sleep(time.Minute)
				r.store.set(false)
				time.Sleep(2 * maxPause)
				got := r.store.counted()
				if len(got) != len(want) || !slices.Equal(r.store.stored(), ids) || r.Waiting() != 0 {
					r.t.Fatalf("%d counts, %d rows, %d bytes wait; want %d, %d and none", len(got), len(r.store.stored()), r.Waiting(), len(want), len(ids))
				}
				for _, id := range want {
					count := newCount()
					count.ID = id
					if diff := cmp.Diff(count, got[id]); diff != "" {
						r.t.Errorf("(-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// A count that was recorded before a kill is in the store or on disk, whether or not its answer was complete.
func TestCountsOverKills(t *testing.T) {
	store := newMemory()
	random := rand.New(rand.NewPCG(1, 2))
	store.fate = func() (bool, error) {
		err := []error{nil, ErrUnavailable}[random.IntN(2)]
		return err == nil || random.IntN(3) > 0, err
	}
	r, _, end := begin(t, store, filepath.Join(t.TempDir(), "spool"), 1<<20, ModeSynced)
	var mu sync.Mutex
	var recorded []uuid.UUID
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for range 50 {
				count := newCount()
				settled, err := r.Record(t.Context(), count)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				recorded = append(recorded, count.ID)
				mu.Unlock()
				if err := settled(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	load.Wait()
	there := store.counted()
	next := newMemory()
	recoverImage(t, next, image(t, r.root, 0))
	for _, id := range recorded {
		if _, recovered := next.counts[id]; !recovered && there[id].ID == uuid.Nil {
			t.Fatalf("a count of %d is gone", len(recorded))
		}
	}
	store.behave(func(m *memory) { m.fate = nil })
	end()
	if got := len(store.counted()); got != len(recorded) {
		t.Errorf("%d counts at the end, want %d", got, len(recorded))
	}
}
