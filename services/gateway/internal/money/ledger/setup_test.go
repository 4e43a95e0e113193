package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store that can be unavailable or slow, or refuse an organization.
type memory struct {
	mu          sync.Mutex
	unavailable bool
	refuse      string
	breaks      string // an organization whose rows make the store panic
	took        time.Duration
	fate        func() (applied bool, err error) // nil: well
	batches     []int
	rows        map[uuid.UUID]Entry
	order       []uuid.UUID // as they were first stored
	counts      map[uuid.UUID]callcount.Count

	announceTook time.Duration
	announcing   int          // the last announcement
	open         map[int]bool // those that are not withdrawn
}

func newMemory() *memory {
	return &memory{rows: make(map[uuid.UUID]Entry), open: make(map[int]bool), counts: make(map[uuid.UUID]callcount.Count)}
}

func (m *memory) Announce(ctx context.Context) (withdraw func(), err error) {
	m.mu.Lock()
	took := m.announceTook
	m.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(took):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return nil, ErrUnavailable
	}
	m.announcing++
	n := m.announcing
	m.open[n] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, n)
	}, nil
}

// announced returns the announcements that are not withdrawn.
func (m *memory) announced() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.open)
}

func (m *memory) Append(ctx context.Context, entries []Entry) error {
	m.mu.Lock()
	took := m.took
	m.mu.Unlock()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	case <-time.After(took):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return fmt.Errorf("%w: refused", ErrUnavailable)
	}
	for _, e := range entries {
		if m.breaks != "" && e.Organization == m.breaks {
			panic("bug in writing a row")
		}
		if m.refuse != "" && e.Organization == m.refuse {
			return errors.New("a check failed")
		}
	}
	applied, err := true, error(nil)
	if m.fate != nil {
		applied, err = m.fate()
	}
	if applied {
		m.batches = append(m.batches, len(entries))
		for _, e := range entries {
			if _, there := m.rows[e.ID]; !there {
				m.rows[e.ID], m.order = e, append(m.order, e.ID)
			}
		}
	}
	return err
}

func (m *memory) Count(_ context.Context, counts []callcount.Count) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return fmt.Errorf("%w: refused", ErrUnavailable)
	}
	applied, err := true, error(nil)
	if m.fate != nil {
		applied, err = m.fate()
	}
	for _, c := range counts {
		if applied {
			m.counts[c.ID] = c
		}
	}
	return err
}

// behave changes how the store behaves.
func (m *memory) behave(change func(m *memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *memory) set(unavailable bool) { m.behave(func(m *memory) { m.unavailable = unavailable }) }

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// stored returns the IDs in the order in which they were first stored.
func (m *memory) stored() []uuid.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.order)
}

// groups returns the sizes of the transactions.
func (m *memory) groups() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.batches)
}

func (m *memory) ids() map[uuid.UUID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make(map[uuid.UUID]bool, len(m.rows))
	for id := range m.rows {
		ids[id] = true
	}
	return ids
}

func entry(org string) Entry { return Entry{ID: uuid.New(), Organization: org} }

// running is a writer with a store in memory.
type running struct {
	*Writer

	t     *testing.T // of the bubble
	store *memory
	log   *testkit.Buffer
	root  string
}

// begin starts a writer. stop ends its loops as the service does; end closes it, too.
func begin(t *testing.T, store Store, root string, limit int64, mode Mode) (r running, stop, end func()) {
	t.Helper()
	rows, err := spool.Open(root, limit)
	if err != nil {
		t.Fatal(err)
	}
	log := &testkit.Buffer{}
	r = running{t: t, log: log, root: root}
	r.store, _ = store.(*memory)
	r.Writer = NewWriter(store, rows, mode, slog.New(slog.NewJSONHandler(log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = r.Run(ctx) })
	loops.Go(func() { _ = r.Adopt(ctx) })
	stop = sync.OnceFunc(func() { cancel(); loops.Wait() })
	end = sync.OnceFunc(func() {
		stop()
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, stop, end
}

// run gives a test a running writer in a synctest bubble.
func run(t *testing.T, mode Mode, test func(r running)) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "spool")
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.took, store.announceTook = time.Millisecond, time.Millisecond
		r, _, end := begin(t, store, root, 1<<20, mode)
		defer end()
		test(r)
	})
}

func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
