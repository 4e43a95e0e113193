package ledger

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// commit commits n entries one after the other and returns their IDs.
func (r running) commit(n int) (ids []uuid.UUID) {
	r.t.Helper()
	for range n {
		e := entry("acme")
		if err := r.Commit(r.t.Context(), e); err != nil {
			r.t.Error(err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func TestCommitGroups(t *testing.T) {
	run(t, ModeCommitted, func(r running) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { r.commit(1) })
		}
		wg.Wait()
		if r.store.count() != 50 || len(r.store.groups()) > 3 {
			r.t.Errorf("%d rows in batches %v, want 50 in few", r.store.count(), r.store.groups())
		}
	})
}

// The answer waits for the commit, up to the bound.
func TestCommittedBeforeTheAnswer(t *testing.T) {
	run(t, ModeCommitted, func(r running) {
		r.store.behave(func(m *memory) { m.took = commitTime - time.Millisecond })
		start := time.Now()
		r.commit(1)
		if r.store.count() != 1 || time.Since(start) < time.Second {
			r.t.Errorf("%d rows after %v, want the commit", r.store.count(), time.Since(start))
		}
	})
}

// Nothing but a committed answer waits for the store.
func TestWritesBehind(t *testing.T) {
	for _, mode := range []Mode{ModeSynced, ModeAsync} {
		t.Run(string(mode), func(t *testing.T) { testWritesBehind(t, mode) })
	}
}

func testWritesBehind(t *testing.T, mode Mode) {
	t.Helper()
	run(t, mode, func(r running) {
		r.store.behave(func(m *memory) { m.took = time.Second })
		start := time.Now()
		ids := r.commit(10)
		if took := time.Since(start); took > linger || r.store.count() != 0 {
			r.t.Errorf("%v and %d rows, want no wait", took, r.store.count())
		}
		if r.Waiting() == 0 {
			r.t.Error("nothing is on disk")
		}
		time.Sleep(2 * time.Second)
		if !slices.Equal(r.store.stored(), ids) || r.Waiting() != 0 || len(r.store.groups()) != 1 {
			r.t.Errorf("%d rows in batches %v, %d bytes wait, want all in order in one", len(r.store.stored()), r.store.groups(), r.Waiting())
		}
	})
}

// While the store is unavailable answers go on at once, and no row is lost or duplicated.
func TestStoreAway(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			run(t, mode, func(r running) {
				ids := r.commit(3)
				r.store.set(true)
				start := time.Now()
				ids = append(ids, r.commit(600)...) // more than a batch
				if took := time.Since(start); took > 100*time.Millisecond {
					r.t.Errorf("600 answers waited for %v", took)
				}
				if err := r.Ready(r.t.Context()); err != nil {
					r.t.Errorf("ready: %v, want completions to go on", err)
				}
				time.Sleep(time.Minute)
				r.store.set(false)
				time.Sleep(2 * maxPause)
				ids = append(ids, r.commit(3)...)
				time.Sleep(time.Second)
				if !slices.Equal(r.store.stored(), ids) || r.Waiting() != 0 {
					r.t.Errorf("%d rows, %d bytes wait, want %d in order", len(r.store.stored()), r.Waiting(), len(ids))
				}
			})
		})
	}
}

// A store that hangs delays the answers in flight up to the bound, and later ones not at all.
func TestSlowStore(t *testing.T) {
	run(t, ModeCommitted, func(r running) {
		r.store.behave(func(m *memory) { m.took = 5 * time.Second })
		start := time.Now()
		r.commit(1)
		if took := time.Since(start); took != commitTime {
			r.t.Errorf("the first answer waited for %v, want %v", took, commitTime)
		}
		synctest.Wait()
		start = time.Now()
		r.commit(1)
		if took := time.Since(start); took > commitTime {
			r.t.Errorf("the second answer waited for %v", took)
		}
		time.Sleep(time.Minute) // Replay waits longer for a slow store.
		if r.store.count() != 2 || r.Waiting() != 0 {
			r.t.Errorf("%d rows, %d bytes wait, want both", r.store.count(), r.Waiting())
		}
	})
}

// Under a load that never pauses the writer still catches up.
func TestCatchesUpUnderLoad(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			run(t, mode, func(r running) {
				r.store.behave(func(m *memory) { m.unavailable, m.took = true, 5*time.Millisecond })
				r.commit(500)
				r.store.set(false)
				var load sync.WaitGroup
				until := time.Now().Add(5 * time.Second)
				for range 8 {
					load.Go(func() {
						for time.Now().Before(until) {
							r.commit(1)
							time.Sleep(time.Millisecond)
						}
					})
				}
				time.Sleep(3 * time.Second)
				if r.isLagging() {
					r.t.Errorf("still behind after 3 s, %d bytes wait", r.Waiting())
				}
				load.Wait()
			})
		})
	}
}

