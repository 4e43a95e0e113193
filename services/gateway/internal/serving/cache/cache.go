// Package cache keeps whole answers of an organization, so that the very same
// request is answered again without a provider. Package inference asks it and
// package api purges it; the answers lie in internal/redis, sealed, and the
// epochs that end them in internal/postgres.
//
// An answer is found by its organization, the credential that paid for it and
// everything that the request means, never across any of them. It is of one
// epoch of its organization: a purge begins the next, durably, and what is of an
// earlier one is never served again, whether it could be deleted or not.
package cache

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
)

const (
	// MaxAnswer is the largest answer that is kept, in bytes.
	MaxAnswer = 1 << 20
	// MinSecret is the shortest secret that answers are sealed with, in bytes.
	MinSecret = 32

	// epochAge is how long a replica goes by an epoch that it has read: so long
	// may another one serve what was purged while the store couldn't be told.
	epochAge = time.Second
	// wait bounds what a request waits for the store, or for an epoch.
	wait = 50 * time.Millisecond
	// rest is how long a store that failed is left alone.
	rest = time.Second
	// maxEpochs bounds the epochs that are remembered.
	maxEpochs = 10_000
)

// ReasonPurgeIncomplete is a purge that holds, but has not deleted everything.
const ReasonPurgeIncomplete apierr.Reason = "purge_incomplete"

// Place is where the store keeps an answer: names that tell nothing, and the
// epoch of the organization. The zero Place keeps nothing.
type Place struct {
	Organization string
	Epoch        int64
	Answer       string
}

// Store keeps sealed answers for a time. It may lose them whenever it likes.
type Store interface {
	// Get gives an answer; nil where there is none. newest is the organization's
	// epoch as far as the store was told.
	Get(ctx context.Context, p Place) (sealed []byte, newest int64, err error)
	// Put keeps an answer, unless the store was told of a later epoch.
	Put(ctx context.Context, p Place, sealed []byte, ttl time.Duration) error
	// Purge tells the store of an epoch and deletes what an organization has of
	// earlier ones.
	Purge(ctx context.Context, organization string, epoch int64) (purged int, err error)
}

// Epochs counts the purges of organizations, durably.
type Epochs interface {
	Epoch(ctx context.Context, organization string) (int64, error)
	// Bump begins the next epoch.
	Bump(ctx context.Context, organization string) (epoch int64, at time.Time, err error)
}

// Scope is whose answer it is.
type Scope struct {
	Organization string
	// Credential names what paid for it: "fleet", or "byok" and a fingerprint.
	Credential string
}

// Cache keeps answers. Safe for concurrent use.
type Cache struct {
	store  Store // nil: nothing is kept, and purges hold all the same
	epochs Epochs
	secret []byte
	log    *slog.Logger

	mu    sync.Mutex
	known map[string]known

	asleep atomic.Int64 // Unix nanoseconds until which the store is left alone
}

// known is an epoch as it was read at a moment.
type known struct {
	epoch int64
	at    time.Time
}

// New returns a cache over a store, sealed with a secret; over no store it keeps
// nothing.
func New(store Store, epochs Epochs, secret []byte, log *slog.Logger) (*Cache, error) {
	if store != nil && len(secret) < MinSecret {
		return nil, fmt.Errorf("cache: the secret has %d bytes, want %d or more", len(secret), MinSecret)
	}
	return &Cache{store: store, epochs: epochs, secret: secret, log: log, known: make(map[string]known)}, nil
}

// Keeps reports whether there is a store.
func (c *Cache) Keeps() bool { return c.store != nil }

