package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store that can be away, slow, or refuse an organization.
type memory struct {
	mu      sync.Mutex
	away    bool
	refuse  string
	took    time.Duration
	batches []int
	rows    map[uuid.UUID]Entry
}

func (m *memory) Append(ctx context.Context, entries []Entry) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrAway, ctx.Err())
	case <-time.After(m.took):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return fmt.Errorf("%w: refused", ErrAway)
	}
	for _, e := range entries {
		if m.refuse != "" && e.Organization == m.refuse {
			return errors.New("a check failed")
		}
	}
	m.batches = append(m.batches, len(entries))
	for _, e := range entries {
		m.rows[e.ID] = e
	}
	return nil
}

func (m *memory) set(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

func entry(org string) Entry { return Entry{ID: uuid.New(), Organization: org} }

// running is a writer over a store in memory.
type running struct {
	*Writer
	t     *testing.T // of the bubble
	store *memory
	log   *bytes.Buffer
}

// run gives a test a running writer in a bubble of its own time.
func run(t *testing.T, test func(r running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := running{t: t, store: &memory{rows: make(map[uuid.UUID]Entry), took: time.Millisecond}, log: &bytes.Buffer{}}
		r.Writer = NewWriter(r.store, slog.New(slog.NewJSONHandler(r.log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		test(r)
		cancel()
		wg.Wait()
	})
}

func TestCommitGroups(t *testing.T) {
	run(t, func(r running) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := r.Commit(r.t.Context(), entry("acme")); err != nil {
					r.t.Error(err)
				}
			})
		}
		wg.Wait()
		if r.store.count() != 50 || len(r.store.batches) > 3 {
			r.t.Errorf("%d rows in batches %v, want 50 in few", r.store.count(), r.store.batches)
		}
	})
}

func TestStoreAway(t *testing.T) {
	run(t, func(r running) {
		r.store.set(true)
		if err := r.Commit(r.t.Context(), entry("acme")); !errors.Is(err, ErrPending) {
			r.t.Errorf("commit: %v, want ErrPending", err)
		}
		if err := r.Ready(r.t.Context()); !errors.Is(err, ErrAway) {
			r.t.Errorf("ready: %v, want ErrAway", err)
		}
		if text := r.log.String(); !strings.Contains(text, "ledger_row_pending") || !strings.Contains(text, `"organization_id":"acme"`) {
			r.t.Errorf("log %s, want the whole entry", text)
		}
		r.store.set(false)
		time.Sleep(2 * maxPause)
		if err := r.Ready(r.t.Context()); err != nil || r.store.count() != 1 {
			r.t.Errorf("after the store is back: %v, %d rows, want one", err, r.store.count())
		}
	})
}

func TestRefusedEntryCostsNoOther(t *testing.T) {
	run(t, func(r running) {
		r.store.refuse = "bad"
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				org := "good"
				if i == 5 {
					org = "bad"
				}
				if err := r.Commit(r.t.Context(), entry(org)); (err != nil) != (org == "bad") {
					r.t.Errorf("%s: %v", org, err)
				}
			})
		}
		wg.Wait()
		if r.store.count() != 9 || !strings.Contains(r.log.String(), "ledger_row_lost") || r.Ready(r.t.Context()) != nil {
			r.t.Errorf("%d rows, log %s, want nine and one in the log", r.store.count(), r.log)
		}
	})
}

func TestCallerWhoLeavesIsBilled(t *testing.T) {
	run(t, func(r running) {
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		if err := r.Commit(ctx, entry("acme")); err != nil || r.store.count() != 1 {
			r.t.Errorf("commit: %v, %d rows, want one", err, r.store.count())
		}
	})
}

func TestCloseWritesWhatWaits(t *testing.T) {
	store, log := &memory{rows: make(map[uuid.UUID]Entry)}, &bytes.Buffer{}
	w := NewWriter(store, slog.New(slog.NewJSONHandler(log, nil)))
	for range 100 {
		w.queue <- waiting{entry("acme"), make(chan error, 1)}
	}
	if err := w.Close(t.Context()); err != nil || store.count() != 100 {
		t.Errorf("close: %v, %d rows, want 100", err, store.count())
	}

	store.set(true)
	w.queue <- waiting{entry("late"), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = w.Close(ctx)
	if !strings.Contains(log.String(), `"organization_id":"late"`) {
		t.Errorf("log %s, want the row that could not be stored", log)
	}
}

func TestFullQueueRefuses(t *testing.T) {
	log := &bytes.Buffer{}
	w := NewWriter(&memory{}, slog.New(slog.NewJSONHandler(log, nil)))
	for range maxQueue {
		if err := w.Ready(t.Context()); err == nil == (len(w.queue) > maxQueue/2) {
			t.Fatalf("ready with %d waiting: %v", len(w.queue), err)
		}
		w.queue <- waiting{}
	}
	if err := w.Commit(t.Context(), entry("acme")); err == nil || !strings.Contains(log.String(), "ledger_row_lost") {
		t.Errorf("commit: %v, log %s, want a refusal and the row in the log", err, log)
	}
}
