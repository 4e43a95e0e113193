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

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// Store keeps keys by digest. Each write takes the next number of the change
// feed in its own transaction, and leaves an audit entry in it.
type Store interface {
	// Insert adds a key.
	Insert(ctx context.Context, key Key, digest Digest, entry Entry) error
	// Get gives a key, nil without an error when there is none.
	Get(ctx context.Context, id string) (*Key, error)
	// List gives the keys of an organization, or of all when it is empty, in the
	// order of their ids, those after the given id, up to limit.
	List(ctx context.Context, organization, after string, limit int) ([]Key, error)
	// Change changes a key as decide says, while no other call can change it, and
	// returns the key and its digest. It returns an error of decide as it is and
	// then changes nothing; found is false when there is no such key.
	Change(ctx context.Context, id string, decide Decision) (key Key, digest Digest, found bool, err error)
	// OrganizationLimit gives an organization's limit, zero if it has none.
	OrganizationLimit(ctx context.Context, organization string) (limit.Limit, error)
	// SetOrganizationLimit sets it, or with the zero Limit takes it away. It counts
	// as a change of all keys of the organization.
	SetOrganizationLimit(ctx context.Context, organization string, l limit.Limit, entry Entry) error
	// Audit lists entries, newest first.
	Audit(ctx context.Context, q AuditQuery) ([]Entry, error)
}

// Decision changes a key as it finds it.
type Decision func(key *Key) (Change, error)

// Change is what goes with a changed key.
type Change struct {
	// Entry is for the audit; nil when nothing really changed.
	Entry *Entry
	// Successor is the key that takes the changed one's place, if any.
	Successor *Key
	Digest    Digest // of the successor
}

// Announcer tells all replicas at once that a key has changed. It may fail: the
// change feed tells them within a second anyway.
type Announcer interface {
	Announce(ctx context.Context, digest Digest) error
}

// Manager creates, lists and changes keys. The operator API and the command line
// share it.
type Manager struct {
	pepper   *Pepper
	store    Store
	announce Announcer
	products []string
	log      *slog.Logger
}

// NewManager takes the products that a key may belong to; announce may be nil.
func NewManager(pepper *Pepper, store Store, announce Announcer, products []string, log *slog.Logger) *Manager {
	return &Manager{pepper: pepper, store: store, announce: announce, products: products, log: log}
}

// Request is what a new key shall be.
type Request struct {
	Organization string
	Product      string
	Permissions  []Permission
	Name         string // optional
	Environment  string // "live" when empty
	ExpiresAt    *time.Time
	Limit        limit.Limit // optional
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
	case !validEnvironment(r.Environment):
		return r, apierr.Invalid("environment", "must have 1 to 16 lower-case letters and digits")
	}
	return r, checkMutable(r.Name, r.ExpiresAt, r.Limit, now)
}

// checkMutable checks what may also be changed later.
func checkMutable(name string, expiresAt *time.Time, l limit.Limit, now time.Time) error {
	switch {
	case len(name) > maxName || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return apierr.Invalid("name", "must have at most 200 bytes of UTF-8, and no zero byte")
	case expiresAt != nil && !now.Before(*expiresAt):
		return apierr.Invalid("expires_at", "must lie in the future")
	}
	return checkLimit(l)
}

func checkLimit(l limit.Limit) error {
	if err := l.Check(); err != nil {
		return apierr.Invalid("rate_limit", err.Error())
	}
	return nil
}

// present is the moment as Postgres keeps it.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func newID() string { return "key_" + strings.ToLower(rand.Text()) }

// Create makes a key and gives its text, which is in no place but the answer.
func (m *Manager) Create(ctx context.Context, by Actor, r Request) (Key, secret.Value, error) {
	now := present()
	r, err := r.check(m.products, now)
	if err != nil {
		return Key{}, secret.Value{}, err
	}
	text := mint(r.Environment)
	key := Key{
		ID: newID(), Organization: r.Organization, Product: r.Product, Permissions: r.Permissions,
		Name: r.Name, Environment: r.Environment, CreatedAt: now, ExpiresAt: r.ExpiresAt, Limit: r.Limit,
	}
	entry := key.entry(ActionCreate, by, now, map[string]any{"product": key.Product, "permissions": key.Permissions, "expires_at": key.ExpiresAt})
	if err := m.store.Insert(ctx, key, m.pepper.Digest(text), *entry); err != nil {
		return Key{}, secret.Value{}, fmt.Errorf("create key: %w", err)
	}
	m.log.InfoContext(ctx, "key created", "key", key.ID, "organization", key.Organization, "product", key.Product)
	return key, secret.New(text), nil
}

func (k *Key) entry(action string, by Actor, now time.Time, details map[string]any) *Entry {
	return &Entry{At: now, Actor: by, Action: action, Organization: k.Organization, Key: k.ID, Details: details}
}

// Get gives a key.
func (m *Manager) Get(ctx context.Context, id string) (Key, error) {
	if !caller.Printable(id) { // Postgres would refuse the text
		return Key{}, apierr.NotFound("key")
	}
	key, err := m.store.Get(ctx, id)
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("get key: %w", err)
	case key == nil:
		return Key{}, apierr.NotFound("key")
	}
	return *key, nil
}

// List gives a page of keys, see Store.
func (m *Manager) List(ctx context.Context, organization, after string, limit int) ([]Key, error) {
	keys, err := m.store.List(ctx, organization, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

// Audit gives a page of the audit, see Store.
func (m *Manager) Audit(ctx context.Context, q AuditQuery) ([]Entry, error) {
	entries, err := m.store.Audit(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list audit: %w", err)
	}
	return entries, nil
}
