package meter

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/testkit"
)

// fakeStore applies batches as the database does: a batch counts only if its
// writer moves forward.
type fakeStore struct {
	mu     sync.Mutex
	seqs   map[string]int64
	totals map[string]int64 // by key
	// fate decides what becomes of the next batch: whether it is applied, and
	// what the caller hears.
	fate  func() (applied bool, err error)
	takes time.Duration

	applies, announced int
	open               map[int]bool // the announcements that are not withdrawn
}

func newStore() *fakeStore {
	return &fakeStore{seqs: map[string]int64{}, totals: map[string]int64{}, open: map[int]bool{}, fate: func() (bool, error) { return true, nil }}
}

func (s *fakeStore) Apply(_ context.Context, batch Batch) (bool, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	applied, err := s.fate()
	if applied = applied && batch.First > s.seqs[batch.Writer]; applied {
		s.applies++
		s.seqs[batch.Writer] = batch.Last
		for _, c := range batch.Counts {
			s.totals[c.Key] += c.Count
		}
	}
	return applied, err
}

// Announce announces, or fails while the store is away.
func (s *fakeStore) Announce(context.Context) (withdraw func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.fate(); err != nil {
		return nil, err
	}
	s.announced++
	n := s.announced
	s.open[n] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, n)
	}, nil
}

// announcements returns those that are not withdrawn.
func (s *fakeStore) announcements() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.open)
}

func (s *fakeStore) behave(fate func() (bool, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate = fate
}

func (s *fakeStore) total() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.totals {
		n += t
	}
	return n
}

var modes = []Mode{ModeSynced, ModeCommitted}

var errAway = errors.New("connection lost")

func away() (bool, error) { return false, errAway }

// now fails, or not.
func now(well bool) (bool, error) {
	if well {
		return true, nil
	}
	return away()
}

// start runs a meter until stop is called, which also closes its spool.
func start(t *testing.T, store Store, dir string, mode Mode) (m *Meter, stop func()) {
	t.Helper()
	counts, err := spool.Open(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	m = New(store, counts, mode, testkit.Logger(t))
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = m.Write(ctx) })
	loops.Go(func() { _ = m.Replay(ctx) })
	loops.Go(func() { _ = m.Adopt(ctx) })
	return m, sync.OnceFunc(func() {
		cancel()
		loops.Wait()
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// call counts n successes from several goroutines.
func call(t *testing.T, m *Meter, n int) {
	t.Helper()
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range n / 8 {
				key := "key_" + string(rune('a'+(i+j)%5))
				if err := m.Count(Counter{Organization: "org-1", Key: key, Metric: "llm_requests", Minute: time.Now()})(); err != nil {
					t.Errorf("not counted: %v", err)
				}
			}
		})
	}
	callers.Wait()
}

// drained waits until the spool has nothing left; the test's own limit ends it.
func drained(m *Meter) {
	for !m.spool.Empty() {
		time.Sleep(time.Millisecond)
	}
}

func TestCountsExactly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	fates := map[string]func() (bool, error){
		"well":                func() (bool, error) { return true, nil },
		"away":                away,
		"committed, unheard":  func() (bool, error) { return true, errAway },
		"fails now and then":  func() (bool, error) { return now(rand.N(4) > 0) },
		"unheard now or then": func() (bool, error) { return true, []error{nil, errAway}[rand.N(2)] },
	}
	for name, fate := range fates {
		for _, mode := range modes {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				store := newStore()
				store.behave(fate)
				m, stop := start(t, store, t.TempDir()+"/spool", mode)
				defer stop()
				call(t, m, 800)
				store.behave(func() (bool, error) { return true, nil })
				drained(m)
				call(t, m, 80)
				drained(m)
				if got := store.total(); got != 880 {
					t.Errorf("counted %d, want 880", got)
				}
			})
		}
	}
}

// A process that ends while the database is away leaves its counts to the next,
// also when its last line was cut off in the middle.
func TestNextProcessTakesOver(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) { testNextProcess(t, mode) })
	}
}

