package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
)

// ReasonTargetNotAllowed is the reason of a URL that the gateway doesn't call.
const ReasonTargetNotAllowed apierr.Reason = "target_not_allowed"

// lookupTime bounds the early lookup of a URL's name; each dial looks it up again.
const lookupTime = 500 * time.Millisecond

// Store stores servers. A change and its audit entry are one transaction, and changes are serialized.
type Store interface {
	// Get returns a server, or ErrNotFound.
	Get(ctx context.Context, key Key) (Server, error)
	// List returns the servers behind an ID that an organization may call, sorted by ID: its own, and those of all
	// organizations whose IDs are not those of its own. The empty organization has those of all.
	List(ctx context.Context, organization, after string, limit int) ([]Server, error)
	// Change stores what decide returns for the present server, nil for none. It checks the place of a new server or
	// prefix (CheckPlace). A server that is new, or was moved, has no definitions from then on, and its listing is due.
	Change(ctx context.Context, key Key, entry *audit.Entry, decide func(present *Server) (Server, error)) (Server, error)
	// Remove removes a server with its definitions, or returns ErrNotFound.
	Remove(ctx context.Context, key Key, now time.Time, entry *audit.Entry) error
}

// Credentials reads offered secrets; see byok.Reader.
type Credentials interface {
	AcceptKey(ctx context.Context, organization, provider string, c byok.Credential) (byok.Credential, error)
	// AcceptBy is AcceptKey with another rule than that of keys.
	AcceptBy(ctx context.Context, organization, provider string, c byok.Credential, rule func(secret.Value) error) (byok.Credential, error)
}

// Targets checks URLs; see netguard.Guard.
type Targets interface {
	CheckSecureURL(raw string) (*url.URL, error)
	CheckHost(ctx context.Context, u *url.URL) error
}

// Manager registers and changes servers. Safe for concurrent use.
type Manager struct {
	Store       Store
	Credentials Credentials
	Targets     Targets
	OAuth       OAuthClient
	// Command reports whether the operator's policy defines a local command.
	Command func(name string) bool
	// Changed is called after each change that makes a listing due; nil for nothing.
	Changed func()
}

// Register registers a server; reason is for the audit.
func (m *Manager) Register(ctx context.Context, r *Registration, reason string) (Server, error) {
	if err := principal.Check("registered_by", r.By); err != nil {
		return Server{}, err
	}
	next, err := r.server(now())
	if err == nil {
		err = m.checkTarget(ctx, &next)
	}
	if err != nil {
		return Server{}, err
	}
	if next.Credential, err = m.accept(ctx, &next, r.Credential); err != nil {
		return Server{}, err
	}
	entry := newEntry(ctx, "tool_server.register", r.Key, reason)
	stored, err := m.Store.Change(ctx, r.Key, entry, func(present *Server) (Server, error) {
		if present != nil {
			return Server{}, ErrExists
		}
		entry.Details = details(&next)
		return next, nil
	})
	return stored, m.done(err, "register tool server")
}

// Update changes a server.
func (m *Manager) Update(ctx context.Context, key Key, u *Update, reason string) (Server, error) {
	if err := principal.Check("updated_by", u.By); err != nil {
		return Server{}, err
	}
	present, err := m.Store.Get(ctx, key)
	if err != nil {
		return Server{}, wrap(err, "read tool server")
	}
	next, err := present.update(u, now())
	if err == nil && next.Moved(&present) {
		err = m.checkTarget(ctx, &next)
	}
	if err != nil {
		return Server{}, err
	}
	if u.Credential != nil {
		if next.Credential, err = m.accept(ctx, &next, u.Credential); err != nil {
			return Server{}, err
		}
	}
	entry := newEntry(ctx, "tool_server.update", key, reason)
	stored, err := m.Store.Change(ctx, key, entry, func(locked *Server) (Server, error) {
		switch {
		case locked == nil:
			return Server{}, ErrNotFound
		case locked.Version != present.Version: // It was checked with another one.
			return Server{}, ErrVersion
		}
		entry.Details = details(&next)
		return next, nil
	})
	return stored, m.done(err, "change tool server")
}

// Remove removes a server.
func (m *Manager) Remove(ctx context.Context, key Key, reason string) error {
	return wrap(m.Store.Remove(ctx, key, now(), newEntry(ctx, "tool_server.remove", key, reason)), "remove tool server")
}

// Get returns the server that an organization calls by an ID: its own, else that of all organizations.
func (m *Manager) Get(ctx context.Context, key Key) (Server, error) {
	s, err := m.Store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) && key.Organization != "" {
		s, err = m.Store.Get(ctx, Key{ID: key.ID})
	}
	return s, wrap(err, "read tool server")
}

