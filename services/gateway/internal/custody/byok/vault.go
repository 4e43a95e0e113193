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
	// refreshAfter is how old a secret that is named may be before it is read
	// again; keepFor how old it may get while it can't be.
	refreshAfter = time.Minute
	keepFor      = time.Hour
	// pauseAfter is how long a secret is not read again after a failure.
	pauseAfter = 2 * time.Second
	// idleAfter is how long an unused secret stays in memory, maxSecrets how many
	// there are at most.
	idleAfter  = 15 * time.Minute
	maxSecrets = 10_000
	// swapTime bounds reading the new secrets of credentials that are in use, before
	// they take the place of the old ones.
	swapTime = 500 * time.Millisecond
	// readers are how many secrets are read at a time ahead of their use.
	readers = 8
	// pageSize of configurations that are loaded at a time.
	pageSize = 1000
)

// Feed gives what a Vault follows, and takes what it has seen.
type Feed interface {
	// Revision is the present version of the topic.
	Revision(ctx context.Context) (int64, error)
	// ChangedSince lists the configurations of every status behind one (by revision,
	// organization and provider), in that order.
	ChangedSince(ctx context.Context, after Config, limit int) ([]Config, error)
	// Get gives a configuration in whatever status; ErrNone where there never was one.
	Get(ctx context.Context, organization, provider string) (Config, error)
	// Use stores when credentials were last used.
	Use(ctx context.Context, uses []Use) error
}

// Use is the last use of a credential.
type Use struct {
	Organization, Provider string
	At                     time.Time
}

// Vault holds a replica's active configurations and, of those that are in use,
// the secrets. Safe for concurrent use.
type Vault struct {
	feed   Feed
	reader *Reader
	log    *slog.Logger

	writing sync.Mutex
	// level is the version that the last Load was level with. The caller has writing.
	level         int64
	lookups       *lookups
	organizations sync.Map // string to map[string]*held, by provider; the inner map is never changed
	secrets       atomic.Int64
	refresh       chan *held
}

// held is one active configuration.
type held struct {
	config Config
	// used and touched are Unix nanoseconds: of the last call with the secret, and
	// of the last request for it.
	used, touched atomic.Int64
	stored        int64 // the use that the store knows; only the keeper looks at it

	reading chan struct{} // full while one reads
	present atomic.Pointer[known]
	failure atomic.Pointer[failure]
	asked   atomic.Bool // to be read again
}

// known is a secret as it was read.
type known struct {
	credential provider.Credential
	at         time.Time
}

// failure is why a secret could not be read.
type failure struct {
	err error
	at  time.Time
}

// NewVault returns an empty vault.
func NewVault(feed Feed, reader *Reader, log *slog.Logger) *Vault {
	return &Vault{feed: feed, reader: reader, log: log, refresh: make(chan *held, 256), lookups: newLookups()}
}

// Load implements control.Load: it takes in what changed after a version. A
// credential that is in use keeps serving until its successor's secret is read.
func (v *Vault) Load(ctx context.Context, since int64) (int64, error) {
	v.writing.Lock()
	defer v.writing.Unlock()
	level, err := v.feed.Revision(ctx)
	if err != nil {
		return since, err
	}
	if since == 0 {
		v.organizations.Clear()
	}
	after := Config{Revision: since + 1} // Before all that have a name.
	for {
		page, err := v.feed.ChangedSince(ctx, after, pageSize)
		if err != nil {
			return since, err
		}
		v.take(ctx, page)
		if len(page) < pageSize {
			v.level = level
			return level, nil
		}
		after = page[len(page)-1]
	}
}

// take puts changed configurations in the place of those before.
func (v *Vault) take(ctx context.Context, page []Config) {
	ctx, cancel := context.WithTimeout(ctx, swapTime)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(readers)
	fresh := make([]*held, len(page))
	var replaced []*held
	for i, config := range page {
		before := v.find(config.Organization, config.Provider)
		if config.Status != StatusActive {
			v.drop(before)
			continue
		}
		h := newHeld(config)
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
				_, _ = v.read(ctx, h) // Who asks for it next is told.
				return nil
			}))
		}
	}
	_ = group.Wait() // None of them fails.
	for i, config := range page {
		v.set(config.Organization, config.Provider, fresh[i])
	}
	for _, h := range replaced {
		v.drop(h)
	}
}

// sameSecret reports whether a change left the credential alone.
func sameSecret(a, b Config) bool { return a.Version == b.Version && a.CreatedAt.Equal(b.CreatedAt) }

func newHeld(config Config) *held { return &held{config: config, reading: make(chan struct{}, 1)} }