func testNextProcess(t *testing.T, mode Mode) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spool")
	store := newStore()
	m, stop := start(t, store, dir, mode)
	call(t, m, 80)
	store.behave(func() (bool, error) { return true, errAway }) // one batch counted, and on disk as well
	call(t, m, 8)
	store.behave(away)
	call(t, m, 72)
	stop()

	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if len(files) != 1 {
		t.Fatalf("left behind: %v", files)
	}
	file, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`deadbeef {"w":"x","s":9,"c":[{"o":"`); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()

	// Two processes start at once; each batch is still counted once.
	store.behave(func() (bool, error) { return true, nil })
	_, stopA := start(t, store, dir, mode)
	_, stopB := start(t, store, dir, mode)
	for store.total() < 160 {
		time.Sleep(time.Millisecond)
	}
	stopA()
	stopB()
	if got := store.total(); got != 160 {
		t.Errorf("counted %d, want 160", got)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}

func TestFullSpoolRefuses(t *testing.T) {
	counts, err := spool.Open(t.TempDir()+"/spool", 100)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore()
	m := New(store, counts, ModeCommitted, testkit.Logger(t))
	if err := m.Admit(); err != nil {
		t.Errorf("refused with an empty spool: %v", err)
	}
	batch := Batch{Writer: "w", First: 1, Last: 1, Counts: []Count{{Counter{Organization: "org-1", Key: "key_1", Metric: "deliveries", Minute: time.Unix(0, 0).UTC()}, 3}}}
	if err := m.keep(batch); err != nil {
		t.Fatal(err)
	}
	if err := m.Admit(); err == nil {
		t.Error("let in with a full spool")
	}
	batch.First, batch.Last = 2, 2 // calls under way are still kept
	if err := m.keep(batch); err != nil {
		t.Error(err)
	}
	if n, err := m.replay(t.Context(), counts); err != nil || n != 2 || store.total() != 6 {
		t.Errorf("%d batches, %d counts, %v, want 2 and 6", n, store.total(), err)
	}
	if err := m.Admit(); err != nil {
		t.Errorf("refused with the spool empty again: %v", err)
	}
}

// Counts with a user and tags are counters of their own, and files of releases without them are read.
func TestUsersAndTagsOnDisk(t *testing.T) {
	m := &Meter{log: testkit.Logger(t)}
	old := []byte(`{"w":"w","s":1,"c":[{"o":"org-1","k":"key_1","m":"deliveries","t":"2026-11-24T10:00:00Z","n":3}]}`)
	grouped := Counter{Organization: "org-1", Key: "key_1", Metric: "deliveries", Minute: time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC), User: "ann", Tags: "team=web"}
	record, err := json.Marshal(Batch{Writer: "w", First: 2, Last: 2, Counts: []Count{{grouped, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	batches := m.decode(t.Context(), [][]byte{old, record})
	if len(batches) != 2 || batches[0].First != 1 || batches[1].Counts[0].Counter != grouped {
		t.Fatalf("read %+v", batches)
	}
	plain := grouped
	plain.User, plain.Tags = "", ""
	whole, ok := merge(batches)
	want := []Count{{plain, 3}, {grouped, 2}}
	if !ok || !slices.Equal(whole.Counts, want) {
		t.Errorf("together they are %+v, want %+v", whole.Counts, want)
	}
}

// A database that takes longer for a batch than the disk does still catches up
// while calls go on.
func TestSlowDatabaseCatchesUp(t *testing.T) {
	dir := t.TempDir() + "/spool"
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		store.behave(away)
		m, stop := start(t, store, dir, ModeCommitted)
		defer stop()
		call(t, m, 8)
		store.behave(func() (bool, error) { return true, nil })
		store.takes = 5 * time.Millisecond

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for i := range 8 {
			go func() {
				time.Sleep(time.Duration(i) * 200 * time.Microsecond)
				for ctx.Err() == nil {
					_ = m.Count(Counter{Organization: "org-1", Key: "key_1", Metric: "llm_requests", Minute: time.Now()})()
					time.Sleep(time.Millisecond)
				}
			}()
		}
		for !m.spool.Empty() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Errorf("%d bytes wait on disk after 10 s", m.spool.Waiting())
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// A call that outlives the meter is told, and doesn't hang.
func TestCountAfterStop(t *testing.T) {
	m, stop := start(t, newStore(), t.TempDir()+"/spool", ModeCommitted)
	stop()
	if err := m.Count(Counter{Organization: "o", Key: "k", Metric: "m", Minute: time.Now()})(); err == nil {
		t.Error("counted by a meter that has stopped")
	}
}