// List returns a page of the servers that an organization may call.
func (m *Manager) List(ctx context.Context, organization, after string, limit int) ([]Server, error) {
	servers, err := m.Store.List(ctx, organization, after, limit)
	return servers, wrap(err, "list tool servers")
}

func (m *Manager) done(err error, doing string) error {
	if err == nil && m.Changed != nil {
		m.Changed()
	}
	return wrap(err, doing)
}

// checkTarget checks where a server is.
func (m *Manager) checkTarget(ctx context.Context, s *Server) error {
	if s.Command != "" {
		if !m.Command(s.Command) {
			return apierr.Invalid("command", "the operator's policy defines no command of this name")
		}
		return nil
	}
	return m.checkURL(ctx, "url", s.URL)
}

// checkURL checks an address that the gateway is to call.
func (m *Manager) checkURL(ctx context.Context, field, text string) error {
	u, err := m.Targets.CheckSecureURL(text)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		err = m.Targets.CheckHost(ctx, u)
	}
	refusal, ok := errors.AsType[*netguard.Refusal](err)
	switch {
	case ok:
		return apierr.New(apierr.KindInvalid, ReasonTargetNotAllowed, field+": is not allowed ("+refusal.Rule+"): "+refusal.Text).Wrap(refusal)
	case err != nil:
		return fmt.Errorf("check %s: %w", field, err)
	}
	return nil
}

// accept reads an offered secret, outside of any transaction, and returns the credential to store.
func (m *Manager) accept(ctx context.Context, s *Server, o *Offer) (Credential, error) {
	if o == nil {
		return Credential{}, nil
	}
	if o.OAuth != nil {
		if err := o.checkClient(); err != nil {
			return Credential{}, err
		}
	}
	header, scheme, err := o.header()
	switch {
	case err != nil:
		return Credential{}, err
	case (o.Reference == "") == (o.Ciphertext == nil):
		return Credential{}, apierr.Invalid("credential.secret_ref", "exactly one of secret_ref and sealed is required")
	case o.Reference != "" && s.Organization == "":
		return Credential{}, apierr.Invalid("credential.secret_ref", "must not be set for all organizations, as references are of one; seal the credential")
	case s.Command != "":
		return Credential{}, apierr.Invalid("credential", "must not be set for a command")
	}
	offered := byok.Credential{Custody: byok.CustodyReference, Reference: o.Reference}
	if o.Ciphertext != nil {
		offered = byok.Credential{Custody: byok.CustodySealed, KeyID: o.KeyID, Ciphertext: o.Ciphertext}
	}
	accepted, err := m.acceptSecret(ctx, s, o.OAuth, offered)
	if err != nil {
		return Credential{}, err
	}
	return Credential{
		OAuth: o.OAuth, Custody: Custody(accepted.Custody), Header: header, Scheme: scheme, Reference: accepted.Reference,
		KeyID: accepted.KeyID, Ciphertext: accepted.Ciphertext, Fingerprint: accepted.Fingerprint,
	}, nil
}

// acceptSecret reads an offered secret; client is nil for one that is sent itself.
func (m *Manager) acceptSecret(ctx context.Context, s *Server, client *OAuth, offered byok.Credential) (byok.Credential, error) {
	if client == nil {
		return m.Credentials.AcceptKey(ctx, s.Organization, SealedTo(s.ID), offered)
	}
	if err := m.settleClient(ctx, s, client); err != nil {
		return byok.Credential{}, err
	}
	return m.Credentials.AcceptBy(ctx, s.Organization, SealedTo(s.ID), offered, func(value secret.Value) error {
		return m.OAuth.CheckSecret(client.Authentication, value)
	})
}

func newEntry(ctx context.Context, action string, key Key, reason string) *audit.Entry {
	entry := audit.New(ctx, action, audit.Subject{Type: "tool_server", ID: key.ID, Organization: key.Organization}, reason)
	return &entry
}

// details returns what the audit keeps of a change. The URL's query may hold what its host only may see.
func details(s *Server) json.RawMessage {
	issuer, client := "", ""
	if c := s.Credential.OAuth; c != nil {
		issuer, client = c.Issuer, c.ClientID
	}
	text, err := json.Marshal(map[string]any{
		"oauth_issuer": issuer, "oauth_client": client, "prefix": s.Prefix, "origin": s.origin(), "custody": s.Credential.Custody,
		"fingerprint": s.Credential.Fingerprint, "features": s.Features, "price_pico_usd": s.Price, "version": s.Version, "created_by": s.CreatedBy,
		"moved_by": s.MovedBy,
	})
	if err != nil {
		return nil // Nothing above can fail.
	}
	return text
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// now returns the current time in the precision that the store keeps.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
