package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a Store within one process, that notifies each of its managers unless it is deaf.
type store struct {
	mu    sync.Mutex
	of    map[Session][]string
	err   error
	deaf  bool
	wakes []func(Session)
	lists int
}

func (s *store) change(of Session, change func([]string) []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.of[of] = change(slices.Clone(s.of[of]))
	if !s.deaf {
		for _, wake := range s.wakes {
			wake(of)
		}
	}
	return nil
}

func (s *store) Add(_ context.Context, of Session, uri string, _ time.Duration) error {
	return s.change(of, func(uris []string) []string { return append(uris, uri) })
}

func (s *store) Remove(_ context.Context, of Session, uri string) error {
	return s.change(of, func(uris []string) []string {
		return slices.DeleteFunc(uris, func(one string) bool { return one == uri })
	})
}

func (s *store) List(_ context.Context, of Session, life time.Duration) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists++; life != Life {
		return nil, errors.New("not kept")
	}
	return slices.Clone(s.of[of]), s.err
}

func (s *store) Watch(ctx context.Context, f func(Session)) error {
	s.mu.Lock()
	s.wakes = append(s.wakes, f)
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

// A stream on one replica follows what is subscribed to on another one, at once; without a notification it looks once a
// minute, and as often for what was not followed as a whole.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &store{of: make(map[Session][]string)}
		a, b := New(shared), New(shared)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		for _, m := range []*Manager{a, b} {
			group.Go(func() { _ = m.Run(ctx) })
		}
		s, other := &session.Session{ID: "s1", Owner: session.Owner{Organization: "acme"}}, &session.Session{ID: "s2", Owner: session.Owner{Organization: "acme"}}
		var mu sync.Mutex
		var got []string
		var whole atomic.Bool
		whole.Store(true)
		group.Go(func() {
			b.Follow(ctx, s, func(uris []string) bool {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(uris))
				return whole.Load()
			})
		})
		expect := func(after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			got = nil
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		expect(0)
		must(a.Add(t.Context(), s, "b"))
		must(a.Add(t.Context(), other, "z"))
		expect(restEach, "[b]")
		must(b.Add(t.Context(), s, "a"))
		must(b.Remove(t.Context(), s, "c"))
		expect(restEach, "[a b]")
		expect(10 * checkEvery)
		whole.Store(false)
		must(a.Remove(t.Context(), s, "b"))
		expect(restEach, "[a]")
		expect(checkEvery+restEach, "[a]")
		whole.Store(true)
		expect(checkEvery+restEach, "[a]")
		expect(10 * checkEvery)
		set := func(deaf bool, err error) {
			shared.mu.Lock()
			defer shared.mu.Unlock()
			shared.deaf, shared.err = deaf, err
		}
		set(true, nil)
		must(a.Remove(t.Context(), s, "a"))
		expect(restEach)
		expect(checkEvery+restEach, "[]")
		set(true, errors.New("away"))
		for _, err := range []error{a.Add(t.Context(), s, "a"), a.Remove(t.Context(), s, "a")} {
			if apierr.From(err).Kind != apierr.KindUnavailable {
				t.Errorf("%v", err)
			}
		}
		expect(10 * checkEvery)
		set(true, ErrFull)
		if err := a.Add(t.Context(), s, "a"); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		cancel()
		group.Wait()
		if len(b.streams) > 0 {
			t.Errorf("%d streams are left", len(b.streams))
		}
	})
}

// A client that changes its mind all the time makes no more looks than others.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &store{of: make(map[Session][]string)}
		m := New(shared)
		s := &session.Session{ID: "s1"}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { m.Follow(ctx, s, func([]string) bool { return true }) })
		for i := range 1000 {
			if err := m.Add(t.Context(), s, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		group.Wait()
		if shared.lists > 4 {
			t.Errorf("%d looks in a second", shared.lists)
		}
	})
}
