package byok

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

const (
	// refreshAfter is the age at which a referenced secret is read again; keepFor is the age up to which it is used
	// while it can't be read.
	refreshAfter = time.Minute
	keepFor      = time.Hour
	// pauseAfter is how long a secret is not read again after a failure.
	pauseAfter = 2 * time.Second
	// idleAfter is how long an unused secret stays in memory; maxSecrets is the largest number of secrets in memory.
	idleAfter  = 15 * time.Minute
	maxSecrets = 10_000
	// swapTime bounds reading the new secrets of credentials in use, before they replace the old ones.
	swapTime = 500 * time.Millisecond
	// readers is the number of secrets that are read concurrently ahead of their use.
	readers = 8
	// pageSize is the number of configurations that are loaded at a time.
	pageSize = 1000
)

// Feed delivers the configurations that a Cache follows, and stores the uses that it reports.
type Feed interface {
	// Revision returns the current version of the topic.
	Revision(ctx context.Context) (int64, error)
	// ChangedSince returns the configurations, of every status, that follow after in the order of revision,
	// organization and provider.
	ChangedSince(ctx context.Context, after Config, limit int) ([]Config, error)
	// Get returns a configuration with any status, or ErrNone if it never existed.
	Get(ctx context.Context, organization, provider string) (Config, error)
	// Use stores when credentials were last used.
	Use(ctx context.Context, uses []Use) error
}

// Use is the last use of a credential.
type Use struct {
	Organization, Provider string
	At                     time.Time
}

// Cache holds a replica's active configurations and the secrets in use. Safe for concurrent use.
type Cache struct {
	feed   Feed
	reader *Reader
	log    *slog.Logger

	writing sync.Mutex
	// level is the version that the last Load reached. The caller holds writing.
	level         int64
	lookups       *lookups
	organizations sync.Map // string to map[string]*entry, by provider; the inner map is never changed
	secrets       atomic.Int64
	refresh       chan *entry
}

// entry is one active configuration.
type entry struct {
	config Config
	// used and touched are Unix nanoseconds of the last call with the secret, and of the last request for it.
	used, touched atomic.Int64
	stored        int64 // the use that the store has; only Run reads and writes it

	reading    chan struct{} // a semaphore: full while one caller reads
	present    atomic.Pointer[cachedSecret]
	failure    atomic.Pointer[failure]
	refreshing atomic.Bool // a read is queued
}

// cachedSecret is a secret with the time at which it was read.
type cachedSecret struct {
	credential provider.Credential
	at         time.Time
}

// failure is why a secret could not be read.
type failure struct {
	err error
	at  time.Time
}

// NewCache returns an empty Cache.
func NewCache(feed Feed, reader *Reader, log *slog.Logger) *Cache {
	return &Cache{feed: feed, reader: reader, log: log, refresh: make(chan *entry, 256), lookups: newLookups()}
}

// Load implements control.Load: it loads what changed after a version. A credential in use keeps serving until its
// successor's secret is read.
func (c *Cache) Load(ctx context.Context, since int64) (int64, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	level, err := c.feed.Revision(ctx)
	if err != nil {
		return since, err
	}
	if since == 0 {
		c.organizations.Clear()
	}
	after := Config{Revision: since + 1} // Before all that have a name.
	for {
		page, err := c.feed.ChangedSince(ctx, after, pageSize)
		if err != nil {
			return since, err
		}
		c.replace(ctx, page)
		if len(page) < pageSize {
			c.level = level
			return level, nil
		}
		after = page[len(page)-1]
	}
}

// replace puts changed configurations in place of the previous ones.
func (c *Cache) replace(ctx context.Context, page []Config) {
	ctx, cancel := context.WithTimeout(ctx, swapTime)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(readers)
	fresh := make([]*entry, len(page))
	var replaced []*entry
	for i, config := range page {
		before := c.find(config.Organization, config.Provider)
		if config.Status != StatusActive {
			c.drop(before)
			continue
		}
		h := newCacheEntry(config)
		fresh[i] = h
		if before == nil {
			continue
		}
		present := before.present.Load()
		h.used.Store(before.used.Load())
		h.touched.Store(before.touched.Load())
		switch {
		case present == nil:
		case sameSecret(before.config, config):
			h.present.Store(present)
		default:
			replaced = append(replaced, before)
			group.Go(panics.Guard(func() error {
				_, _ = c.read(ctx, h) // The next request that needs it gets the error.
				return nil
			}))
		}
	}
	_ = group.Wait() // None of the functions returns an error.
	for i, config := range page {
		c.set(config.Organization, config.Provider, fresh[i])
	}
	for _, h := range replaced {
		c.drop(h)
	}
}

// sameSecret reports whether a change left the credential unchanged.
func sameSecret(a, b Config) bool { return a.Version == b.Version && a.CreatedAt.Equal(b.CreatedAt) }

func newCacheEntry(config Config) *entry {
	return &entry{config: config, reading: make(chan struct{}, 1)}
}

func (c *Cache) find(organization, name string) *entry {
	of, ok := c.organizations.Load(organization)
	if !ok {
		return nil
	}
	return of.(map[string]*entry)[name] //nolint:errcheck // The map holds nothing else.
}

