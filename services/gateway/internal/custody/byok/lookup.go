package byok

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"switchyard.dev/services/platform/fairshare"
)

const (
	// lookupTime bounds a lookup of a configuration that is not known on this replica, including the wait for a slot.
	lookupTime = 500 * time.Millisecond
	// absentFor is how long the result "absent" is cached: shorter than changes take to arrive through the feed.
	absentFor = 100 * time.Millisecond
	// maxAbsent bounds the number of cached absences.
	maxAbsent = 4096
	// maxLookups bounds the number of concurrent lookups; lookupShare is the percentage of them that one organization
	// may hold.
	maxLookups, lookupShare = 4, 50
)

// place identifies a configuration.
type place struct{ organization, provider string }

// lookups asks the store for configurations that changed so recently that this replica does not know them yet.
// Concurrent callers for the same configuration share one query, and an absence is cached for absentFor: requests that
// name an absent configuration cost the store little, however many they are.
type lookups struct {
	flights singleflight.Group
	places  *fairshare.Places

	mu     sync.Mutex
	absent map[place]time.Time // when it was found to be absent
}

func newLookups() *lookups {
	return &lookups{places: fairshare.NewPlaces(maxLookups, lookupShare), absent: make(map[place]time.Time)}
}

// isAbsent reports whether a lookup found no configuration less than absentFor ago.
func (l *lookups) isAbsent(at place, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, ok := l.absent[at]
	if ok && now.Sub(since) >= absentFor {
		delete(l.absent, at)
		ok = false
	}
	return ok
}

func (l *lookups) setAbsent(at place, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.absent) >= maxAbsent {
		clear(l.absent)
	}
	l.absent[at] = now
}

// lookup returns a configuration that another replica has just stored, or nil if there is none or it was not found
// within lookupTime.
func (c *Cache) lookup(ctx context.Context, at place) *entry {
	if c.lookups.isAbsent(at, time.Now()) {
		return nil
	}
	found := c.lookups.flights.DoChan(at.organization+"\x00"+at.provider, func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		return c.fetch(bounded, at), nil
	})
	select {
	case result := <-found:
		return result.Val.(*entry) //nolint:errcheck,forcetypeassert // fetch returns nothing else.
	case <-ctx.Done():
		return nil
	}
}

// fetch queries the store, and keeps the configuration until the feed delivers it.
func (c *Cache) fetch(ctx context.Context, at place) *entry {
	release, err := c.lookups.places.Acquire(ctx, at.organization)
	if err != nil {
		return nil
	}
	defer release()
	if c.lookups.isAbsent(at, time.Now()) { // The lookup before this one found it absent.
		return nil
	}
	config, err := c.feed.Get(ctx, at.organization, at.provider)
	if err == nil && config.Status == StatusActive {
		return c.insertFound(config)
	}
	if err != nil && !errors.Is(err, ErrNone) {
		c.log.WarnContext(ctx, "an organization's configuration can't be looked up", slog.String("organization", at.organization),
			slog.String("provider", at.provider), slog.String("error", err.Error()))
	}
	c.lookups.setAbsent(at, time.Now())
	return nil
}

// insertFound inserts a configuration that was looked up. If the feed has delivered the configuration since, the feed's
// wins: it is never older.
func (c *Cache) insertFound(config Config) *entry {
	c.writing.Lock()
	defer c.writing.Unlock()
	h := c.find(config.Organization, config.Provider)
	if h == nil && config.Revision > c.level {
		h = newCacheEntry(config)
		c.set(config.Organization, config.Provider, h)
	}
	return h
}
