package byok

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/custody/keyring"
)

func ask(ctx context.Context, v *Cache, organization string) error {
	_, err := v.Find(ctx, organization, "openai", true)
	return err
}

// A configuration that another replica has just stored is found before the feed delivers it, but only by requests that
// ask for one.
func TestNewConfigurationIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.name("file:one", "key-number-one")
		v := s.cache(slog.New(slog.DiscardHandler))
		level(t, v, 0)
		s.set(config(1, "file:one"))
		if _, err := v.Find(t.Context(), "acme", "openai", false); !errors.Is(err, keyring.ErrNoKey) || s.gets.Load() != 0 {
			t.Errorf("a request that asks for none: %v with %d questions, want none", err, s.gets.Load())
		}
		for range 3 {
			if err := ask(t.Context(), v, "acme"); err != nil {
				t.Errorf("right after it was stored: %v", err)
			}
		}
		if n := s.gets.Load(); n != 1 {
			t.Errorf("the store was asked %d times, want once", n)
		}
		// A configuration that was deactivated since is removed by the feed.
		gone := config(1, "file:one")
		gone.Status = StatusDeactivated
		s.set(gone)
		level(t, v, 1)
		if err := ask(t.Context(), v, "acme"); !errors.Is(err, keyring.ErrNoKey) {
			t.Errorf("after it was deactivated: %v", err)
		}
	})
}

// A lookup's result that is older than the feed's is discarded.
func TestLookupIsNeverOlderThanTheFeed(t *testing.T) {
	s := newSource()
	v := s.cache(slog.New(slog.DiscardHandler))
	s.set(config(1, "file:one"))
	read, err := s.Get(t.Context(), "acme", "openai")
	if err != nil {
		t.Fatal(err)
	}
	gone := read
	gone.Status = StatusDeactivated
	s.set(gone)
	level(t, v, 0)
	if v.insertFound(read) != nil || v.find("acme", "openai") != nil {
		t.Error("a deactivated configuration is back")
	}
}

// Any number of requests for absent configurations causes one query at a time for each configuration, and one per
// absentFor.
func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		v := s.cache(slog.New(slog.DiscardHandler))
		level(t, v, 0)
		flood := func() {
			var callers sync.WaitGroup
			for range 1000 {
				callers.Go(func() {
					if err := ask(t.Context(), v, "acme"); !errors.Is(err, keyring.ErrNoKey) {
						t.Error(err)
					}
				})
			}
			callers.Wait()
		}
		flood()
		flood()
		if n := s.gets.Load(); n != 1 {
			t.Errorf("the store was asked %d times at once, want once", n)
		}
		time.Sleep(absentFor)
		flood()
		if n := s.gets.Load(); n != 2 {
			t.Errorf("the store was asked %d times in all, want twice", n)
		}
		for i := range 2 * maxAbsent {
			_ = ask(t.Context(), v, fmt.Sprint("organization", i))
		}
		if n := len(v.lookups.absent); n > maxAbsent {
			t.Errorf("%d answers are kept, want %d at most", n, maxAbsent)
		}
		s.fail(errors.New("away"))
		time.Sleep(absentFor)
		before := s.gets.Load()
		flood()
		if n := s.gets.Load() - before; n != 1 {
			t.Errorf("the store that is away was asked %d times, want once", n)
		}
	})
}
