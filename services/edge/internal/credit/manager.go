package credit

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

const (
	// PicoPerCent is how many pico-USD a US cent is.
	PicoPerCent = 10_000_000_000

	maxCents = 100_000_000
	maxKey   = 128
	maxNote  = 1000
	// mostOpen bounds the grants from which an organization spends at a time.
	mostOpen = 100
)

// Author is the author of a grant, for the audit: the name of a service token, and the request.
type Author struct{ Name, Request string }

// Store persists grants.
type Store interface {
	// Grant adds a grant with its audit entry, unless the organization has one of its idempotency key, which it returns
	// with added false. It adds nothing, and returns an empty grant, if there are most others that can still be spent.
	// From then on, what the organization spends is read.
	Grant(ctx context.Context, g Grant, most int, by Author) (stored Grant, added bool, err error)
	// Grants returns up to limit grants of an organization with ids after the given one, in the order of ids.
	Grants(ctx context.Context, organization, after string, limit int) ([]Grant, error)
	// Balance returns what an organization has at a moment. It reports false for one that never had a grant.
	Balance(ctx context.Context, organization string, now time.Time) (Balance, bool, error)
}

// Manager serves operators.
type Manager struct {
	store Store
	log   *slog.Logger
}

// NewManager returns a Manager.
func NewManager(store Store, log *slog.Logger) *Manager { return &Manager{store: store, log: log} }

// Request is a request for a grant.
type Request struct {
	Organization   string
	Cents          int64
	ExpiresAt      time.Time
	Note           string
	IdempotencyKey string
}

func (r *Request) check(now time.Time) error {
	switch {
	case r.Organization == "" || !caller.Printable(r.Organization):
		return apierr.Invalid("organization_id", "must be printable ASCII, at most 256 characters")
	case r.Cents < 1 || r.Cents > maxCents:
		return apierr.Invalid("amount_cents", "must be from 1 to "+strconv.Itoa(maxCents))
	case !now.Before(r.ExpiresAt):
		return apierr.Invalid("expires_at", "is required, and must lie in the future")
	case len(r.Note) > maxNote || !utf8.ValidString(r.Note) || strings.ContainsFunc(r.Note, unicode.IsControl):
		return apierr.Invalid("note", "must have at most 1000 bytes of UTF-8 without control characters")
	case r.IdempotencyKey == "" || len(r.IdempotencyKey) > maxKey || !caller.Printable(r.IdempotencyKey):
		return apierr.Invalid("idempotency_key", "is required: 1 to 128 characters of printable ASCII without spaces")
	}
	return nil
}

// Grant gives an organization credits. A repeat with the same idempotency key has no effect, and returns the grant with
// added false; with another content it is refused.
func (m *Manager) Grant(ctx context.Context, by Author, r Request) (g Grant, added bool, err error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if err := r.check(now); err != nil {
		return Grant{}, false, err
	}
	asked := Grant{
		ID: "crd_" + strings.ToLower(rand.Text()), Organization: r.Organization, IdempotencyKey: r.IdempotencyKey, Pico: r.Cents * PicoPerCent,
		Note: r.Note, CreatedAt: now, ExpiresAt: r.ExpiresAt.UTC().Truncate(time.Microsecond),
	}
	g, added, err = m.store.Grant(ctx, asked, mostOpen, by)
	switch {
	case err != nil:
		return Grant{}, false, fmt.Errorf("grant credits: %w", err)
	case g.ID == "":
		return Grant{}, false, apierr.New(apierr.KindConflict, apierr.ReasonConflict,
			fmt.Sprintf("the organization has %d grants that are not used up", mostOpen))
	case !added && (g.Pico != asked.Pico || !g.ExpiresAt.Equal(asked.ExpiresAt) || g.Note != asked.Note):
		return Grant{}, false, apierr.New(apierr.KindUnprocessable, ReasonKeyReused, "idempotency_key: was used for another grant")
	case added:
		m.log.InfoContext(ctx, "credits granted", "organization", r.Organization, "grant", g.ID, "cents", r.Cents)
	}
	return g, added, nil
}

// List returns a page of an organization's grants, see Store.
func (m *Manager) List(ctx context.Context, organization, after string, limit int) ([]Grant, error) {
	grants, err := m.store.Grants(ctx, organization, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list credits: %w", err)
	}
	return grants, nil
}

// Balance returns what an organization has now. It reports false for one that never had a grant.
func (m *Manager) Balance(ctx context.Context, organization string) (Balance, bool, error) {
	balance, granted, err := m.store.Balance(ctx, organization, time.Now())
	if err != nil {
		return Balance{}, false, fmt.Errorf("read credits: %w", err)
	}
	return balance, granted, nil
}
