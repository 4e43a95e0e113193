// Package cache stores whole answers, so that an identical request of the same organization is answered again without a
// provider. Package inference reads and writes it and package api purges it. The sealed answers are stored by
// internal/redis, the epochs that invalidate them by internal/postgres.
//
// An answer is found only by its organization, the credential that paid for it and everything that affects the meaning
// of the request. It belongs to one epoch of its organization. A purge begins the next epoch, durably; an answer of an
// earlier epoch is never served again, whether it could be deleted or not.
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
	// MaxAnswer is the largest answer that is stored, in bytes.
	MaxAnswer = 1 << 20
	// MinSecret is the shortest secret that answers may be sealed with, in bytes.
	MinSecret = 32

	// epochAge is how long a replica uses an epoch after it has read it. If the store could not be told of a purge,
	// another replica may serve purged answers for that long.
	epochAge = time.Second
	// wait bounds how long a request waits for the store and for an epoch.
	wait = 50 * time.Millisecond
	// rest is how long the store is not called after a failure.
	rest = time.Second
	// maxEpochs bounds the epochs that are kept in memory.
	maxEpochs = 10_000
)

// ReasonPurgeIncomplete means that a purge is in force but has not deleted everything yet.
const ReasonPurgeIncomplete apierr.Reason = "purge_incomplete"

// Key is the key of an answer in the store: keyed hashes that reveal neither organization nor request, and the epoch
// of the organization. The zero Key stores nothing.
type Key struct {
	Organization string
	Epoch        int64
	Answer       string
}

// Store stores sealed answers for a time. It may lose them at any moment.
type Store interface {
	// Get returns an answer; nil if there is none. newest is the latest epoch of the organization that the store knows.
	Get(ctx context.Context, k Key) (sealed []byte, newest int64, err error)
	// Put stores an answer unless the store knows a later epoch.
	Put(ctx context.Context, k Key, sealed []byte, ttl time.Duration) error
	// Purge sets the organization's epoch in the store and deletes its answers of earlier epochs.
	Purge(ctx context.Context, organization string, epoch int64) (purged int, err error)
}

// Epochs counts the purges of organizations, durably. They are stored in Postgres, so that a purge holds while Redis is
// unavailable: it then answers 503 purge_incomplete, and after epochAge no replica serves older answers.
type Epochs interface {
	Epoch(ctx context.Context, organization string) (int64, error)
	// Bump begins the next epoch and returns it.
	Bump(ctx context.Context, organization string) (epoch int64, at time.Time, err error)
}

// Scope says whose answer it is.
type Scope struct {
	Organization string
	// Credential identifies what paid for the answer: "fleet", or "byok" and a fingerprint.
	Credential string
}

// Cache stores answers of requests. It is safe for concurrent use.
type Cache struct {
	store  Store // nil stores nothing; purges are in force all the same
	epochs Epochs
	secret []byte
	log    *slog.Logger

	mu    sync.Mutex
	known map[string]known

	asleep atomic.Int64 // Unix nanoseconds until which the store is not called
}

// known is an epoch and when it was read.
type known struct {
	epoch int64
	at    time.Time
}

// CheckSecret refuses a secret that is too short.
func CheckSecret(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("cache: the secret has %d bytes, want %d or more", len(secret), MinSecret)
	}
	return nil
}

// New returns a Cache that stores answers in store, sealed with secret. With a nil store it stores nothing. It fails if
// the secret is shorter than MinSecret.
func New(store Store, epochs Epochs, secret []byte, log *slog.Logger) (*Cache, error) {
	if store != nil {
		if err := CheckSecret(secret); err != nil {
			return nil, err
		}
	}
	return &Cache{store: store, epochs: epochs, secret: secret, log: log, known: make(map[string]known)}, nil
}

// Keeps reports whether there is a store.
func (c *Cache) Keeps() bool { return c.store != nil }

