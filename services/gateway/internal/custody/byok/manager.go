package byok

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/platform/apierr"
)

// Store stores configurations. A change and its audit entry are one transaction, and changes of one topic are
// serialized.
type Store interface {
	// Get returns a configuration with any status, or ErrNone if it never existed.
	Get(ctx context.Context, organization, provider string) (Config, error)
	// List returns the organization's active configurations behind the provider after, sorted by provider.
	List(ctx context.Context, organization, after string, limit int) ([]Config, error)
	// Stale returns active configurations that are stale at f.Now, sorted.
	Stale(ctx context.Context, f StaleFilter) ([]Config, error)
	// Change stores what decide returns for the current configuration, or for an absent one. An error of decide is
	// returned, and nothing is stored.
	Change(ctx context.Context, organization, provider string, entry *audit.Entry, decide func(Config) (Config, error)) (Config, error)
	// Purge erases all credentials of an organization.
	Purge(ctx context.Context, organization string, now time.Time, entry *audit.Entry) (Purged, error)
}

// StaleFilter selects stale configurations; empty fields select all.
type StaleFilter struct {
	Organization, Provider string
	// AfterOrganization and AfterProvider are the last of the previous page.
	AfterOrganization, AfterProvider string
	Now                              time.Time
	Limit                            int
}

// Purged is the result of a purge.
type Purged struct {
	// Erased is the number of erased credentials; Remaining is the number left, which should be 0.
	Erased, Remaining int
}

// Providers resolves names of providers.
type Providers interface {
	// Canonical returns the name of a provider, given its name or one of its aliases.
	Canonical(name string) (string, bool)
}

// Manager changes configurations. Safe for concurrent use.
type Manager struct {
	store     Store
	reader    *Reader
	providers Providers
}

// NewManager returns a Manager.
func NewManager(store Store, reader *Reader, providers Providers) *Manager {
	return &Manager{store, reader, providers}
}

// Offer is a credential sent by a caller: exactly one of Reference and Ciphertext.
type Offer struct {
	Reference  string
	KeyID      string
	Ciphertext []byte
	Terms
}

// Put creates or replaces the configuration for a provider; created reports which. Owner is required for a new one.
func (m *Manager) Put(ctx context.Context, organization, provider string, o Offer) (config Config, created bool, err error) {
	if provider, err = m.known(provider); err != nil {
		return Config{}, false, err
	}
	credential, err := m.accept(ctx, organization, provider, o)
	if err != nil {
		return Config{}, false, err
	}
	entry := newEntry(ctx, "byok.put", organization, provider)
	config, err = m.store.Change(ctx, organization, provider, entry, func(present Config) (Config, error) {
		var next Config
		var err error
		if next, created, err = present.Put(credential, o.Terms, now()); err == nil {
			entry.Details = details(&next)
		}
		return next, err
	})
	return config, created, refusal(err, "store configuration")
}

// Rotate replaces the credential of an active configuration.
func (m *Manager) Rotate(ctx context.Context, organization, provider string, o Offer) (Config, error) {
	// Before the secret is read: a caller without a configuration learns nothing about a secret.
	present, err := m.Get(ctx, organization, provider)
	if err != nil {
		return Config{}, err
	}
	provider = present.Provider
	credential, err := m.accept(ctx, organization, provider, o)
	if err != nil {
		return Config{}, err
	}
	return m.change(ctx, "byok.rotate", organization, provider, func(present Config) (Config, error) {
		return present.Rotate(credential, o.Terms, now())
	})
}

// Transfer changes the owner of an active configuration.
func (m *Manager) Transfer(ctx context.Context, organization, provider, owner string) (Config, error) {
	return m.change(ctx, "byok.transfer", organization, m.canonical(provider), func(present Config) (Config, error) {
		return present.Transfer(owner, now())
	})
}

// Deactivate takes an active configuration out of use.
func (m *Manager) Deactivate(ctx context.Context, organization, provider string) error {
	_, err := m.change(ctx, "byok.deactivate", organization, m.canonical(provider), func(present Config) (Config, error) {
		return present.Deactivate(now())
	})
	return err
}

