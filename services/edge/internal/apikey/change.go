package apikey

import (
	"context"
	"fmt"
	"time"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// maxOverlap bounds how long a rotated key may live on beside its successor.
const maxOverlap = 90 * 24 * time.Hour

// Rotation says how a key is replaced.
type Rotation struct {
	// Overlap is how long the old key stays good; zero ends it at once.
	Overlap time.Duration
	// ExpiresAt of the new key; nil gives it as long a life as the old one's.
	ExpiresAt *time.Time
}

// Update says what changes about a key; nil leaves it.
type Update struct {
	Name *string
	// ExpiresAt and Limit point to what they become: nil and the zero Limit take
	// them away.
	ExpiresAt **time.Time
	Limit     *limit.Limit
}

// Rotate replaces a key by a new one of the same rights, which it gives with its
// text; the old one stays good for the overlap. A key can be rotated once: after
// that its successor can.
func (m *Manager) Rotate(ctx context.Context, by Actor, id string, r Rotation) (Key, secret.Value, error) {
	now := present()
	switch {
	case r.Overlap < 0 || r.Overlap > maxOverlap:
		return Key{}, secret.Value{}, apierr.Invalid("overlap_seconds", fmt.Sprintf("must be from 0 to %d", int(maxOverlap/time.Second)))
	case r.ExpiresAt != nil && !now.Before(*r.ExpiresAt):
		return Key{}, secret.Value{}, apierr.Invalid("expires_at", "must lie in the future")
	}
	var successor Key
	var text string
	err := m.change(ctx, id, "rotate", func(key *Key) (Change, error) {
		if err := key.rotatable(now); err != nil {
			return Change{}, err
		}
		text = mint(key.Environment)
		successor = key.succeed(r, now)
		return Change{
			Successor: &successor, Digest: m.pepper.Digest(text),
			Entry: key.entry(ActionRotate, by, now, map[string]any{"replaced_by": successor.ID, "expires_at": key.ends()}),
		}, nil
	})
	if err != nil {
		return Key{}, secret.Value{}, err
	}
	return successor, secret.New(text), nil
}

func (k *Key) rotatable(now time.Time) error {
	switch {
	case k.ReplacedBy != "":
		return apierr.New(apierr.KindConflict, apierr.ReasonConflict, "the key was rotated before: rotate "+k.ReplacedBy)
	case !k.Live(now):
		return apierr.New(apierr.KindConflict, apierr.ReasonConflict, "the key has ended: create a new one")
	}
	return nil
}

// succeed makes the key that takes k's place, and ends k after the overlap.
func (k *Key) succeed(r Rotation, now time.Time) Key {
	next := Key{
		ID: newID(), Organization: k.Organization, Product: k.Product, Permissions: k.Permissions, Name: k.Name,
		Environment: k.Environment, CreatedAt: now, ExpiresAt: r.ExpiresAt, Limit: k.Limit, Origin: k.Origin,
	}
	if next.Origin == "" {
		next.Origin = k.ID
	}
	if next.ExpiresAt == nil && k.ExpiresAt != nil {
		next.ExpiresAt = new(now.Add(k.ExpiresAt.Sub(k.CreatedAt)))
	}
	k.ReplacedBy = next.ID
	switch end := now.Add(r.Overlap); {
	case r.Overlap == 0:
		k.RevokedAt = &now
	case k.ExpiresAt == nil || end.Before(*k.ExpiresAt):
		k.ExpiresAt = &end
	}
	return next
}

// ends is when the key ends, nil for never.
func (k *Key) ends() *time.Time {
	if k.RevokedAt != nil {
		return k.RevokedAt
	}
	return k.ExpiresAt
}

// Update changes a key and gives it as it is then.
func (m *Manager) Update(ctx context.Context, by Actor, id string, u Update) (Key, error) {
	now := present()
	var updated Key
	err := m.change(ctx, id, "update", func(key *Key) (Change, error) {
		if key.RevokedAt != nil {
			return Change{}, apierr.New(apierr.KindConflict, apierr.ReasonConflict, "the key is revoked")
		}
		details, err := key.update(u, now)
		if err != nil {
			return Change{}, err
		}
		updated = *key
		return Change{Entry: key.entry(ActionUpdate, by, now, details)}, nil
	})
	return updated, err
}

func (k *Key) update(u Update, now time.Time) (details map[string]any, err error) {
	details = make(map[string]any)
	var expiresAt *time.Time // what is not changed is not judged
	if u.Name != nil {
		k.Name, details["name"] = *u.Name, *u.Name
	}
	if u.ExpiresAt != nil {
		expiresAt = *u.ExpiresAt
		k.ExpiresAt, details["expires_at"] = expiresAt, expiresAt
	}
	if u.Limit != nil {
		k.Limit, details["rate_limit"] = *u.Limit, describe(*u.Limit)
	}
	if len(details) == 0 {
		return nil, apierr.Invalid("body", "must hold name, expires_at or rate_limit")
	}
	return details, checkMutable(k.Name, expiresAt, k.Limit, now)
}

func describe(l limit.Limit) string {
	text, _ := l.MarshalText() // never fails
	return string(text)
}

// Revoke ends a key for good, on every replica within a second. Doing it again
// changes nothing.
func (m *Manager) Revoke(ctx context.Context, by Actor, id string) error {
	now := present()
	return m.change(ctx, id, "revoke", func(key *Key) (Change, error) {
		if key.RevokedAt != nil {
			return Change{}, nil // but the feed moves on: a replica that missed it hears of it again
		}
		key.RevokedAt = &now
		return Change{Entry: key.entry(ActionRevoke, by, now, map[string]any{})}, nil
	})
}

// change changes a key as decide says and announces the change to all replicas.
func (m *Manager) change(ctx context.Context, id, verb string, decide Decision) error {
	if !caller.Printable(id) { // Postgres would refuse the text
		return apierr.NotFound("key")
	}
	key, digest, found, err := m.store.Change(ctx, id, decide)
	switch {
	case err != nil:
		return fmt.Errorf("%s key: %w", verb, err)
	case !found:
		return apierr.NotFound("key")
	}
	m.log.InfoContext(ctx, "key changed", "key", id, "organization", key.Organization, "change", verb)
	if m.announce == nil {
		return nil
	}
	if err := m.announce.Announce(ctx, digest); err != nil {
		m.log.WarnContext(ctx, "change of key not announced, the change feed will tell", "key", id, "error", err.Error())
	}
	return nil
}

// OrganizationLimit gives an organization's own limit; the zero Limit is none.
func (m *Manager) OrganizationLimit(ctx context.Context, organization string) (limit.Limit, error) {
	if !caller.Printable(organization) {
		return limit.Limit{}, apierr.NotFound("rate limit")
	}
	l, err := m.store.OrganizationLimit(ctx, organization)
	if err != nil {
		return limit.Limit{}, fmt.Errorf("read rate limit: %w", err)
	}
	return l, nil
}

// LimitOrganization bounds all keys of an organization together; the zero Limit
// takes the bound away. Replicas follow within a second.
func (m *Manager) LimitOrganization(ctx context.Context, by Actor, organization string, l limit.Limit) error {
	if organization == "" || !caller.Printable(organization) {
		return apierr.Invalid("organization_id", "must be printable ASCII, at most 256 characters")
	}
	if err := checkLimit(l); err != nil {
		return err
	}
	entry := Entry{At: present(), Actor: by, Action: ActionLimit, Organization: organization, Details: map[string]any{"rate_limit": describe(l)}}
	if l == (limit.Limit{}) {
		entry.Action, entry.Details = ActionRemoveLimit, map[string]any{}
	}
	if err := m.store.SetOrganizationLimit(ctx, organization, l, entry); err != nil {
		return fmt.Errorf("limit organization: %w", err)
	}
	m.log.InfoContext(ctx, "organization limited", "organization", organization, "rate_limit", describe(l))
	return nil
}
