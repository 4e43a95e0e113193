package byok

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a Feed, and the References for its secrets.
type source struct {
	mu       sync.Mutex
	revision int64
	configs  map[string]Config
	secrets  map[string]string
	err      error
	delay    time.Duration
	reads    atomic.Int64
	gets     atomic.Int64
	uses     []Use
}

func newSource() *source { return &source{configs: map[string]Config{}, secrets: map[string]string{}} }

func (s *source) set(c Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	c.Revision = s.revision
	s.configs[c.Organization+"/"+c.Provider] = c
}

func (s *source) name(reference, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[reference] = value
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *source) Revision(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision, nil
}

func (s *source) ChangedSince(_ context.Context, after Config, _ int) ([]Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Config
	for _, c := range s.configs {
		if c.Revision >= after.Revision {
			out = append(out, c)
		}
	}
	return out, nil
}

func (s *source) Get(_ context.Context, organization, provider string) (Config, error) {
	s.gets.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.configs[organization+"/"+provider]
	if !ok {
		return Config{}, cmp.Or(s.err, ErrNone)
	}
	return c, s.err
}

func (s *source) Use(_ context.Context, uses []Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses = append(s.uses, uses...)
	return s.err
}

func (s *source) Read(ctx context.Context, _, reference string) (secret.Value, error) {
	s.reads.Add(1)
	if s.delay > 0 {
		select {
		case <-ctx.Done():
			return secret.Value{}, ctx.Err()
		case <-time.After(s.delay):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return secret.Value{}, s.err
	}
	value, ok := s.secrets[reference]
	if !ok {
		return secret.Value{}, secretref.ErrAbsent
	}
	return secret.New(value), nil
}

func (s *source) Current() (sealing.Public, error) { return sealing.Public{}, sealing.ErrNone }

func (s *source) Open(string, string, string, []byte) (secret.Value, error) {
	return secret.Value{}, sealing.ErrUnknownKey
}

func (s *source) cache(log *slog.Logger) *Cache {
	return NewCache(s, &Reader{References: s, Seals: s, Fingerprint: keyring.NewFingerprint(secret.New("pin"))}, log)
}

func config(version int, reference string) Config {
	return Config{
		Organization: "acme", Provider: "openai", Status: StatusActive, Version: version, CreatedAt: begin,
		Credential: Credential{Custody: CustodyReference, Reference: reference},
	}
}

func level(t *testing.T, v *Cache, since int64) int64 {
	t.Helper()
	at, err := v.Load(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func found(t *testing.T, v *Cache) string {
	t.Helper()
	c, err := v.Find(t.Context(), "acme", "openai", false)
	if err != nil {
		t.Fatal(err)
	}
	if c.Source != keyring.SourceByok || c.Fingerprint == "" {
		t.Errorf("credential %+v", c)
	}
	return c.Key.Reveal()
}

func TestCacheFollowsChanges(t *testing.T) {
	s := newSource()
	s.name("file:one", "key-number-one")
	s.name("file:two", "key-number-two")
	v := s.cache(testkit.Logger(t))
	at := level(t, v, 0)
	if _, err := v.Find(t.Context(), "acme", "openai", false); !errors.Is(err, keyring.ErrNoKey) {
		t.Fatalf("nothing is there: %v", err)
	}
	s.set(config(1, "file:one"))
	at = level(t, v, at)
	if s.reads.Load() != 0 {
		t.Error("a secret was read before anybody used it")
	}
	if key := found(t, v); key != "key-number-one" {
		t.Errorf("key %q", key)
	}
	found(t, v)
	if s.reads.Load() != 1 {
		t.Errorf("%d reads, want one", s.reads.Load())
	}
	// A transfer doesn't change the secret.
	transferred := config(1, "file:one")
	transferred.Owner = "bob"
	s.set(transferred)
	at = level(t, v, at)
	found(t, v)
	if s.reads.Load() != 1 {
		t.Errorf("%d reads, a transfer needs none", s.reads.Load())
	}
	// A new secret is read before it replaces the old one.
	s.set(config(2, "file:two"))
	at = level(t, v, at)
	if s.reads.Load() != 2 {
		t.Errorf("%d reads: the new one was not read ahead", s.reads.Load())
	}
	if key := found(t, v); key != "key-number-two" {
		t.Errorf("rotated key %q", key)
	}
	erased := config(2, "")
	erased.Status, erased.Credential = StatusErased, Credential{}
	h := v.find("acme", "openai")
	s.set(erased)
	level(t, v, at)
	if _, err := v.Find(t.Context(), "acme", "openai", false); !errors.Is(err, keyring.ErrNoKey) {
		t.Errorf("erased: %v", err)
	}
	if h.present.Load() != nil || v.secrets.Load() != 0 {
		t.Error("an erased secret is still in memory")
	}
}

// A rotation to a secret that can't be read in time makes no request wait.
func TestCacheSlowRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.name("file:one", "key-number-one")
		s.name("file:two", "key-number-two")
		v := s.cache(testkit.Logger(t))
		s.set(config(1, "file:one"))
		at := level(t, v, 0)
		found(t, v)
		s.delay = time.Hour
		s.set(config(2, "file:two"))
		start := time.Now()
		level(t, v, at)
		if took := time.Since(start); took > swapTime {
			t.Errorf("the load took %s", took)
		}
		s.delay = 0
		if key := found(t, v); key != "key-number-two" {
			t.Errorf("key %q after the rotation", key)
		}
	})
}

func TestCacheRefreshesAndSurvivesOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.name("file:one", "key-number-one")
		v := s.cache(testkit.Logger(t))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- v.Run(ctx) }()
		s.set(config(1, "file:one"))
		level(t, v, 0)
		found(t, v)
		s.name("file:one", "key-replaced")
		time.Sleep(refreshAfter + time.Second)
		found(t, v) // Queues the refresh, and returns at once.
		synctest.Wait()
		if key := found(t, v); key != "key-replaced" {
			t.Errorf("key %q, want the refreshed one", key)
		}
		// The manager is unavailable: the known secret serves.
		s.fail(errors.New("away"))
		time.Sleep(refreshAfter + time.Second)
		found(t, v)
		synctest.Wait()
		if key := found(t, v); key != "key-replaced" {
			t.Errorf("key %q during the outage", key)
		}
		// The secret was removed: it no longer serves.
		s.fail(secretref.ErrAbsent)
		time.Sleep(pauseAfter + time.Second)
		found(t, v)
		synctest.Wait()
		_, err := v.Find(t.Context(), "acme", "openai", false)
		if e := apierr.From(err); e.Reason != reasonMissingKeys || e.Kind != apierr.KindUnavailable || errors.Is(err, keyring.ErrNoKey) {
			t.Errorf("taken away: %v", err)
		}
		reads := s.reads.Load()
		for range 100 {
			_, _ = v.Find(t.Context(), "acme", "openai", false)
		}
		if s.reads.Load() > reads+1 {
			t.Errorf("%d reads of a secret that is not there", s.reads.Load()-reads)
		}
		s.fail(nil)
		time.Sleep(pauseAfter + time.Second)
		if key := found(t, v); key != "key-replaced" {
			t.Errorf("key %q after all is well", key)
		}
		time.Sleep(idleAfter + maintainEvery + time.Second)
		synctest.Wait()
		if v.secrets.Load() != 0 || v.find("acme", "openai").present.Load() != nil {
			t.Error("a secret that nobody uses is still in memory")
		}
		cancel()
		<-done
	})
}

func TestCacheReadsOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.delay = time.Second
		s.name("file:one", "key-number-one")
		v := s.cache(testkit.Logger(t))
		s.set(config(1, "file:one"))
		level(t, v, 0)
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() { found(t, v) })
		}
		callers.Wait()
		if s.reads.Load() != 1 {
			t.Errorf("%d reads for 50 callers", s.reads.Load())
		}
	})
}

func TestCacheStoresUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		v := s.cache(testkit.Logger(t))
		s.set(config(1, "file:one"))
		level(t, v, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- v.Run(ctx) }()
		at := time.Now()
		for i := range 1000 {
			v.Used("acme", "openai", at.Add(time.Duration(i)*time.Millisecond))
		}
		v.Used("nobody", "openai", at)
		time.Sleep(maintainEvery + time.Second)
		time.Sleep(maintainEvery)
		v.Used("acme", "openai", at.Add(time.Hour))
		cancel()
		<-done
		if len(s.uses) != 2 || !s.uses[0].At.Equal(at.Add(999*time.Millisecond)) || !s.uses[1].At.Equal(at.Add(time.Hour)) {
			t.Errorf("uses %v, want one for all, and the last one at the end", s.uses)
		}
	})
}

func TestCacheKeepsSecretsOut(t *testing.T) {
	const canary = "sk-canary-cache-0123456789abcdef"
	var log bytes.Buffer
	s := newSource()
	s.name("file:one", canary+" with a space")
	v := s.cache(slog.New(slog.NewJSONHandler(&log, nil)))
	s.set(config(1, "file:one"))
	level(t, v, 0)
	_, err := v.Find(t.Context(), "acme", "openai", false)
	if err == nil {
		t.Fatal("a secret with a space is no key")
	}
	testkit.NoLeak(t, canary, log.String(), err.Error(), fmt.Sprintf("%+v", v.find("acme", "openai").failure.Load()))
	s.name("file:one", canary)
	v = s.cache(slog.New(slog.NewJSONHandler(&log, nil)))
	level(t, v, 0)
	found(t, v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("held", "held", v.find("acme", "openai").present.Load())
	testkit.NoLeak(t, canary, log.String(), fmt.Sprintf("%+v", v.find("acme", "openai").present.Load()))
}