// Get gives the answer to a request, where one is kept; nil is a miss, and the
// place is where Put may keep the answer then. Whatever fails is a miss, after a
// short wait at the most.
func (c *Cache) Get(ctx context.Context, scope Scope, request []byte) (answer []byte, p Place) {
	if c.store == nil || c.rests() {
		return nil, Place{}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p, err := c.place(ctx, scope, request)
	if err != nil {
		c.fail(ctx, err)
		return nil, Place{}
	}
	sealed, newest, err := c.store.Get(ctx, p)
	switch {
	case err != nil:
		c.fail(ctx, err)
		return nil, Place{}
	case newest > p.Epoch:
		c.learn(scope.Organization, newest)
		p.Epoch = newest
		return nil, p
	case sealed == nil:
		return nil, p
	}
	if answer, err = c.open(p, sealed); err != nil {
		c.log.WarnContext(ctx, "a cached answer can't be opened", slog.String("error", err.Error()))
		return nil, p
	}
	return answer, p
}

// Put keeps an answer at the place where Get looked for it. The place is of the
// epoch of then: an answer that was under way during a purge is not kept, or
// not found.
func (c *Cache) Put(ctx context.Context, p Place, answer []byte, ttl time.Duration) {
	if c.store == nil || p == (Place{}) || len(answer) > MaxAnswer || c.rests() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	sealed, err := c.seal(p, answer)
	if err == nil {
		err = c.store.Put(ctx, p, sealed, ttl)
	}
	if err != nil {
		c.fail(ctx, err)
	}
}

// Purged is what a purge did.
type Purged struct {
	Count int
	At    time.Time
}

// Purge ends an organization's epoch and deletes what it has. It may be
// repeated. An error with ReasonPurgeIncomplete means that nothing of it will be
// served again, and that not everything is deleted yet.
func (c *Cache) Purge(ctx context.Context, organization string) (Purged, error) {
	epoch, at, err := c.epochs.Bump(ctx, organization)
	if err != nil {
		return Purged{}, apierr.Unavailable("the purge can't be recorded right now", err)
	}
	c.learn(organization, epoch)
	if c.store == nil {
		return Purged{At: at}, nil
	}
	n, err := c.store.Purge(ctx, c.hide("organization", organization), epoch)
	if err != nil {
		e := apierr.New(apierr.KindUnavailable, ReasonPurgeIncomplete,
			"cached answers are no longer served, but not all of them are deleted yet; send the purge again")
		e.RetryAfter = rest
		return Purged{}, e.Wrap(err)
	}
	return Purged{Count: n, At: at}, nil
}

func (c *Cache) rests() bool { return time.Now().UnixNano() < c.asleep.Load() }

// fail leaves the store alone for a moment. A caller who left says nothing of it.
func (c *Cache) fail(ctx context.Context, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	now := time.Now()
	if until := c.asleep.Load(); now.UnixNano() >= until && c.asleep.CompareAndSwap(until, now.Add(rest).UnixNano()) {
		c.log.WarnContext(ctx, "response cache out of reach; providers answer", slog.String("error", err.Error()))
	}
}

// place finds where a request's answer is kept.
func (c *Cache) place(ctx context.Context, scope Scope, request []byte) (Place, error) {
	if scope.Organization == "" || scope.Credential == "" {
		return Place{}, errors.New("an answer needs an organization and a credential")
	}
	epoch, err := c.epoch(ctx, scope.Organization)
	if err != nil {
		return Place{}, err
	}
	return Place{
		Organization: c.hide("organization", scope.Organization), Epoch: epoch,
		Answer: c.hide("answer", scope.Organization, scope.Credential, string(request)),
	}, nil
}

// epoch is an organization's, read again once it is a second old.
func (c *Cache) epoch(ctx context.Context, organization string) (int64, error) {
	now := time.Now()
	c.mu.Lock()
	k, ok := c.known[organization]
	c.mu.Unlock()
	if ok && now.Sub(k.at) < epochAge {
		return k.epoch, nil
	}
	epoch, err := c.epochs.Epoch(ctx, organization)
	if err != nil {
		return 0, fmt.Errorf("epoch: %w", err)
	}
	c.note(organization, known{epoch, now})
	return epoch, nil
}

// learn takes over a later epoch.
func (c *Cache) learn(organization string, epoch int64) {
	c.note(organization, known{epoch, time.Now()})
}

// note remembers an epoch; one that is older than what is known is late.
func (c *Cache) note(organization string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.known[organization]; ok && old.epoch > k.epoch {
		return
	}
	if len(c.known) >= maxEpochs {
		clear(c.known)
	}
	c.known[organization] = k
}

// hide makes a name of parts that tells nothing of them.
func (c *Cache) hide(kind string, parts ...string) string {
	mac := hmac.New(sha256.New, c.secret)
	_, _ = mac.Write([]byte(kind))
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = mac.Write(size[:])
		_, _ = mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// seal encrypts an answer (AES-256-GCM, NIST SP 800-38D) under a key of its
// organization, bound to its place.
func (c *Cache) seal(p Place, answer []byte) ([]byte, error) {
	aead, err := c.aead(p)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(answer)+aead.Overhead())
	_, _ = rand.Read(nonce) // It never fails.
	return aead.Seal(nonce, nonce, answer, p.bind()), nil
}

func (c *Cache) open(p Place, sealed []byte) ([]byte, error) {
	aead, err := c.aead(p)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("too short")
	}
	nonce, text := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	return aead.Open(nil, nonce, text, p.bind())
}

func (c *Cache) aead(p Place) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, c.secret, nil, "answers of "+p.Organization, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

func (p Place) bind() []byte { return fmt.Appendf(nil, "%s/%d/%s", p.Organization, p.Epoch, p.Answer) }
