package usertoken

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
)

// Store persists the keys, revocations and origins. Each write but Audit takes the next number of the feed in its own
// transaction, and adds an audit entry in it.
type Store interface {
	// Signing returns all keys in the order of SignsFrom, and the position of the feed.
	Signing(ctx context.Context) (keys []SigningKey, position int64, err error)
	// ChangeKeys applies decide to all keys, in the order of SignsFrom, of which no one else changes any meanwhile.
	ChangeKeys(ctx context.Context, decide KeyDecision) error
	// Revoke adds a revocation, at the position that its write takes, and forgets those up to another moment.
	Revoke(ctx context.Context, holder Holder, at, forget time.Time, entry apikey.Entry) error
	// Origins returns the origins of an organization, none if it has no own.
	Origins(ctx context.Context, organization string) ([]string, error)
	// SetOrigins replaces the origins of an organization; none removes them.
	SetOrigins(ctx context.Context, organization string, origins []string, entry apikey.Entry) error
	// Audit adds an audit entry of what changes nothing else that is stored.
	Audit(ctx context.Context, entry apikey.Entry) error
}

// KeyDecision returns a change of keys, nil for none.
type KeyDecision func(keys []SigningKey) (*KeyChange, error)

// KeyChange adds a key and removes others. Entry is for the audit; nil for none.
type KeyChange struct {
	Added   SigningKey
	Removed []string
	Entry   *apikey.Entry
}

// The actions in the audit.
const (
	ActionMint          = "token.mint"
	ActionRotate        = "token.rotate_keys"
	ActionRevoke        = "token.revoke"
	ActionOrigins       = "organization.origins"
	ActionRemoveOrigins = "organization.remove_origins"
	// everyone stands for the organization in the entry of what concerns all.
	everyone = "*"
)

// Manager mints and revokes tokens, for the operator API.
type Manager struct {
	box   *seal.Box
	store Store
	log   *slog.Logger
}

// NewManager returns a Manager that seals keys with a box, see NewBox.
func NewManager(box *seal.Box, store Store, log *slog.Logger) *Manager {
	return &Manager{box, store, log}
}

// Ensure makes the first signing key if there is none that this Manager can sign with.
func (m *Manager) Ensure(ctx context.Context) error {
	err := m.store.ChangeKeys(ctx, func(keys []SigningKey) (*KeyChange, error) {
		now := present()
		if current, ok := signer(keys, now); ok {
			if _, err := m.box.Open(current.SealedSeed, current.ID); err == nil {
				return nil, nil
			}
			m.log.WarnContext(ctx, "signing key cannot be opened: another pepper; a new one is made", "key", current.ID)
		}
		added, err := newKey(m.box, now)
		return &KeyChange{Added: added, Removed: outlived(keys, now)}, err
	})
	if err != nil {
		return fmt.Errorf("make the first signing key: %w", err)
	}
	return nil
}

// Rotate makes a new signing key, which signs once every replica knows it. Tokens of the one before stay valid.
func (m *Manager) Rotate(ctx context.Context, by apikey.Actor) (PublicKey, error) {
	var made PublicKey
	err := m.store.ChangeKeys(ctx, func(keys []SigningKey) (*KeyChange, error) {
		now := present()
		if n := len(keys); n > 0 && keys[n-1].SignsFrom.After(now) {
			return nil, apierr.New(apierr.KindConflict, apierr.ReasonConflict, "a rotation is under way; the new key signs within seconds")
		}
		added, err := newKey(m.box, now.Add(publishLead))
		made = added.PublicKey
		return &KeyChange{Added: added, Removed: outlived(keys, now), Entry: &apikey.Entry{
			At: now, Actor: by, Action: ActionRotate, Organization: everyone, Details: map[string]any{"signing_key": made.ID},
		}}, err
	})
	if err != nil {
		return PublicKey{}, fmt.Errorf("rotate signing keys: %w", err)
	}
	m.log.InfoContext(ctx, "signing keys rotated", "key", made.ID)
	return made, nil
}

