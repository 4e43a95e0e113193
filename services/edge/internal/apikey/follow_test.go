package apikey

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/testkit"
)

// open begins a call with a key and watches it.
func open(t *testing.T, v *Verifier, header string) (call context.Context, done func()) {
	t.Helper()
	key, err := v.Verify(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, v, key)
}

// follow begins a call with a key.
func follow(tb testing.TB, v *Verifier, key *Key) (call context.Context, done func()) {
	tb.Helper()
	call, end := context.WithCancelCause(tb.Context())
	forget := v.Follow(key, end)
	return call, func() { forget(); end(nil) }
}

// watched runs the watcher until the test ends.
func watched(t *testing.T, v *Verifier, s *fakeStore) (stop func()) {
	t.Helper()
	w, err := NewWatcher(t.Context(), v, s, testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// after reports whether a call is over a while from now, and why.
func after(call context.Context, d time.Duration) error {
	time.Sleep(d)
	synctest.Wait()
	return context.Cause(call)
}

func TestCallsEndWithTheirKey(t *testing.T) {
	gone := func(s *fakeStore, digest Digest) { s.change(digest, &Key{ID: "key_1", RevokedAt: new(time.Now())}) }
	for name, tt := range map[string]struct {
		change func(s *fakeStore, digest Digest)
		ends   bool
	}{
		"revoked":         {gone, true},
		"rotated at once": {func(s *fakeStore, digest Digest) { s.change(digest, &Key{ID: "key_1", ExpiresAt: new(time.Now())}) }, true},
		"erased":          {func(s *fakeStore, digest Digest) { s.change(digest, nil) }, true},
		"renamed":         {func(s *fakeStore, digest Digest) { s.change(digest, &Key{ID: "key_1", Name: "new"}) }, false},
		"rotated with overlap": {func(s *fakeStore, digest Digest) {
			s.change(digest, &Key{ID: "key_1", ExpiresAt: new(time.Now().Add(time.Hour))})
		}, false},
		"another one revoked": {func(s *fakeStore, _ Digest) { gone(s, Digest{1}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, s, header, digest := world(t)
				defer watched(t, v, s)()
				call, done := open(t, v, header)
				defer done()
				tt.change(s, digest)
				if err := after(call, time.Second); (err != nil) != tt.ends || tt.ends && !errors.Is(err, ErrInvalid) {
					t.Errorf("a second later: %v", err)
				}
			})
		})
	}
}

// A key that comes to its planned end opens nothing more, but what it has opened
// goes on.
func TestCallsOutliveThePlannedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		s.rows[digest] = &Key{ID: "key_1", ExpiresAt: new(time.Now().Add(time.Minute))}
		defer watched(t, v, s)()
		call, done := open(t, v, header)
		defer done()
		if err := after(call, 10*time.Minute); err != nil || verify(t, v, header) != "invalid_key" {
			t.Errorf("past the end: %v", err)
		}
	})
}

// The change may come between the check of a key and the beginning of its call,
// and a lookup may fail while a key is reviewed.
func TestCallsEndInRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		defer watched(t, v, s)()
		key, err := v.Verify(t.Context(), header)
		if err != nil {
			t.Fatal(err)
		}
		s.change(digest, nil)
		v.Forget(digest)
		time.Sleep(time.Second) // no call is open: the change ends none
		call, done := follow(t, v, key)
		defer done()
		if err := after(call, time.Second); !errors.Is(err, ErrInvalid) {
			t.Errorf("begun after the revocation: %v", err)
		}

		s.change(digest, &Key{ID: "key_1"})
		time.Sleep(time.Second)
		call, done = open(t, v, header)
		defer done()
		s.mu.Lock()
		s.rows[digest], s.err = nil, errors.New("away") // the key ends while the store is unavailable
		s.mu.Unlock()
		v.Forget(digest)
		if err := after(call, 10*time.Second); err != nil {
			t.Errorf("a failed announcement failed the call: %v", err)
		}
		s.fail(nil)
		if err := after(call, time.Second); !errors.Is(err, ErrInvalid) {
			t.Errorf("after the outage: %v", err)
		}
	})
}

// Nothing is kept of calls that are over, behind the next review.
func TestCallsAreForgotten(t *testing.T) {
	v, _, header, digest := world(t)
	for range 3 {
		call, done := open(t, v, header)
		v.Forget(digest)
		done()
		if !errors.Is(context.Cause(call), context.Canceled) {
			t.Errorf("over: %v", context.Cause(call))
		}
	}
	v.review(t.Context())
	if len(v.calls.running)+len(v.calls.changed) != 0 {
		t.Errorf("kept: %v, %v", v.calls.running, v.calls.changed)
	}
}

// BenchmarkFollow is what each call pays so that it can be ended.
func BenchmarkFollow(b *testing.B) {
	v := NewVerifier(nil, nil, 6400, stale, Limits{})
	key := &Key{ID: "key_1", Digest: Digest{1}}
	v.cache.shard(key.Digest).known[key.Digest] = &entry{key: key}
	end := func(error) {}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			v.Follow(key, end)()
		}
	})
}
