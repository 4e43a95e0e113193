package apikey

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Loader finds a key by its digest; nil without an error when there is none.
type Loader interface {
	KeyByDigest(ctx context.Context, digest Digest) (*Key, error)
}

const (
	shards = 64
	// freshFor is how long an entry is served before it is read again. The
	// watcher tells of changes long before; this only heals what it may miss.
	freshFor = time.Minute
	// retryAfter is how long a stale entry is served before the loader is asked
	// again, so that an outage slows down few requests.
	retryAfter = 5 * time.Second
	// unknownFor is how long a key is remembered as unknown.
	unknownFor = time.Minute
	// loadTime bounds one lookup and the waiting for a place to do it.
	loadTime = 2 * time.Second
	// loads is how many lookups may run at once, so that a flood of invented
	// keys can't take all connections from the counters.
	loads = 4
)

// cache holds what is known of keys by digest, known and unknown ones apart so
// that a flood of unknown ones can't push out the known.
type cache struct {
	loader   Loader
	staleFor time.Duration
	limits   Limits
	limit    int // entries of a kind in one shard
	places   chan struct{}
	shards   [shards]shard
}

type shard struct {
	mu      sync.Mutex
	known   map[Digest]*entry
	unknown map[Digest]time.Time
	flights map[Digest]*flight
	// left are the uses, by key id, of keys that were forgotten since uses was called.
	left map[string]int64
}

// entry is a known key; the shard's lock guards it.
type entry struct {
	key    *Key
	loaded time.Time
	until  time.Time // fresh until
	used   int64     // Unix seconds of the last use not yet written down, or 0
}

// flight is one lookup that all who ask for the same key wait for.
type flight struct {
	done chan struct{}
	key  *Key
	err  error
	// outdated says that the key changed while it was being read.
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

// get finds the key of a digest, nil if there is none. While the loader fails,
// an entry it gave earlier is served for staleFor.
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
		return nil, nil // unknown is an answer, not an error.
	}
	f, lead := s.board(digest)
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

// board joins the lookup of the digest, or begins it.
func (s *shard) board(digest Digest) (f *flight, lead bool) {
	if f, ok := s.flights[digest]; ok {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	s.flights[digest] = f
	return f, true
}

// load does the lookup for everyone who waits: the caller that happens to lead
// may leave, so its own context doesn't count.
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

// keep remembers what a lookup that began at started has found, or, when it
// failed, makes do with what was known.
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
		delete(s.unknown, digest) // its own place is room enough
		bound(s.unknown, c.limit)
		s.unknown[digest] = started.Add(unknownFor)
	default:
		delete(s.known, digest) // its own place is room enough
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
		return nil, nil // a dead key is as good as none.
	}
	key.Digest, key.Buckets = digest, key.buckets(c.limits)
	return key, nil
}

// bound makes room for one more entry; map order makes the victim arbitrary.
func bound[V any](entries map[Digest]V, limit int) {
	for victim := range entries {
		if len(entries) < limit {
			return
		}
		delete(entries, victim)
	}
}

// holds reports whether a key is still what is known of it.
func (c *cache) holds(key *Key) bool {
	s := c.shard(key.Digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key.Digest]
	return known != nil && known.key == key
}

// forget drops what is known of a digest. A lookup under way is not kept, since
// it may have read the row before it changed, and who asks from now on doesn't
// wait for it.
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

// uses takes the last uses that were not taken before, by key id.
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
