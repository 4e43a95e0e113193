package ledger

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/testkit"
)

func contextEnded(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// image copies a spool's files as a kill at this moment would leave them, without the last cut bytes of the records.
func image(t *testing.T, from string, cut int) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "spool")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(from, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // The store has this segment.
		}
		if i == len(names)-1 {
			records := len(bytes.TrimRight(text, "\x00"))
			clear(text[max(records-cut, 0):])
		}
		dir := filepath.Join(root, filepath.Base(filepath.Dir(name)))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		testkit.WriteFile(t, filepath.Join(dir, filepath.Base(name)), string(text))
	}
	return root
}

// recoverImage lets a new process adopt an image, and checks that it leaves nothing behind.
func recoverImage(t *testing.T, store *memory, root string) {
	t.Helper()
	adoptImage(t, store, root)
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("left behind after recovery: %v", left)
	}
}

// adoptImage lets a new process adopt an image.
func adoptImage(t *testing.T, store *memory, root string) {
	t.Helper()
	rows, err := spool.Open(root, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(store, rows, ModeCommitted, testLog(t))
	w.adopt(t.Context())
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// After a kill in the middle of a write (the spool's own test cuts at each byte), an acknowledged row is recovered, a
// half-written one is no row, and no row is stored twice.
func TestKilledInAWrite(t *testing.T) {
	store := newMemory()
	store.unavailable = true
	r, stop, end := begin(t, store, filepath.Join(t.TempDir(), "spool"), 1<<20, ModeAsync)
	var sizes []int64 // of the file after each row
	var ids []uuid.UUID
	for range 4 {
		ids = append(ids, r.commit(1)...)
		sizes = append(sizes, r.Waiting())
	}
	stop()
	total := int(r.Waiting())
	for cut := 0; cut <= total; cut += 13 {
		next := newMemory()
		recoverImage(t, next, image(t, r.root, cut))
		want := 0
		for want < len(sizes) && sizes[want] <= int64(total-cut) {
			want++
		}
		if len(next.stored()) != want {
			t.Fatalf("%d bytes are left: %d rows, want %d", total-cut, len(next.stored()), want)
		}
		for i, id := range next.stored() {
			if id != ids[i] {
				t.Fatalf("%d bytes are left: row %d is another one", total-cut, i)
			}
		}
	}
	store.set(false)
	end()
}

// After a kill at any moment under load, with a store that fails, commits without reporting it, or is slow: what was
// acknowledged before is in the store or on disk, and recovering the disk duplicates nothing.
func TestKilledAtAnyMoment(t *testing.T) {
	for seed := range uint64(6) {
		mode := modes[seed%3]
		t.Run(fmt.Sprintf("%s-%d", mode, seed), func(t *testing.T) {
			store := newMemory()
			random := rand.New(rand.NewPCG(seed, 1))
			store.took = 200 * time.Microsecond
			store.fate = func() (bool, error) {
				switch random.IntN(6) {
				case 0:
					return false, ErrUnavailable
				case 1:
					return true, ErrUnavailable
				}
				return true, nil
			}
			r, _, end := begin(t, store, filepath.Join(t.TempDir(), "spool"), 64<<20, mode)
			var mu sync.Mutex
			acknowledged := make(map[uuid.UUID]bool)
			var loading sync.RWMutex // Nothing is committed while an image is recovered, or the next ones grow without end.
			ctx, cancel := context.WithCancel(t.Context())
			var load sync.WaitGroup
			for range 8 {
				load.Go(func() {
					for ctx.Err() == nil {
						e := entry("acme")
						loading.RLock()
						if err := r.Commit(ctx, e); err != nil {
							t.Error(err)
						}
						mu.Lock()
						acknowledged[e.ID] = true
						mu.Unlock()
						loading.RUnlock()
					}
				})
			}
			for range 10 {
				<-time.After(20 * time.Millisecond)
				killed(t, r, &mu, acknowledged, &loading)
			}
			cancel()
			load.Wait()
			store.behave(func(m *memory) { m.fate = nil })
			end()
			if store.count() != len(acknowledged) {
				t.Errorf("%d rows at the end, want %d", store.count(), len(acknowledged))
			}
		})
	}
}

// killed recovers an image of this moment into a copy of the store, while nothing loads the ledger.
func killed(t *testing.T, r running, mu *sync.Mutex, acknowledged map[uuid.UUID]bool, loading *sync.RWMutex) {
	t.Helper()
	mu.Lock()
	before := make([]uuid.UUID, 0, len(acknowledged))
	for id := range acknowledged {
		before = append(before, id)
	}
	mu.Unlock()
	root := image(t, r.root, 0)
	there := r.store.ids()
	loading.Lock()
	defer loading.Unlock()
	next := newMemory()
	adoptImage(t, next, root) // Damage may be left: the image was copied while its writer erased records.
	for _, id := range before {
		if _, recovered := next.rows[id]; !recovered && !there[id] {
			t.Fatalf("an acknowledged row is gone (of %d)", len(before))
		}
	}
}

// A process that ends while the store is unavailable leaves its rows to the next, and a running one takes over the rows
// of a dead one.
func TestNextProcess(t *testing.T) {
	root := filepath.Join(t.TempDir(), "spool")
	store := newMemory()
	store.unavailable = true
	r, _, end := begin(t, store, root, 1<<20, ModeCommitted)
	r.commit(300)
	end()
	if store.count() != 0 {
		t.Fatalf("%d rows in a store that is unavailable", store.count())
	}
	store.set(false)
	next, _, endNext := begin(t, store, root, 1<<20, ModeCommitted)
	next.commit(1)
	for store.count() < 301 {
		<-time.After(time.Millisecond)
	}
	endNext()
	if left, _ := os.ReadDir(root); len(left) != 0 || store.count() != 301 {
		t.Errorf("%d rows, left behind %v", store.count(), left)
	}
}

// The spool and the log hold what the ledger does, and no content.
func TestSpoolIsPrivate(t *testing.T) {
	store := newMemory()
	store.unavailable = true
	r, _, end := begin(t, store, filepath.Join(t.TempDir(), "spool"), 1<<20, ModeAsync)
	defer end()
	r.commit(1)
	err := filepath.WalkDir(r.root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: others may read it", strings.TrimPrefix(path, r.root))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	store.set(false)
}