// Purge erases every stored credential of an organization, permanently.
func (m *Manager) Purge(ctx context.Context, organization string) (Purged, error) {
	entry := newEntry(ctx, "byok.purge", organization, organization)
	purged, err := m.store.Purge(ctx, organization, now(), entry)
	return purged, refusal(err, "purge credentials")
}

// Get returns an active configuration.
func (m *Manager) Get(ctx context.Context, organization, provider string) (Config, error) {
	config, err := m.store.Get(ctx, organization, m.canonical(provider))
	if err == nil && config.Status != StatusActive {
		err = ErrNone
	}
	return config, refusal(err, "read configuration")
}

// List returns an organization's active configurations behind the provider after.
func (m *Manager) List(ctx context.Context, organization, after string, limit int) ([]Config, error) {
	configs, err := m.store.List(ctx, organization, after, limit)
	return configs, refusal(err, "list configurations")
}

// Stale returns the stale active configurations.
func (m *Manager) Stale(ctx context.Context, f StaleFilter) ([]Config, error) {
	if f.Provider != "" {
		f.Provider = m.canonical(f.Provider)
	}
	configs, err := m.store.Stale(ctx, f)
	return configs, refusal(err, "list stale configurations")
}

func (m *Manager) change(ctx context.Context, action, organization, provider string, decide func(Config) (Config, error)) (Config, error) {
	entry := newEntry(ctx, action, organization, provider)
	config, err := m.store.Change(ctx, organization, provider, entry, func(present Config) (Config, error) {
		next, err := decide(present)
		if err == nil {
			entry.Details = details(&next)
		}
		return next, err
	})
	return config, refusal(err, "change configuration")
}

// known returns the canonical name of a configured provider. An unknown provider is an error.
func (m *Manager) known(provider string) (string, error) {
	canonical, ok := m.providers.Canonical(provider)
	if !ok {
		return "", apierr.New(apierr.KindInvalid, ReasonProviderUnknown, "provider: no provider of that name is configured")
	}
	return canonical, nil
}

// canonical returns the name under which a configuration is stored. For a provider that is no longer configured, this
// is the name itself.
func (m *Manager) canonical(provider string) string {
	if canonical, ok := m.providers.Canonical(provider); ok {
		return canonical
	}
	return strings.ToLower(provider)
}

// accept reads an offered secret, outside of any transaction, and returns the credential to store.
func (m *Manager) accept(ctx context.Context, organization, provider string, o Offer) (Credential, error) {
	credential := Credential{Custody: CustodyReference, Reference: o.Reference}
	switch {
	case (o.Reference == "") == (o.Ciphertext == nil):
		return credential, apierr.Invalid("secret_ref", "exactly one of secret_ref and sealed is required")
	case o.Ciphertext != nil:
		credential = Credential{Custody: CustodySealed, KeyID: o.KeyID, Ciphertext: o.Ciphertext}
	}
	if !o.ExpiresAt.IsZero() && !o.ExpiresAt.After(now()) {
		return credential, apierr.Invalid("expires_at", "must be in the future")
	}
	return m.reader.Accept(ctx, organization, provider, credential)
}

func newEntry(ctx context.Context, action, organization, subject string) *audit.Entry {
	entry := audit.New(ctx, action, audit.Subject{Type: "byok_config", ID: subject, Organization: organization}, "")
	return &entry
}

// details returns what the audit keeps of a change.
func details(c *Config) json.RawMessage {
	text, err := json.Marshal(map[string]any{
		"provider": c.Provider, "custody": c.Custody, "fingerprint": c.Fingerprint, "version": c.Version, "owner_principal": c.Owner,
	})
	if err != nil {
		return nil // Nothing above can fail.
	}
	return text
}

// refusal converts an error of the store for the caller.
func refusal(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNone):
		return apierr.NotFound("active configuration of the provider")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// now returns the current time in the precision that the store keeps.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
