package apikey

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/poll"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// fakeStore is a loader and feed whose rows a test sets.
type fakeStore struct {
	mu       sync.Mutex
	rows     map[Digest]*Key
	err      error
	loads    int
	hold     chan struct{} // when set, a lookup reads its row, then waits
	position int64
	changes  []Digest // of position 1, 2, ...
	touched  map[string]time.Time
}

func (s *fakeStore) KeyByDigest(ctx context.Context, digest Digest) (*Key, error) {
	s.mu.Lock()
	s.loads++
	key, err, hold := s.rows[digest], s.err, s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return key, err
}

func (s *fakeStore) Position(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position, s.err
}

func (s *fakeStore) ChangedSince(_ context.Context, position int64, limit int) ([]Digest, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := min(int64(len(s.changes)), position+int64(limit))
	return s.changes[position:end], end, s.err
}

func (s *fakeStore) Touch(_ context.Context, uses map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = uses
	return s.err
}

// change sets a row and the error of the store, and moves the feed on.
func (s *fakeStore) change(digest Digest, key *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[digest] = key
	s.changes = append(s.changes, digest)
	s.position++
}

func (s *fakeStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads
}

const stale = 2 * time.Minute

// world is a verifier over a fake store that knows one live key.
func world(t *testing.T) (v *Verifier, s *fakeStore, header string, digest Digest) {
	t.Helper()
	pepper := pepperOf(t, strings.Repeat("p", 32))
	text := mint("test")
	digest = pepper.Digest(text)
	s = &fakeStore{rows: map[Digest]*Key{digest: {ID: "key_1", Organization: "org-1", Product: "ai", Permissions: []Permission{Read}}}}
	return NewVerifier(pepper, s, 6400, stale, Limits{}), s, "Bearer " + text, digest
}

func verify(t *testing.T, v *Verifier, header string) string {
	t.Helper()
	key, err := v.Verify(t.Context(), header)
	if err != nil {
		return string(apierr.From(err).Reason)
	}
	return key.ID
}

func TestVerifyRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, _ := world(t)
		unknown := "bearer " + mint("test")
		var got []string
		for range 3 {
			got = append(got, verify(t, v, header), verify(t, v, unknown))
		}
		if diff := cmp.Diff([]string{"key_1", "invalid_key", "key_1", "invalid_key", "key_1", "invalid_key"}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if n := s.count(); n != 2 {
			t.Errorf("%d lookups, want one for each key", n)
		}
		time.Sleep(freshFor)
		verify(t, v, header)
		verify(t, v, unknown)
		if n := s.count(); n != 4 {
			t.Errorf("%d lookups after a minute, want 4", n)
		}
	})
}

func TestVerifyRefusesWithoutLookup(t *testing.T) {
	v, s, header, _ := world(t)
	for _, h := range []string{"", "Bearer", "Bearer ", header[len("Bearer "):], "Basic " + header[7:], header + "x", "Bearer  " + header[7:]} {
		if got := verify(t, v, h); got != "invalid_key" {
			t.Errorf("%q: %s", h, got)
		}
	}
	if n := s.count(); n != 0 {
		t.Errorf("%d lookups, want none", n)
	}
}

func TestVerifyAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		s.rows[digest].ExpiresAt = new(time.Now().Add(10 * time.Second))
		before := verify(t, v, header)
		time.Sleep(10 * time.Second)
		if after := verify(t, v, header); before != "key_1" || after != "invalid_key" {
			t.Errorf("before %s, after %s", before, after)
		}
	})
}

func TestOneLookupForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, _ := world(t)
		s.hold = make(chan struct{})
		leader, leave := context.WithCancel(t.Context())
		results := make(chan string, 50)
		go func() { _, _ = v.Verify(leader, header); results <- "key_1" }()
		synctest.Wait()
		leave() // the caller that began the lookup leaves: the others still get their answer
		for range 49 {
			go func() { results <- verify(t, v, header) }()
		}
		synctest.Wait()
		close(s.hold)
		for range 50 {
			if got := <-results; got != "key_1" {
				t.Errorf("answer %s", got)
			}
		}
		if n := s.count(); n != 1 {
			t.Errorf("%d lookups, want 1", n)
		}
	})
}

func TestStaleKeysServeForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, _ := world(t)
		verify(t, v, header)
		s.fail(errors.New("connection refused"))
		time.Sleep(freshFor)
		for range 10 {
			if got := verify(t, v, header); got != "key_1" {
				t.Fatalf("known key while Postgres is away: %s", got)
			}
		}
		if n := s.count(); n != 2 {
			t.Errorf("%d lookups, want one try in %v", n, retryAfter)
		}
		if got := verify(t, v, "Bearer "+mint("test")); got != "unavailable" {
			t.Errorf("unknown key while Postgres is away: %s", got)
		}
		time.Sleep(stale)
		if got := verify(t, v, header); got != "unavailable" {
			t.Errorf("known key after %v: %s", stale, got)
		}
		s.fail(nil)
		if got := verify(t, v, header); got != "key_1" {
			t.Errorf("Postgres is back: %s", got)
		}
	})
}