// An entry that the store refuses, or that makes it panic, affects no other entry, live and from disk.
func TestRefusedEntryCostsNoOther(t *testing.T) {
	for _, test := range []struct{ unavailable, breaks bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		unavailable := test.unavailable
		run(t, ModeCommitted, func(r running) {
			r.store.behave(func(m *memory) {
				if m.refuse, m.unavailable = "bad", unavailable; test.breaks {
					m.refuse, m.breaks = "", "bad"
				}
			})
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					org := "good"
					if i == 5 {
						org = "bad"
					}
					if err := r.Commit(r.t.Context(), entry(org)); (err != nil) != (org == "bad" && !unavailable) {
						r.t.Errorf("%s: %v", org, err)
					}
				})
			}
			wg.Wait()
			r.store.set(false)
			time.Sleep(2 * maxPause)
			if r.store.count() != 9 || !strings.Contains(r.log.String(), "ledger_row_lost") || r.Waiting() != 0 {
				r.t.Errorf("%d rows, log %s, want nine and one in the log", r.store.count(), r.log)
			}
		})
	}
}

func TestFullSpoolRefuses(t *testing.T) {
	run(t, ModeCommitted, func(r running) {
		r.store.set(true)
		for r.Ready(r.t.Context()) == nil {
			r.commit(100)
		}
		if r.Waiting() < 1<<20 {
			r.t.Errorf("refused with %d bytes", r.Waiting())
		}
		taken := len(r.commit(5)) // Those in flight are kept.
		r.store.set(false)
		time.Sleep(time.Minute)
		if err := r.Ready(r.t.Context()); err != nil || r.store.count()%100 != taken {
			r.t.Errorf("ready: %v with %d rows", err, r.store.count())
		}
	})
}

func TestFullQueueGoesToDisk(t *testing.T) {
	run(t, ModeAsync, func(r running) {
		r.store.behave(func(m *memory) { m.took = time.Second })
		ids := r.commit(maxQueue + maxBatch + 500)
		if !r.isLagging() {
			r.t.Fatal("the queue has no bound")
		}
		r.store.behave(func(m *memory) { m.took = time.Millisecond })
		time.Sleep(time.Minute)
		if !slices.Equal(r.store.stored(), ids) || r.Waiting() != 0 {
			r.t.Errorf("%d rows, want %d in order", len(r.store.stored()), len(ids))
		}
	})
}

// When the disk fails the store is used; when both fail, completions are refused, and entries in flight are logged.
func TestBrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r, stop, _ := begin(t, store, t.TempDir()+"/spool", 1<<20, ModeAsync)
		stop()
		if err := r.spool.Close(); err != nil {
			t.Fatal(err)
		}
		r.commit(1)
		if err := r.Ready(t.Context()); err != nil || store.count() != 1 {
			t.Errorf("ready: %v, %d rows, want the store to do", err, store.count())
		}
		store.set(true)
		if err := r.Commit(t.Context(), entry("late")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("commit: %v, want ErrUnavailable", err)
		}
		if text := r.log.String(); !strings.Contains(text, "ledger_row_lost") || !strings.Contains(text, `"organization_id":"late"`) {
			t.Errorf("log %s, want the whole entry", text)
		}
		if err := r.Ready(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
		store.set(false)
		time.Sleep(probeEvery)
		if err := r.Ready(t.Context()); err != nil {
			t.Errorf("ready: %v when the store is back", err)
		}
	})
}

func TestCallerWhoLeavesIsBilled(t *testing.T) {
	run(t, ModeCommitted, func(r running) {
		ctx, cancel := contextEnded(r.t)
		defer cancel()
		if err := r.Commit(ctx, entry("acme")); err != nil || r.store.count() != 1 {
			r.t.Errorf("commit: %v, %d rows, want one", err, r.store.count())
		}
	})
}

// Names that callers choose reach the store as text that it can hold.
func TestCommitCleans(t *testing.T) {
	run(t, ModeCommitted, func(r running) {
		e := entry("acme")
		e.RequestedModel, e.Run = "m\x00odel", "run\xff"
		if err := r.Commit(r.t.Context(), e); err != nil {
			r.t.Fatal(err)
		}
		if got := r.store.rows[e.ID]; got.RequestedModel != "m\uFFFDodel" || got.Run != "run\uFFFD" {
			r.t.Errorf("stored %q and %q", got.RequestedModel, got.Run)
		}
	})
}

// Every field of an entry survives the spool.
func TestEntryRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)
	want := Entry{
		ID: uuid.New(), RequestID: "r", Organization: "o", Key: "k", Service: "s", Run: "n", Operation: "chat",
		RequestedProvider: "rp", RequestedModel: "rm", RequestedGoal: "rg", Provider: "p", Model: "m",
		Credential: "fleet", Fingerprint: "f", Substituted: true, CacheHit: true, Attempts: 3,
		Usage: provider.Usage{
			Input: 1, CacheRead: 2, CacheWrite: 3, CacheWriteLong: 4, ImageInput: 5, AudioInput: 6,
			Output: 7, Reasoning: 8, ImageOutput: 9, AudioOutput: 10, Images: 11,
		},
		State: StatePartial, Cost: 1 << 62, PriceVersion: "v", Outcome: OutcomeCancelled, StartedAt: at, EndedAt: at.Add(1),
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Entry
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
