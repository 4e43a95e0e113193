package apikey

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// Store persists keys by digest. Each write takes the next number of the change feed in its own transaction, and adds
// an audit entry in it.
type Store interface {
	// Insert adds a key.
	Insert(ctx context.Context, key Key, digest Digest, entry Entry) error
	// Get returns a key, or nil without an error if there is none.
	Get(ctx context.Context, id string) (*Key, error)
	// List returns up to limit keys of an organization, or of all if it is empty, with ids after the given one, in
	// the order of ids.
	List(ctx context.Context, organization, after string, limit int) ([]Key, error)
	// Change applies decide to a locked key, and returns the key and its digest. It returns an error of decide
	// unchanged and then changes nothing; found is false if there is no such key.
	Change(ctx context.Context, id string, decide Decision) (key Key, digest Digest, found bool, err error)
	// OrganizationLimit returns an organization's limit, zero if it has none.
	OrganizationLimit(ctx context.Context, organization string) (limit.Limit, error)
	// SetOrganizationLimit sets the limit, or removes it for the zero Limit. It counts as a change of all keys of the
	// organization.
	SetOrganizationLimit(ctx context.Context, organization string, l limit.Limit, entry Entry) error
	// OrganizationPlan returns the name of an organization's plan, empty if it has none.
	OrganizationPlan(ctx context.Context, organization string) (string, error)
	// SetOrganizationPlan puts an organization on a plan, or on none for an empty name. It counts as a change of all keys
	// of the organization. Like Insert and Change, it returns ErrPlan if there is no such plan.
	SetOrganizationPlan(ctx context.Context, organization, name string, entry Entry) error
	// Audit returns entries, newest first.
	Audit(ctx context.Context, q AuditQuery) ([]Entry, error)
}

// Decision changes a key.
type Decision func(key *Key) (Change, error)

// Change accompanies a changed key.
type Change struct {
	// Entry is for the audit; nil if nothing really changed.
	Entry *Entry
	// Successor is the key that replaces the changed one, if any.
	Successor *Key
	Digest    Digest // of the successor
}

// Announcer notifies all replicas that a key has changed. It may fail: they find the change in the feed within a
// second anyway.
type Announcer interface {
	Announce(ctx context.Context, digest Digest) error
}

// Manager creates, lists and changes keys, for the operator API and the command line.
type Manager struct {
	pepper   *Pepper
	store    Store
	announce Announcer
	products []string
	log      *slog.Logger
}

// NewManager returns a Manager; keys may belong to one of products. announce may be nil.
func NewManager(pepper *Pepper, store Store, announce Announcer, products []string, log *slog.Logger) *Manager {
	return &Manager{pepper: pepper, store: store, announce: announce, products: products, log: log}
}

// Request is a request for a new key.
type Request struct {
	Organization string
	Product      string
	Permissions  []Permission
	Name         string // optional
	Environment  string // "live" when empty
	ExpiresAt    *time.Time
	Limit        limit.Limit // optional
	Terms        Terms       // optional
	Plan         string      // optional
}

const maxName = 200

// check validates a request and fills in defaults.
func (r Request) check(products []string, now time.Time) (Request, error) {
	if r.Environment == "" {
		r.Environment = "live"
	}
	r.Terms = r.Terms.normal()
	r.Permissions = slices.Compact(slices.Sorted(slices.Values(r.Permissions)))
	switch {
	case r.Organization == "" || !caller.Printable(r.Organization):
		return r, apierr.Invalid("organization_id", "is required: printable ASCII, at most 256 characters")
	case !slices.Contains(products, r.Product):
		return r, apierr.Invalid("product", "must be one of "+strings.Join(products, ", "))
	case !validEnvironment(r.Environment):
		return r, apierr.Invalid("environment", "must have 1 to 16 lower-case letters and digits")
	}
	if err := checkPermissions(r.Permissions); err != nil {
		return r, err
	}
	if err := checkPlan(r.Plan); err != nil {
		return r, err
	}
	return r, checkMutable(r.Name, r.ExpiresAt, r.Limit, r.Terms, now)
}

// checkMutable validates the fields that may also be changed later.
func checkMutable(name string, expiresAt *time.Time, l limit.Limit, t Terms, now time.Time) error {
	switch {
	case len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return apierr.Invalid("name", "must have at most 200 bytes of UTF-8, and no control characters")
	case expiresAt != nil && !now.Before(*expiresAt):
		return apierr.Invalid("expires_at", "must lie in the future")
	}
	if err := checkLimit(l); err != nil {
		return err
	}
	return t.check()
}

func checkLimit(l limit.Limit) error {
	if err := l.Check(); err != nil {
		return apierr.Invalid("rate_limit", err.Error())
	}
	return nil
}

// present returns the current time with the precision of Postgres.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func newID() string { return "key_" + strings.ToLower(rand.Text()) }

// Create creates a key and returns its text, which exists nowhere else.
func (m *Manager) Create(ctx context.Context, by Actor, r Request) (Key, secret.Value, error) {
	now := present()
	r, err := r.check(m.products, now)
	if err != nil {
		return Key{}, secret.Value{}, err
	}
	text := mint(r.Environment)
	key := Key{
		ID: newID(), Organization: r.Organization, Product: r.Product, Permissions: r.Permissions,
		Name: r.Name, Environment: r.Environment, CreatedAt: now, ExpiresAt: r.ExpiresAt, Limit: r.Limit, Terms: r.Terms, Plan: r.Plan,
	}
	entry := key.entry(ActionCreate, by, now, key.created())
	if err := m.store.Insert(ctx, key, m.pepper.Digest(text), *entry); err != nil {
		return Key{}, secret.Value{}, fmt.Errorf("create key: %w", err)
	}
	m.log.InfoContext(ctx, "key created", "key", key.ID, "organization", key.Organization, "product", key.Product)
	return key, secret.New(text), nil
}

// created returns the details of the audit entry of a new key.
func (k *Key) created() map[string]any {
	details := map[string]any{"product": k.Product, "permissions": k.Permissions, "expires_at": k.ExpiresAt}
	if k.Limit != (limit.Limit{}) {
		details["rate_limit"] = describe(k.Limit)
	}
	if k.Plan != "" {
		details["plan"] = k.Plan
	}
	k.Terms.describe(details)
	return details
}

func (k *Key) entry(action string, by Actor, now time.Time, details map[string]any) *Entry {
	return &Entry{At: now, Actor: by, Action: action, Organization: k.Organization, Key: k.ID, Details: details}
}

// Get returns a key.
func (m *Manager) Get(ctx context.Context, id string) (Key, error) {
	if !caller.Printable(id) { // Postgres would refuse the text.
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

// List returns a page of keys, see Store.
func (m *Manager) List(ctx context.Context, organization, after string, limit int) ([]Key, error) {
	keys, err := m.store.List(ctx, organization, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

// Audit returns a page of the audit, see Store.
func (m *Manager) Audit(ctx context.Context, q AuditQuery) ([]Entry, error) {
	entries, err := m.store.Audit(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list audit: %w", err)
	}
	return entries, nil
}
