package cache

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

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = bytes.Repeat([]byte("k"), MinSecret)

// fakeStore is a store in memory that can fail or be slow.
type fakeStore struct {
	mu     sync.Mutex
	away   error
	took   time.Duration
	calls  int
	floors map[string]int64
	held   map[Key][]byte
}

func newFakeStore() *fakeStore { return &fakeStore{floors: map[string]int64{}, held: map[Key][]byte{}} }

// begin counts a call, waits as long as set and returns the error that is set.
func (s *fakeStore) begin(ctx context.Context) error {
	s.mu.Lock()
	s.calls++
	took, away := s.took, s.away
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(took):
		return away
	}
}

func (s *fakeStore) Get(ctx context.Context, p Key) ([]byte, int64, error) {
	if err := s.begin(ctx); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[p], s.floors[p.Organization], nil
}

func (s *fakeStore) Put(ctx context.Context, p Key, sealed []byte, _ time.Duration) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Epoch >= s.floors[p.Organization] {
		s.held[p] = sealed
	}
	return nil
}

func (s *fakeStore) Purge(ctx context.Context, organization string, epoch int64) (n int, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floors[organization] = epoch
	for p := range s.held {
		if p.Organization == organization {
			delete(s.held, p)
			n++
		}
	}
	return n, nil
}

func (s *fakeStore) set(away error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.took = away, took
}

// counter is the durable epochs, in memory.
type counter struct {
	mu     sync.Mutex
	away   error
	epochs map[string]int64
}

func (c *counter) Epoch(_ context.Context, organization string) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epochs[organization], c.away
}

func (c *counter) Bump(_ context.Context, organization string) (int64, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		return 0, time.Time{}, c.away
	}
	c.epochs[organization]++
	return c.epochs[organization], time.Now(), nil
}

func replica(t *testing.T, store Store, epochs Epochs) *Cache {
	t.Helper()
	c, err := New(store, epochs, secret, testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cache) keep(t *testing.T, s Scope, request, answer string) {
	t.Helper()
	got, key := c.Get(t.Context(), s, []byte(request))
	if got != nil || key == (Key{}) {
		t.Fatalf("%q at %+v before anything was kept", got, key)
	}
	c.Put(t.Context(), key, []byte(answer), time.Minute)
}

func (c *Cache) has(t *testing.T, s Scope, request string) string {
	t.Helper()
	got, _ := c.Get(t.Context(), s, []byte(request))
	return string(got)
}

var acme = Scope{"acme", "fleet"}

func TestScopes(t *testing.T) {
	c := replica(t, newFakeStore(), &counter{epochs: map[string]int64{}})
	c.keep(t, acme, "request", "answer")
	if got := c.has(t, acme, "request"); got != "answer" {
		t.Errorf("got %q", got)
	}
	for _, s := range []Scope{{"other", "fleet"}, {"acme", "byok 0011"}, {"acmef", "leet"}, {"acme", "fleet "}} {
		if got := c.has(t, s, "request"); got != "" {
			t.Errorf("%+v is given another scope's answer", s)
		}
	}
	if got := c.has(t, acme, "request "); got != "" {
		t.Error("another request is given the answer")
	}
	for _, s := range []Scope{{"", "fleet"}, {"acme", ""}} {
		if _, key := c.Get(t.Context(), s, []byte("request")); key != (Key{}) {
			t.Errorf("%+v has a key", s)
		}
	}
}

// The store sees neither the organization nor the request nor the answer; an answer that was moved to another key
// can't be opened.
func TestSealed(t *testing.T) {
	store := newFakeStore()
	c := replica(t, store, &counter{epochs: map[string]int64{}})
	const canary = "canary-9f8e7d6c"
	c.keep(t, Scope{"org-" + canary, "fleet"}, "request "+canary, "answer "+canary)
	for key, sealed := range store.held {
		testkit.NoLeak(t, canary, fmt.Sprint(key), string(sealed))
		moved := key
		moved.Organization = c.hide("organization", "acme")
		if _, err := c.open(moved, sealed); err == nil {
			t.Error("an answer opens in another key")
		}
	}
	log := &bytes.Buffer{}
	c.log = slog.New(slog.NewTextHandler(log, nil))
	for key := range store.held {
		store.held[key] = []byte("short")
	}
	if got := c.has(t, Scope{"org-" + canary, "fleet"}, "request "+canary); got != "" || !strings.Contains(log.String(), "can't be opened") {
		t.Errorf("damaged: %q, log %s", got, log)
	}
	testkit.NoLeak(t, canary, log.String())
	if _, err := New(store, &counter{}, secret[1:], c.log); err == nil {
		t.Error("a short secret passes")
	}
}

func TestPurge(t *testing.T) {
	store, epochs := newFakeStore(), &counter{epochs: map[string]int64{}}
	a, b := replica(t, store, epochs), replica(t, store, epochs)
	a.keep(t, acme, "one", "1")
	a.keep(t, acme, "two", "2")
	a.keep(t, Scope{"other", "fleet"}, "one", "other's")
	_, underWay := b.Get(t.Context(), acme, []byte("three"))
	purged, err := a.Purge(t.Context(), "acme")
	if err != nil || purged.Count != 2 || purged.At.IsZero() {
		t.Errorf("%+v, %v, want two purged", purged, err)
	}
	b.Put(t.Context(), underWay, []byte("from before the purge"), time.Minute)
	for _, c := range []*Cache{a, b} {
		for _, request := range []string{"one", "two", "three"} {
			if got := c.has(t, acme, request); got != "" {
				t.Errorf("%s after the purge: %q", request, got)
			}
		}
		if got := c.has(t, Scope{"other", "fleet"}, "one"); got != "other's" {
			t.Errorf("the other organization has %q", got)
		}
	}
	if purged, err := a.Purge(t.Context(), "acme"); err != nil || purged.Count != 0 {
		t.Errorf("again: %+v, %v, want none", purged, err)
	}
	b.keep(t, acme, "one", "new")
	if got := a.has(t, acme, "one"); got != "new" {
		t.Errorf("after the purge nothing is kept: %q", got)
	}
}

// A purge while the store is out of reach is not lost: what it could not delete is never served again, on any replica,
// and the caller is asked to repeat it.
func TestPurgeWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, epochs := newFakeStore(), &counter{epochs: map[string]int64{}}
		a, b := replica(t, store, epochs), replica(t, store, epochs)
		a.keep(t, acme, "one", "1")
		b.has(t, acme, "one")
		store.set(errors.New("connection refused"), 0)
		_, err := a.Purge(t.Context(), "acme")
		if e := apierr.From(err); e.Reason != ReasonPurgeIncomplete || e.Kind != apierr.KindUnavailable || e.RetryAfter == 0 {
			t.Errorf("error %v, want one that asks to repeat the purge", err)
		}
		store.set(nil, 0)
		if got := a.has(t, acme, "one"); got != "" {
			t.Errorf("served %q after the purge", got)
		}
		time.Sleep(epochAge)
		if got := b.has(t, acme, "one"); got != "" {
			t.Errorf("the other replica served %q a second after the purge", got)
		}
		if purged, err := a.Purge(t.Context(), "acme"); err != nil || purged.Count != 1 {
			t.Errorf("repeated: %+v, %v, want the one deleted", purged, err)
		}
	})
}

