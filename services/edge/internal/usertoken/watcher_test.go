package usertoken

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/poll"
	"switchyard.dev/services/platform/testkit"
)

// watched runs a watcher until the test ends.
func (w world) watched(t *testing.T) *Watcher {
	t.Helper()
	watcher, err := NewWatcher(t.Context(), w.verifier, w.store, testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return watcher
}

// follow begins a call with a token.
func (w world) follow(t *testing.T, text string) context.Context {
	t.Helper()
	token, err := w.verifier.Verify(text)
	if err != nil {
		t.Fatal(err)
	}
	call, end := context.WithCancelCause(t.Context())
	t.Cleanup(w.verifier.Follow(token, end))
	return call
}

// A revocation ends what it concerns within a second, and no token that is minted after it, even in the same second.
func TestRevocation(t *testing.T) {
	for name, holder := range map[string]Holder{"user": {"org-1", "ann"}, "organization": {"org-1", ""}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.watched(t)
				other := request()
				other.Organization = "org-2"
				text, foreign := w.mint(t, request()), w.mint(t, other)
				call, stays := w.follow(t, text), w.follow(t, foreign)
				if err := w.Revoke(t.Context(), apikey.Actor{Name: "test"}, holder); err != nil {
					t.Fatal(err)
				}
				again := w.mint(t, request())
				time.Sleep(poll.Every + poll.Most)
				synctest.Wait()
				if !errors.Is(context.Cause(call), ErrInvalid) {
					t.Errorf("the call goes on: %v", context.Cause(call))
				}
				if stays.Err() != nil {
					t.Errorf("another organization's call has ended: %v", context.Cause(stays))
				}
				if _, err := w.verifier.Verify(text); !errors.Is(err, ErrInvalid) {
					t.Errorf("the revoked token: %v", err)
				}
				for _, valid := range []string{foreign, again} {
					if _, err := w.verifier.Verify(valid); err != nil {
						t.Errorf("a token that is not revoked: %v", err)
					}
				}
			})
		})
	}
}

func TestCallsEndWithTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		call := w.follow(t, w.mint(t, request()))
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if call.Err() != nil {
			t.Fatalf("before its token: %v", context.Cause(call))
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !errors.Is(context.Cause(call), ErrInvalid) {
			t.Errorf("the call outlives its token: %v", context.Cause(call))
		}
	})
}

// While the store is away, the last policy stays in force; once it is back, changes are in force within a second.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watcher := w.watched(t)
		text := w.mint(t, request())
		w.store.mu.Lock()
		w.store.away = errors.New("away")
		w.store.mu.Unlock()
		time.Sleep(30 * time.Second)
		if _, err := w.verifier.Verify(text); err != nil {
			t.Errorf("while the store is away: %v", err)
		}
		w.store.mu.Lock()
		w.store.away = nil
		w.store.mu.Unlock()
		if err := w.Revoke(t.Context(), apikey.Actor{Name: "test"}, Holder{"org-1", ""}); err != nil {
			t.Fatal(err)
		}
		watcher.Refresh(t.Context())
		if _, err := w.verifier.Verify(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("revoked once it is back: %v", err)
		}
	})
}
