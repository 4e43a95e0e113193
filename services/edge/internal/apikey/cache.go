package apikey

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Loader finds a key by its digest; it returns nil without an error if there is none.
type Loader interface {
	KeyByDigest(ctx context.Context, digest Digest) (*Key, error)
}

const (
	shards = 64
	// freshFor is how long an entry is served before it is read again. The watcher reports changes long before; this
	// limits the effect of one that it misses.
	freshFor = time.Minute
	// retryAfter is how long a stale entry is served before the loader is tried again, so that an outage slows down
	// few requests.
	retryAfter = 5 * time.Second
	// unknownFor is how long a key is cached as unknown.
	unknownFor = time.Minute
	// loadTime bounds one lookup, including the wait for a slot.
	loadTime = 2 * time.Second
	// loads bounds the concurrent lookups, so that a flood of invented keys cannot take all connections from the
	// counters.
	loads = 4
)

// cache holds keys by digest. Known and unknown ones are separate, so that a flood of unknown ones cannot evict the
// known.
type cache struct {
	loader   Loader
	staleFor time.Duration
	limits   Limits
	limit    int // of each kind per shard
	places   chan struct{}
	shards   [shards]shard
}

type shard struct {
	mu      sync.Mutex
	known   map[Digest]*entry
	unknown map[Digest]time.Time
	flights map[Digest]*flight
	// left holds the last uses, by key id, of keys that were removed since uses was called.
	left map[string]int64
}

// entry is a known key. The shard's lock protects it.
type entry struct {
	key    *Key
	loaded time.Time
	until  time.Time // fresh until then
	used   int64     // Unix seconds of the last use that is not stored yet, or 0
}

// flight is one lookup that concurrent requests for the same key share.
type flight struct {
	done chan struct{}
	key  *Key
	err  error
	// outdated reports that the key changed during the lookup.
	outdated bool
}

func newCache(loader Loader, size int, staleFor time.Duration, limits Limits) *cache {
	c := &cache{loader: loader, staleFor: staleFor, limits: limits, limit: max(1, size/shards), places: make(chan struct{}, loads)}
	for i := range c.shards {
		c.shards[i] = shard{
			known: make(map[Digest]*entry), unknown: make(map[Digest]time.Time), flights: make(map[Digest]*flight), left: make(map[string]int64),
		}
	}
	return c
}

func (c *cache) shard(digest Digest) *shard {
	return &c.shards[binary.BigEndian.Uint16(digest[:])%shards]
}

// get returns the key of a digest, nil if there is none. While the loader fails, a cached entry is served for
// staleFor.
func (c *cache) get(ctx context.Context, digest Digest) (*Key, error) {
	s := c.shard(digest)
	now := time.Now()
	s.mu.Lock()
	if known := s.known[digest]; known != nil && now.Before(known.until) {
		known.used = now.Unix()
		key := known.key
		s.mu.Unlock()
		return key, nil
	}
	if until, ok := s.unknown[digest]; ok && now.Before(until) {
		s.mu.Unlock()
		return nil, nil // An unknown key is a result, not an error.
	}
	f, lead := s.join(digest)
	s.mu.Unlock()

	if lead {
		c.load(ctx, s, digest, f)
		return f.key, f.err
	}
	select {
	case <-f.done:
		return f.key, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the key: %w", context.Cause(ctx))
	}
}

// join joins the current lookup of the digest, or starts it.
func (s *shard) join(digest Digest) (f *flight, lead bool) {
	if f, ok := s.flights[digest]; ok {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	s.flights[digest] = f
	return f, true
}

// load runs the lookup for all waiting requests. The leading request may be cancelled, so its context does not end
// the lookup.
func (c *cache) load(ctx context.Context, s *shard, digest Digest, f *flight) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTime)
	defer cancel()
	started := time.Now()
	key, err := c.lookup(ctx, digest)

	s.mu.Lock()
	defer s.mu.Unlock()
	f.key, f.err = key, err
	if !f.outdated {
		delete(s.flights, digest)
		c.keep(s, digest, f, started)
	}
	close(f.done)
}

// keep caches the result of a lookup that began at started. If the lookup failed, it falls back to the cached entry.
func (c *cache) keep(s *shard, digest Digest, f *flight, started time.Time) {
	switch known := s.known[digest]; {
	case f.err != nil:
		end := started
		if known != nil {
			end = known.loaded.Add(freshFor + c.staleFor)
		}
		if now := time.Now(); now.Before(end) {
			known.until, known.used = earlier(now.Add(retryAfter), end), now.Unix()
			f.key, f.err = known.key, nil
		}
	case f.key == nil:
		delete(s.known, digest)
		delete(s.unknown, digest) // its own slot is free then
		bound(s.unknown, c.limit)
		s.unknown[digest] = started.Add(unknownFor)
	default:
		delete(s.known, digest) // its own slot is free then
		bound(s.known, c.limit)
		s.known[digest] = &entry{key: f.key, loaded: started, until: started.Add(freshFor), used: started.Unix()}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (c *cache) lookup(ctx context.Context, digest Digest) (*Key, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return nil, apierr.Unavailable("API keys can't be checked right now", context.Cause(ctx))
	}
	key, err := c.loader.KeyByDigest(ctx, digest)
	if err != nil {
		return nil, apierr.Unavailable("API keys can't be checked right now", fmt.Errorf("look up key: %w", err))
	}
	if key == nil || !key.Live(time.Now()) {
		return nil, nil // An expired or revoked key is treated like none.
	}
	key.Digest, key.Grants = digest, GrantsOf(key.Permissions)
	key.Buckets, key.TermsHeader = key.buckets(c.limits), key.termsHeader()
	return key, nil
}

// bound makes room for one more entry; it evicts in map order, which is arbitrary.
func bound[V any](entries map[Digest]V, limit int) {
	for victim := range entries {
		if len(entries) < limit {
			return
		}
		delete(entries, victim)
	}
}

// holds reports whether key is the current entry of its digest.
func (c *cache) holds(key *Key) bool {
	s := c.shard(key.Digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key.Digest]
	return known != nil && known.key == key
}

// forget removes the entry of a digest. A lookup in progress is not cached, since it may have read the row before the
// change, and later requests do not join it.
func (c *cache) forget(digest Digest) {
	s := c.shard(digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[digest]; known != nil && known.used != 0 {
		s.left[known.key.ID] = known.used
	}
	delete(s.known, digest)
	delete(s.unknown, digest)
	if f, ok := s.flights[digest]; ok {
		f.outdated = true
		delete(s.flights, digest)
	}
}

// forgetAll is forget for every digest.
func (c *cache) forgetAll() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		clear(s.known)
		clear(s.unknown)
		for _, f := range s.flights {
			f.outdated = true
		}
		clear(s.flights)
		s.mu.Unlock()
	}
}

// uses returns, by key id, the last uses since its previous call.
func (c *cache) uses() map[string]time.Time {
	used := make(map[string]time.Time)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for id, at := range s.left {
			used[id] = time.Unix(at, 0).UTC()
		}
		clear(s.left)
		for _, e := range s.known {
			if e.used != 0 {
				used[e.key.ID] = time.Unix(e.used, 0).UTC()
				e.used = 0
			}
		}
		s.mu.Unlock()
	}
	return used
}
