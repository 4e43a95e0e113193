package rate_test

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/rate"
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/kv/kvtest"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

func limiter(store kv.Store, now func() time.Time) *rate.Limiter {
	states := shared.New(shared.Options{Store: store, Merge: rate.Merge, Life: rate.Life, Log: slog.New(slog.DiscardHandler), Now: now})
	return rate.New(states, time.Second, now)
}

func TestPlacesOfALane(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	server := new(kvtest.Memory)
	a, b := limiter(server, clock), limiter(server, clock)
	var waits []time.Duration
	for range 3 {
		waits = append(waits, a.Reserve(t.Context(), "x"), b.Reserve(t.Context(), "x"))
	}
	want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second}
	if !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if wait := b.Reserve(t.Context(), "y"); wait != 0 {
		t.Errorf("another lane waits %v", wait)
	}
	a.Hold(t.Context(), "x", time.Minute)
	if !b.Held(t.Context(), "x") || b.Held(t.Context(), "y") {
		t.Error("what one replica was asked, the other has to keep")
	}
	if wait := b.Reserve(t.Context(), "x"); wait != time.Minute {
		t.Errorf("a held lane waits %v", wait)
	}
	now = now.Add(2 * time.Minute)
	if wait := a.Reserve(t.Context(), "x"); wait != 0 || a.Held(t.Context(), "x") {
		t.Errorf("after the hold it waits %v", wait)
	}
}

// Without the server each replica spaces its own, and goes on from what both knew.
func TestServerAway(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	server := new(kvtest.Memory)
	a := limiter(server, clock)
	for range 3 {
		a.Reserve(t.Context(), "x")
	}
	server.SetAway(true)
	if wait := a.Reserve(t.Context(), "x"); wait != 3*time.Second {
		t.Errorf("alone it waits %v", wait)
	}
	server.SetAway(false) // back, and emptied
	server.Clear()
	now = now.Add(2 * time.Second)
	if wait := a.Reserve(t.Context(), "x"); wait != 2*time.Second {
		t.Errorf("an emptied server makes it wait %v, want what the replica knows", wait)
	}
	if wait := limiter(server, clock).Reserve(t.Context(), "x"); wait != 3*time.Second {
		t.Errorf("another replica waits %v, want the place after that", wait)
	}
}

// A clock that was set back holds nothing up for as long.
func TestClockSetBack(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := limiter(nil, func() time.Time { return now })
	l.Reserve(t.Context(), "x")
	now = now.Add(-48 * time.Hour)
	if wait := l.Reserve(t.Context(), "x"); wait != 0 {
		t.Errorf("it waits %v", wait)
	}
}

// Many at once, over the real server: no place is given twice.
func TestPlacesAreUnique(t *testing.T) {
	client := testkit.Redis(t)
	at := time.Now()
	var mu sync.Mutex
	var waits []time.Duration
	var wg sync.WaitGroup
	for range 2 {
		l := limiter(redisdb.NewKV(client, "rate"), func() time.Time { return at })
		for range 20 {
			wg.Go(func() {
				wait := l.Reserve(t.Context(), "x")
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, wait)
			})
		}
	}
	wg.Wait()
	slices.Sort(waits)
	for i, wait := range waits {
		if wait.Round(time.Millisecond) != time.Duration(i)*time.Second {
			t.Fatalf("waits %v", waits)
		}
	}
}