// Get returns the stored answer to a request. nil is a miss, and Put may store the answer under the returned key. Every
// failure is a miss, after a short wait at most.
func (c *Cache) Get(ctx context.Context, scope Scope, request []byte) (answer []byte, k Key) {
	if c.store == nil || c.rests() {
		return nil, Key{}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	k, err := c.keyOf(ctx, scope, request)
	if err != nil {
		c.fail(ctx, err)
		return nil, Key{}
	}
	sealed, newest, err := c.store.Get(ctx, k)
	switch {
	case err != nil:
		c.fail(ctx, err)
		return nil, Key{}
	case newest > k.Epoch:
		c.learn(scope.Organization, newest)
		k.Epoch = newest
		return nil, k
	case sealed == nil:
		return nil, k
	}
	if answer, err = c.open(k, sealed); err != nil {
		c.log.WarnContext(ctx, "a cached answer can't be opened", slog.String("error", err.Error()))
		return nil, k
	}
	return answer, k
}

// Put stores an answer under the key that Get returned. The key is of the epoch at that time: an answer that was under
// way during a purge is either not stored or never found.
func (c *Cache) Put(ctx context.Context, k Key, answer []byte, ttl time.Duration) {
	if c.store == nil || k == (Key{}) || len(answer) > MaxAnswer || c.rests() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	sealed, err := c.seal(k, answer)
	if err == nil {
		err = c.store.Put(ctx, k, sealed, ttl)
	}
	if err != nil {
		c.fail(ctx, err)
	}
}

// Purged is the result of a purge.
type Purged struct {
	Count int
	At    time.Time
}

// Purge ends an organization's epoch and deletes its answers. It may be repeated. An error with ReasonPurgeIncomplete
// means that none of the answers will be served again, but that not all of them are deleted yet.
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

// fail stops calls to the store for the time rest. It ignores the error of a caller that left.
func (c *Cache) fail(ctx context.Context, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	now := time.Now()
	if until := c.asleep.Load(); now.UnixNano() >= until && c.asleep.CompareAndSwap(until, now.Add(rest).UnixNano()) {
		c.log.WarnContext(ctx, "response cache failed; calling providers instead", slog.String("error", err.Error()))
	}
}

// keyOf returns the key of a request's answer.
func (c *Cache) keyOf(ctx context.Context, scope Scope, request []byte) (Key, error) {
	if scope.Organization == "" || scope.Credential == "" {
		return Key{}, errors.New("an answer needs an organization and a credential")
	}
	epoch, err := c.epoch(ctx, scope.Organization)
	if err != nil {
		return Key{}, err
	}
	return Key{
		Organization: c.hide("organization", scope.Organization), Epoch: epoch,
		Answer: c.hide("answer", scope.Organization, scope.Credential, string(request)),
	}, nil
}

// epoch returns an organization's epoch, read again once it is older than epochAge.
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

// learn stores a later epoch.
func (c *Cache) learn(organization string, epoch int64) {
	c.note(organization, known{epoch, time.Now()})
}

// note stores an epoch unless a later one is known already.
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

// hide returns a keyed hash of the parts, which reveals nothing of them.
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

// seal encrypts an answer (AES-256-GCM, NIST SP 800-38D) under a key of its organization, bound to its Key.
func (c *Cache) seal(k Key, answer []byte) ([]byte, error) {
	aead, err := c.aead(k)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(answer)+aead.Overhead())
	_, _ = rand.Read(nonce) // It never fails.
	return aead.Seal(nonce, nonce, answer, k.bind()), nil
}

func (c *Cache) open(k Key, sealed []byte) ([]byte, error) {
	aead, err := c.aead(k)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("too short")
	}
	nonce, text := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	return aead.Open(nil, nonce, text, k.bind())
}

func (c *Cache) aead(k Key) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, c.secret, nil, "answers of "+k.Organization, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

func (k Key) bind() []byte { return fmt.Appendf(nil, "%s/%d/%s", k.Organization, k.Epoch, k.Answer) }
