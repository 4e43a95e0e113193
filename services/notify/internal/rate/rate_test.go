package rate_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/rate"
	"switchyard.dev/services/notify/internal/redis"
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/testkit"
)

// kv is a server in memory, which may be away.
type kv struct {
	mu   sync.Mutex
	held map[string]string
	away bool
}

var errAway = errors.New("away")

func (c *kv) Get(_ context.Context, key string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return "", errAway
	}
	return c.held[key], nil
}

func (c *kv) Swap(_ context.Context, key, old, next string, _ time.Duration) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return false, errAway
	}
	if c.held[key] != old {
		return false, nil
	}
	c.held[key] = next
	return true, nil
}

func limiter(c shared.KV, now func() time.Time) *rate.Limiter {
	states := shared.New(shared.Options{KV: c, Merge: rate.Merge, Life: rate.Life, Log: slog.New(slog.DiscardHandler), Now: now})
	return rate.New(states, time.Second, now)
}

func TestPlacesOfALane(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	server := &kv{held: map[string]string{}}
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
	server := &kv{held: map[string]string{}}
	a := limiter(server, clock)
	for range 3 {
		a.Reserve(t.Context(), "x")
	}
	server.away = true
	if wait := a.Reserve(t.Context(), "x"); wait != 3*time.Second {
		t.Errorf("alone it waits %v", wait)
	}
	server.away, server.held = false, map[string]string{} // back, and emptied
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
		l := limiter(redis.NewKV(client, "rate"), func() time.Time { return at })
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