// A lookup that read the row before it changed must not be remembered.
func TestChangeDuringLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		s.hold = make(chan struct{})
		first := make(chan string, 1)
		go func() { first <- verify(t, v, header) }()
		synctest.Wait() // the row is read, the answer under way
		s.mu.Lock()
		hold := s.hold
		s.hold = nil
		s.rows[digest] = nil
		s.mu.Unlock()
		v.Forget(digest)
		if got := verify(t, v, header); got != "invalid_key" {
			t.Errorf("asked after the revocation: %s", got)
		}
		close(hold)
		<-first
		if got := verify(t, v, header); got != "invalid_key" {
			t.Errorf("the outdated row was remembered: %s", got)
		}
	})
}

func TestMissesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, _ := world(t)
		s.hold = make(chan struct{})
		results := make(chan string, 20)
		for range cap(results) {
			go func() { results <- verify(t, v, "Bearer "+mint("test")) }()
		}
		synctest.Wait()
		if n := s.count(); n != loads {
			t.Errorf("%d lookups at once, want %d", n, loads)
		}
		for range cap(results) { // each gives up after loadTime, in bubble time
			if got := <-results; got != "unavailable" {
				t.Errorf("answer %s", got)
			}
		}
	})
}

func TestFloodOfUnknownKeysLeavesTheKnown(t *testing.T) {
	c := newCache(&fakeStore{rows: map[Digest]*Key{{}: {ID: "key_1"}}}, 640, stale, Limits{})
	if _, err := c.get(t.Context(), Digest{}); err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		if _, err := c.get(t.Context(), Digest{byte(i >> 8), byte(i), 1}); err != nil {
			t.Fatal(err)
		}
	}
	unknown := 0
	for i := range c.shards {
		unknown += len(c.shards[i].unknown)
	}
	if unknown > 640 {
		t.Errorf("%d unknown keys are remembered, want 640 at the most", unknown)
	}
	if _, known := c.shard(Digest{}).known[Digest{}]; !known {
		t.Error("the known key was pushed out")
	}
}

func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		w, err := NewWatcher(t.Context(), v, s, testkit.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()

		verify(t, v, header) // its last use counts, although it is forgotten
		s.change(digest, &Key{ID: "key_1", RevokedAt: new(time.Now())})
		for i := range 3 * page { // more than one page behind it
			s.change(Digest{9, byte(i >> 8), byte(i)}, nil)
		}
		time.Sleep(poll.Every)
		synctest.Wait()
		if got := verify(t, v, header); got != "invalid_key" {
			t.Errorf("revoked key %v later: %s", poll.Every, got)
		}

		time.Sleep(usesEvery)
		synctest.Wait()
		if _, ok := s.touched["key_1"]; !ok {
			t.Error("the last use was not written down")
		}

		s.fail(errors.New("away"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if w.Behind() < 9*time.Second {
			t.Errorf("behind %v after 10 s without the feed", w.Behind())
		}
		s.fail(nil)
		time.Sleep(poll.Every)
		synctest.Wait()
		if w.Behind() > 0 {
			t.Errorf("behind %v with the feed back", w.Behind())
		}

		// The database is restored from before the revocation.
		s.mu.Lock()
		s.position, s.changes, s.rows[digest] = 0, nil, &Key{ID: "key_1"}
		s.mu.Unlock()
		time.Sleep(poll.Every)
		synctest.Wait()
		if got := verify(t, v, header); got != "key_1" {
			t.Errorf("key of the restored database: %s", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	pepper := pepperOf(b, strings.Repeat("p", 32))
	text := mint("test")
	v := NewVerifier(pepper, &fakeStore{rows: map[Digest]*Key{pepper.Digest(text): {ID: "key_1"}}}, 6400, stale, Limits{})
	for name, header := range map[string]string{"cached": "Bearer " + text, "malformed": "Bearer " + text[:len(text)-1] + "~"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = v.Verify(b.Context(), header)
			}
		})
	}
}

// An entry that is read again takes its own place, not another's.
func TestRefreshPushesNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{rows: map[Digest]*Key{{2: 1}: {ID: "key_1"}, {2: 2}: {ID: "key_2"}}} // of one shard
		c := newCache(store, 2*shards, time.Minute, Limits{})
		for range 20 {
			for digest := range store.rows {
				if key, err := c.get(t.Context(), digest); key == nil || err != nil {
					t.Fatal(key, err)
				}
				if n := len(c.shard(digest).known); store.count() > 1 && n != 2 {
					t.Fatalf("%d entries are left of 2", n)
				}
			}
			time.Sleep(2 * freshFor)
		}
	})
}

// Refresh returns when the changes before it are known, and in time when they can't be.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		w, err := NewWatcher(t.Context(), v, s, testkit.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		w.Refresh(t.Context()) // Nothing runs.
		if took := time.Since(begun); took != poll.RefreshTime {
			t.Errorf("without Run it took %v, want %v", took, poll.RefreshTime)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()

		verify(t, v, header)
		s.change(digest, &Key{ID: "key_1", RevokedAt: new(time.Now())})
		begun = time.Now()
		w.Refresh(t.Context())
		if got := verify(t, v, header); got != "invalid_key" {
			t.Errorf("a revoked key after Refresh: %s", got)
		}
		s.fail(errors.New("away"))
		w.Refresh(t.Context())
		if took := time.Since(begun); took != 0 {
			t.Errorf("Refresh waited %v", took)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