// Mint returns a new token, which exists nowhere else, its id and when it expires. The audit has who minted it and what it
// may do: no token leaves without an entry.
func (m *Manager) Mint(ctx context.Context, by apikey.Actor, r Request) (secret.Value, string, time.Time, error) {
	fail := func(err error) (secret.Value, string, time.Time, error) { return secret.Value{}, "", time.Time{}, err }
	if err := r.check(); err != nil {
		return fail(err)
	}
	keys, position, err := m.store.Signing(ctx)
	if err != nil {
		return fail(fmt.Errorf("mint token: %w", err))
	}
	now := present()
	key, ok := signer(keys, now)
	if !ok {
		return fail(apierr.Unavailable("no signing key is in use yet", nil))
	}
	c := r.claims(now, position)
	payload, err := c.encode()
	if err != nil {
		return fail(err)
	}
	text, err := key.sign(m.box, payload)
	if err != nil {
		return fail(err)
	}
	if err := m.store.Audit(ctx, c.entry(by, now, r.Life, key.ID)); err != nil {
		return fail(fmt.Errorf("audit a token: %w", err))
	}
	m.log.InfoContext(ctx, "token minted", "token", c.ID, "organization", c.Organization, "by", by.Name, "signing_key", key.ID)
	return text, c.ID, time.Unix(c.Expires, 0).UTC(), nil
}

// claims returns the claims of a new token.
func (r Request) claims(now time.Time, position int64) claims {
	return claims{
		Issuer: issuer, Audience: audience, User: r.User, Issued: now.Unix(), Expires: now.Add(r.Life).Unix(), Position: position,
		ID: "tok_" + strings.ToLower(rand.Text()), Organization: r.Organization, Owner: r.Owner, Scopes: r.Scopes, Origins: r.Origins,
		Verified: r.Verified && r.Owner == "",
	}
}

// entry returns the audit entry of a new token, which names the token by its id.
func (c claims) entry(by apikey.Actor, now time.Time, life time.Duration, signingKey string) apikey.Entry {
	details := map[string]any{
		"token": c.ID, "user_id": c.User, "scopes": c.Scopes, "ttl_seconds": int64(life / time.Second), "signing_key": signingKey,
	}
	if c.Owner != "" {
		details["owner_id"] = c.Owner
	}
	if len(c.Origins) > 0 {
		details["origins"] = c.Origins
	}
	return apikey.Entry{At: now, Actor: by, Action: ActionMint, Organization: c.Organization, Key: by.Key, Details: details}
}

// encode returns the payload of a token, without escapes that make it longer.
func (c claims) encode() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("encode claims: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Revoke has all tokens refused that were issued before: those of a user, or of all users of an organization if the
// holder names none.
func (m *Manager) Revoke(ctx context.Context, by apikey.Actor, holder Holder) error {
	if err := checkID("organization_id", holder.Organization); err != nil {
		return err
	}
	if holder.User != "" {
		if err := checkID("user_id", holder.User); err != nil {
			return err
		}
	}
	now := present()
	err := m.store.Revoke(ctx, holder, now, now.Add(-MaxLife-2*skew), apikey.Entry{
		At: now, Actor: by, Action: ActionRevoke, Organization: holder.Organization, Key: by.Key, Details: map[string]any{"user_id": holder.User},
	})
	if err != nil {
		return fmt.Errorf("revoke tokens: %w", err)
	}
	m.log.InfoContext(ctx, "tokens revoked", "organization", holder.Organization)
	return nil
}

// Origins returns the origins of an organization, none if it has no own.
func (m *Manager) Origins(ctx context.Context, organization string) ([]string, error) {
	if err := checkID("organization_id", organization); err != nil {
		return nil, err
	}
	origins, err := m.store.Origins(ctx, organization)
	if err != nil {
		return nil, fmt.Errorf("read origins: %w", err)
	}
	return origins, nil
}

// SetOrigins replaces the origins of an organization; none removes them. Replicas apply them within a second.
func (m *Manager) SetOrigins(ctx context.Context, by apikey.Actor, organization string, origins []string) error {
	if err := checkID("organization_id", organization); err != nil {
		return err
	}
	if err := checkOrigins(origins, MaxOrigins); err != nil {
		return err
	}
	entry := apikey.Entry{At: present(), Actor: by, Action: ActionOrigins, Organization: organization, Details: map[string]any{"origins": origins}}
	if len(origins) == 0 {
		entry.Action, entry.Details = ActionRemoveOrigins, map[string]any{}
	}
	if err := m.store.SetOrigins(ctx, organization, origins, entry); err != nil {
		return fmt.Errorf("set origins: %w", err)
	}
	return nil
}

// present returns the current time with the precision of Postgres.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
