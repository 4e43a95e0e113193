package apikey

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// Store keeps keys by digest. Each write takes the next number of the change
// feed in its own transaction.
type Store interface {
	// Insert adds a key.
	Insert(ctx context.Context, key Key, digest Digest) error
	// List gives the keys of an organization, or of all when it is empty, in the
	// order of their ids, those after the given id, up to limit.
	List(ctx context.Context, organization, after string, limit int) ([]Key, error)
	// Revoke ends a key now and gives its digest, also when it had ended before.
	// found is false when there is no such key.
	Revoke(ctx context.Context, id string, now time.Time) (digest Digest, found bool, err error)
}

// Announcer tells all replicas at once that a key has changed. It may fail: the
// change feed tells them within a second anyway.
type Announcer interface {
	Announce(ctx context.Context, digest Digest) error
}

// Book creates, lists and revokes keys. The operator API and the command line
// share it.
type Book struct {
	pepper   *Pepper
	store    Store
	announce Announcer
	products []string
	log      *slog.Logger
}

// NewBook takes the products that a key may belong to; announce may be nil.
func NewBook(pepper *Pepper, store Store, announce Announcer, products []string, log *slog.Logger) *Book {
	return &Book{pepper: pepper, store: store, announce: announce, products: products, log: log}
}

// Request is what a new key shall be.
type Request struct {
	Organization string
	Product      string
	Permissions  []Permission
	Name         string // optional
	Environment  string // "live" when empty
	ExpiresAt    *time.Time
}

const maxName = 200

// check decides whether a request may be granted, and fills in defaults.
func (r Request) check(products []string, now time.Time) (Request, error) {
	if r.Environment == "" {
		r.Environment = "live"
	}
	r.Permissions = slices.Compact(slices.Sorted(slices.Values(r.Permissions)))
	unknown := func(p Permission) bool { return p != Read && p != Write }
	switch {
	case r.Organization == "" || !caller.Printable(r.Organization):
		return r, apierr.Invalid("organization_id", "is required: printable ASCII, at most 256 characters")
	case !slices.Contains(products, r.Product):
		return r, apierr.Invalid("product", "must be one of "+strings.Join(products, ", "))
	case len(r.Permissions) == 0 || slices.ContainsFunc(r.Permissions, unknown):
		return r, apierr.Invalid("permissions", "must be read, write or both")
	case len(r.Name) > maxName || !utf8.ValidString(r.Name) || strings.ContainsRune(r.Name, 0):
		return r, apierr.Invalid("name", "must have at most 200 bytes of UTF-8, and no zero byte")
	case !validEnvironment(r.Environment):
		return r, apierr.Invalid("environment", "must have 1 to 16 lower-case letters and digits")
	case r.ExpiresAt != nil && !now.Before(*r.ExpiresAt):
		return r, apierr.Invalid("expires_at", "must lie in the future")
	}
	return r, nil
}

// Create makes a key and gives its text, which is in no place but the answer.
func (b *Book) Create(ctx context.Context, r Request) (Key, secret.Value, error) {
	now := time.Now().UTC().Truncate(time.Microsecond) // what Postgres keeps
	r, err := r.check(b.products, now)
	if err != nil {
		return Key{}, secret.Value{}, err
	}
	text := mint(r.Environment)
	key := Key{
		ID: "key_" + strings.ToLower(rand.Text()), Organization: r.Organization, Product: r.Product,
		Permissions: r.Permissions, Name: r.Name, Environment: r.Environment, CreatedAt: now, ExpiresAt: r.ExpiresAt,
	}
	digest := b.pepper.Digest(text)
	if err := b.store.Insert(ctx, key, digest); err != nil {
		return Key{}, secret.Value{}, fmt.Errorf("create key: %w", err)
	}
	b.log.InfoContext(ctx, "key created", "key", key.ID, "organization", key.Organization, "product", key.Product)
	return key, secret.New(text), nil
}

// List gives a page of keys, see Store.
func (b *Book) List(ctx context.Context, organization, after string, limit int) ([]Key, error) {
	keys, err := b.store.List(ctx, organization, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

// Revoke ends a key for good, on every replica within a second. Doing it again
// changes nothing.
func (b *Book) Revoke(ctx context.Context, id string) error {
	if !caller.Printable(id) { // Postgres would refuse the text
		return apierr.NotFound("key")
	}
	digest, found, err := b.store.Revoke(ctx, id, time.Now().UTC())
	switch {
	case err != nil:
		return fmt.Errorf("revoke key: %w", err)
	case !found:
		return apierr.NotFound("key")
	}
	b.log.InfoContext(ctx, "key revoked", "key", id)
	if b.announce == nil {
		return nil
	}
	if err := b.announce.Announce(ctx, digest); err != nil {
		b.log.WarnContext(ctx, "revocation not announced, the change feed will tell", "key", id, "error", err.Error())
	}
	return nil
}