func (v *Vault) find(organization, name string) *held {
	of, ok := v.organizations.Load(organization)
	if !ok {
		return nil
	}
	return of.(map[string]*held)[name] //nolint:errcheck // The map holds nothing else.
}

// set puts a configuration in its place, or takes it away. The caller has writing.
func (v *Vault) set(organization, name string, h *held) {
	next := make(map[string]*held)
	if of, ok := v.organizations.Load(organization); ok {
		maps.Copy(next, of.(map[string]*held)) //nolint:errcheck // The map holds nothing else.
	}
	if next[name] = h; h == nil {
		delete(next, name)
	}
	if len(next) == 0 {
		v.organizations.Delete(organization)
		return
	}
	v.organizations.Store(organization, next)
}

// Find implements keyring.Own. The error is keyring.ErrNoKey where there is no
// active configuration, another one where the secret can't be read. It reads nothing
// once a secret is known, and asks the store only where the request asks for a
// configuration that is not known here.
func (v *Vault) Find(ctx context.Context, organization, name string, asked bool) (provider.Credential, error) {
	h := v.find(organization, name)
	if h == nil && asked {
		h = v.lookup(ctx, place{organization, name})
	}
	if h == nil {
		return provider.Credential{}, keyring.ErrNoKey
	}
	now := time.Now()
	h.touched.Store(now.UnixNano())
	present := h.present.Load()
	if present == nil || h.age(present, now) > keepFor {
		var err error
		if present, err = v.read(ctx, h); err != nil {
			return provider.Credential{}, unreadable(name, err)
		}
	}
	if h.age(present, now) > refreshAfter {
		v.again(h)
	}
	return present.credential, nil
}

// reasonMissingKeys is that of a request for which there is no credential.
const reasonMissingKeys apierr.Reason = "missing_keys"

// unreadable is what a request is told whose credential can't be read.
func unreadable(name string, err error) error {
	e := apierr.Error{
		Kind: apierr.KindUnavailable, Reason: reasonMissingKeys, Class: apierr.ClassTransient, RetryAfter: pauseAfter,
		Text: "no provider configured (missing keys): the organization's credential for " + name + " can't be read", Cause: err,
	}
	if gone(err) {
		e.Class, e.RetryAfter = apierr.ClassAuth, 0 // It won't come back by itself.
	}
	return &e
}

// age is how long ago a secret was read that may be another now. What is sealed
// never is.
func (h *held) age(k *known, now time.Time) time.Duration {
	if h.config.Custody == CustodySealed {
		return 0
	}
	return now.Sub(k.at)
}

// again has a secret read once more, by the side.
func (v *Vault) again(h *held) {
	if !h.asked.CompareAndSwap(false, true) {
		return
	}
	select {
	case v.refresh <- h:
	default:
		h.asked.Store(false)
	}
}

// read reads a secret, one caller at a time; the others get what that one found.
// For pauseAfter after a failure, no caller tries again.
func (v *Vault) read(ctx context.Context, h *held) (*known, error) {
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
	value, err := v.reader.Read(ctx, h.config.Organization, h.config.Provider, h.config.Credential)
	if err != nil {
		return nil, v.failed(ctx, h, err)
	}
	fresh := &known{at: now, credential: provider.Credential{
		Key: value, Source: keyring.SourceByok, Fingerprint: v.reader.Fingerprint(value),
	}}
	h.failure.Store(nil)
	if h.present.Load() != nil || v.secrets.Load() < maxSecrets {
		if h.present.Swap(fresh) == nil {
			v.secrets.Add(1)
		}
	}
	return fresh, nil
}

// failed notes that a secret can't be read. One that is gone is used no more; one
// that can't be read now may be, see keepFor.
func (v *Vault) failed(ctx context.Context, h *held, err error) error {
	if ctx.Err() != nil {
		return err // The caller's time was over.
	}
	if h.failure.Swap(&failure{err, time.Now()}) == nil {
		v.log.WarnContext(ctx, "an organization's credential can't be read", slog.String("organization", h.config.Organization),
			slog.String("provider", h.config.Provider), slog.String("custody", string(h.config.Custody)), slog.String("error", err.Error()))
	}
	if gone(err) {
		v.drop(h)
	}
	return err
}

// drop forgets a secret.
func (v *Vault) drop(h *held) {
	if h != nil && h.present.Swap(nil) != nil {
		v.secrets.Add(-1)
	}
}

// Used notes that a call was made with an organization's credential.
func (v *Vault) Used(organization, name string, at time.Time) {
	h := v.find(organization, name)
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