// A purge that can't be recorded is refused.
func TestPurgeWithoutTheDatabase(t *testing.T) {
	store, epochs := newFakeStore(), &counter{epochs: map[string]int64{}, away: errors.New("away")}
	c := replica(t, store, epochs)
	if _, err := c.Purge(t.Context(), "acme"); apierr.From(err).Kind != apierr.KindUnavailable {
		t.Errorf("error %v, want unavailable", err)
	}
	if got, key := c.Get(t.Context(), acme, []byte("one")); got != nil || key != (Key{}) {
		t.Error("answers are served or kept of an epoch that nobody knows")
	}
}

// A store that hangs or fails costs one short wait, then none until it is called again.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		c := replica(t, store, &counter{epochs: map[string]int64{}})
		c.keep(t, acme, "one", "1")
		store.set(nil, time.Hour)
		start := time.Now()
		for range 100 {
			if got := c.has(t, acme, "one"); got != "" {
				t.Fatalf("got %q", got)
			}
		}
		if took := time.Since(start); took != wait {
			t.Errorf("100 requests waited for %v, want %v", took, wait)
		}
		store.set(nil, 0)
		time.Sleep(rest)
		if got := c.has(t, acme, "one"); got != "1" {
			t.Errorf("after the store is back: %q", got)
		}
	})
}

func TestWithoutStore(t *testing.T) {
	epochs := &counter{epochs: map[string]int64{}}
	c, err := New(nil, epochs, nil, testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	got, key := c.Get(t.Context(), acme, []byte("one"))
	c.Put(t.Context(), key, []byte("1"), time.Minute)
	if got != nil {
		t.Errorf("a cache without a store gives %q", got)
	}
	if c.Keeps() {
		t.Error("a cache without a store keeps answers")
	}
	purged, err := c.Purge(t.Context(), "acme")
	if err != nil || purged.Count != 0 {
		t.Errorf("purged %d entries, %v, want none", purged.Count, err)
	}
	if epoch := epochs.epochs["acme"]; epoch != 1 {
		t.Errorf("epoch %d after a purge, want 1", epoch)
	}
}

func BenchmarkHit(b *testing.B) {
	c, err := New(newFakeStore(), &counter{epochs: map[string]int64{}}, secret, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	request, answer := bytes.Repeat([]byte("r"), 1000), bytes.Repeat([]byte("a"), 1000)
	_, key := c.Get(b.Context(), acme, request)
	c.Put(b.Context(), key, answer, time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := c.Get(b.Context(), acme, request); got == nil {
			b.Fatal("a miss")
		}
	}
}