// set stores a configuration, or removes it if h is nil. The caller holds writing.
func (c *Cache) set(organization, name string, h *entry) {
	next := make(map[string]*entry)
	if of, ok := c.organizations.Load(organization); ok {
		maps.Copy(next, of.(map[string]*entry)) //nolint:errcheck // The map holds nothing else.
	}
	if next[name] = h; h == nil {
		delete(next, name)
	}
	if len(next) == 0 {
		c.organizations.Delete(organization)
		return
	}
	c.organizations.Store(organization, next)
}

// Find implements keyring.Own. The error is keyring.ErrNoKey if there is no active configuration, and another one if
// the secret can't be read. It does no I/O once a secret is known, and queries the store only if the request asks for a
// configuration that is not known on this replica.
func (c *Cache) Find(ctx context.Context, organization, name string, requested bool) (provider.Credential, error) {
	h := c.find(organization, name)
	if h == nil && requested {
		h = c.lookup(ctx, place{organization, name})
	}
	if h == nil {
		return provider.Credential{}, keyring.ErrNoKey
	}
	now := time.Now()
	h.touched.Store(now.UnixNano())
	present := h.present.Load()
	if present == nil || h.age(present, now) > keepFor {
		var err error
		if present, err = c.read(ctx, h); err != nil {
			return provider.Credential{}, unreadable(name, err)
		}
	}
	if h.age(present, now) > refreshAfter {
		c.requestRefresh(h)
	}
	return present.credential, nil
}

// reasonMissingKeys is the reason of a refusal because there is no credential.
const reasonMissingKeys apierr.Reason = "missing_keys"

// unreadable returns the error of a request whose credential can't be read.
func unreadable(name string, err error) error {
	e := apierr.Error{
		Kind: apierr.KindUnavailable, Reason: reasonMissingKeys, Class: apierr.ClassTransient, RetryAfter: pauseAfter,
		Text: "no provider configured (missing keys): the organization's credential for " + name + " can't be read", Cause: err,
	}
	if permanent(err) {
		e.Class, e.RetryAfter = apierr.ClassAuth, 0 // A retry doesn't help.
	}
	return &e
}

// age returns how long ago a secret was read that may have changed since. A sealed secret never changes, and its age is
// 0.
func (h *entry) age(k *cachedSecret, now time.Time) time.Duration {
	if h.config.Custody == CustodySealed {
		return 0
	}
	return now.Sub(k.at)
}

// requestRefresh queues a secret to be read again in the background.
func (c *Cache) requestRefresh(h *entry) {
	if !h.refreshing.CompareAndSwap(false, true) {
		return
	}
	select {
	case c.refresh <- h:
	default:
		h.refreshing.Store(false)
	}
}

// read reads a secret. One caller reads at a time; the others get its result. For pauseAfter after a failure, no caller
// tries again.
func (c *Cache) read(ctx context.Context, h *entry) (*cachedSecret, error) {
	select {
	case h.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.reading }()
	now := time.Now()
	if present := h.present.Load(); present != nil && h.age(present, now) <= refreshAfter {
		return present, nil
	}
	before := h.failure.Load()
	if before != nil && now.Sub(before.at) < pauseAfter {
		return nil, before.err
	}
	value, err := c.reader.Read(ctx, h.config.Organization, h.config.Provider, h.config.Credential)
	if err != nil {
		return nil, c.failed(ctx, h, err)
	}
	fresh := &cachedSecret{at: now, credential: provider.Credential{
		Key: value, Source: keyring.SourceByok, Fingerprint: c.reader.Fingerprint(value),
	}}
	h.failure.Store(nil)
	if h.present.Load() != nil || c.secrets.Load() < maxSecrets {
		if h.present.Swap(fresh) == nil {
			c.secrets.Add(1)
		}
	}
	return fresh, nil
}

// failed records that a secret can't be read. A secret that is permanently unreadable is no longer used; one that is
// unreadable at the moment may be, see keepFor.
func (c *Cache) failed(ctx context.Context, h *entry, err error) error {
	if ctx.Err() != nil {
		return err // The caller's time was up.
	}
	if h.failure.Swap(&failure{err, time.Now()}) == nil {
		c.log.WarnContext(ctx, "an organization's credential can't be read", slog.String("organization", h.config.Organization),
			slog.String("provider", h.config.Provider), slog.String("custody", string(h.config.Custody)), slog.String("error", err.Error()))
	}
	if permanent(err) {
		c.drop(h)
	}
	return err
}

// drop removes a secret from memory.
func (c *Cache) drop(h *entry) {
	if h != nil && h.present.Swap(nil) != nil {
		c.secrets.Add(-1)
	}
}

// Used records that a call was made with an organization's credential.
func (c *Cache) Used(organization, name string, at time.Time) {
	h := c.find(organization, name)
	if h == nil {
		return
	}
	for next := at.UnixNano(); ; {
		before := h.used.Load()
		if before >= next || h.used.CompareAndSwap(before, next) {
			return
		}
	}
}
