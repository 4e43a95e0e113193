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

// maxOverlap bounds how long a rotated key may stay valid beside its successor.
const maxOverlap = 90 * 24 * time.Hour

// Rotation describes how a key is replaced.
type Rotation struct {
	// Overlap is how long the old key stays valid; zero ends it at once.
	Overlap time.Duration
	// ExpiresAt is that of the new key; nil gives it the same lifetime as the old one.
	ExpiresAt *time.Time
}

// Update describes the changes of a key; a nil field is unchanged.
type Update struct {
	Name *string
	// ExpiresAt and Limit point to the new values; nil and the zero Limit remove them.
	ExpiresAt **time.Time
	Limit     *limit.Limit
	// TokensPerMinute, Models, Budget and Class point to the new terms; zero values remove them.
	TokensPerMinute *int64
	Models          *[]string
	Budget          *Budget
	Class           *Class
	// Plan points to the name of the new plan; empty removes it.
	Plan *string
}

// Rotate replaces a key by a new one with the same rights, and returns it with its text. The old one stays valid for
// the overlap. A key can be rotated once; after that its successor can.
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

// succeed returns the successor of k, and ends k after the overlap.
func (k *Key) succeed(r Rotation, now time.Time) Key {
	next := Key{
		ID: newID(), Organization: k.Organization, Product: k.Product, Permissions: k.Permissions, Name: k.Name,
		Environment: k.Environment, CreatedAt: now, ExpiresAt: r.ExpiresAt, Limit: k.Limit, Terms: k.Terms, Plan: k.Plan, Origin: k.Chain(),
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

// ends returns when the key ends, nil for never.
func (k *Key) ends() *time.Time {
	if k.RevokedAt != nil {
		return k.RevokedAt
	}
	return k.ExpiresAt
}

// Update changes a key and returns it afterwards.
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
	var expiresAt *time.Time // a value that is not changed is not checked
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
	if u.Plan != nil {
		k.Plan, details["plan"] = *u.Plan, orNil(*u.Plan)
	}
	k.Terms.update(u, details)
	if len(details) == 0 {
		return nil, apierr.Invalid("body", "must hold name, expires_at, rate_limit, tpm, models, budget, class or plan")
	}
	if err := checkPlan(k.Plan); err != nil {
		return nil, err
	}
	return details, checkMutable(k.Name, expiresAt, k.Limit, k.Terms, now)
}

func describe(l limit.Limit) string {
	text, _ := l.MarshalText() // never fails
	return string(text)
}

// Revoke ends a key permanently, on every replica within a second. Repeating it changes nothing.
func (m *Manager) Revoke(ctx context.Context, by Actor, id string) error {
	now := present()
	return m.change(ctx, id, "revoke", func(key *Key) (Change, error) {
		if key.RevokedAt != nil {
			return Change{}, nil // The feed advances nevertheless: a replica that missed the change gets it again.
		}
		key.RevokedAt = &now
		return Change{Entry: key.entry(ActionRevoke, by, now, map[string]any{})}, nil
	})
}

// change applies decide to a key and announces the change to all replicas.
func (m *Manager) change(ctx context.Context, id, verb string, decide Decision) error {
	if !caller.Printable(id) { // Postgres would refuse the text.
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
		m.log.WarnContext(ctx, "change of key not announced; replicas find it in the change feed", "key", id, "error", err.Error())
	}
	return nil
}

// OrganizationLimit returns an organization's own limit; the zero Limit means none.
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

// LimitOrganization limits all keys of an organization together; the zero Limit removes the limit. Replicas apply it
// within a second.
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
