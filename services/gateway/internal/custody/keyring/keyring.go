// Package keyring finds the credential for a call to a provider: the organization's own, which package byok holds, or
// the fleet's. A provider may have several of the fleet's: a pool. Keys are read from files, which may be replaced while
// the service runs, and leave it only as secret.Value. Package inference resolves credentials with it; internal/app constructs it.
package keyring

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// ErrNoKey is the error if there is no credential for a provider.
var ErrNoKey = errors.New("no key for the provider")

// SourceFleet is the source of credentials that belong to the fleet.
const SourceFleet = "fleet"

// SourceByok is the source of credentials that organizations bring.
const SourceByok = "byok"

// Mode is whose credential is used: the organization's own, the fleet's, or both.
type Mode string

// The modes of a request's byok.
const (
	// ModeRequire uses only the organization's own credential.
	ModeRequire Mode = "require"
	// ModePrefer uses the organization's own credential first, then the fleet's.
	ModePrefer Mode = "prefer"
	// ModeFleet uses only the fleet's key; a request can't ask for it.
	ModeFleet Mode = "fleet"
)

// Scope is whose credential a request may use.
type Scope struct {
	Organization string
	// Byok is the mode that the request asked for; if empty, the keyring's own mode applies.
	Byok Mode
	// Provider is the only provider whose own credential may be used; empty is any.
	Provider string
}

// Own finds credentials that organizations bring.
type Own interface {
	// Find returns an organization's credential for a provider, or an error if there is none, or none that can be used
	// now. requested means that the request itself asks for it, so that one stored a moment ago must be found.
	Find(ctx context.Context, organization, provider string, requested bool) (provider.Credential, error)
}

// Options are the options of a Keyring.
type Options struct {
	Log *slog.Logger
	// Fleet are the fleet's credentials of each provider by name; a provider without any is called without a key.
	Fleet map[string][]Member
	// Fingerprint hashes keys; see NewFingerprint.
	Fingerprint func(secret.Value) string
	// Own is nil if organizations can't bring credentials.
	Own Own
	// OwnIdentity opens an identity that an organization has brought for a provider in place of a key; the secret is its
	// JSON. Nil if they can bring keys only.
	OwnIdentity func(provider string, text secret.Value) (Identity, error)
	// Mode applies to requests that ask for none; ModeFleet if empty.
	Mode Mode
	// Canonical returns the name of a provider, given an alias; nil if there are no aliases.
	Canonical func(string) (string, bool)
}

// Keyring holds the fleet's credentials. Safe for concurrent use.
type Keyring struct {
	Options

	fleet map[string]*pool
	own   ownIdentities
}

// New returns a Keyring.
func New(o Options) *Keyring {
	o.Mode = cmp.Or(o.Mode, ModeFleet)
	k := &Keyring{Options: o, fleet: make(map[string]*pool), own: newOwnIdentities()}
	for name, members := range o.Fleet {
		k.fleet[name] = newPool(name, members, o)
	}
	return k
}

// Resolve returns the credentials for a provider that can be used now, in the policy's order: an organization's own one,
// or those of the fleet. The caller must not change them. The error is ErrNoKey if there is none, and another one if the
// organization has one that can't be used now.
func (k *Keyring) Resolve(ctx context.Context, scope Scope, name string) ([]provider.Credential, error) {
	fleet, ok := k.fleet[name]
	if !ok {
		return nil, ErrNoKey // No key is sent to an unknown address.
	}
	mode := cmp.Or(scope.Byok, k.Mode)
	if mode == ModeFleet {
		return fleet.credentials(ctx)
	}
	own, err := k.findOwn(ctx, scope, name)
	if err == nil {
		return []provider.Credential{own}, nil
	}
	if mode == ModeRequire {
		return nil, err
	}
	credentials, fleetErr := fleet.credentials(ctx)
	if fleetErr != nil {
		return nil, err // The error of the organization's own credential says more.
	}
	return credentials, nil
}

func (k *Keyring) findOwn(ctx context.Context, scope Scope, name string) (provider.Credential, error) {
	only := scope.Provider
	if k.Canonical != nil && only != "" {
		only, _ = k.Canonical(only)
	}
	if k.Own == nil || scope.Provider != "" && only != name {
		return provider.Credential{}, ErrNoKey
	}
	credential, err := k.Own.Find(ctx, scope.Organization, name, scope.Byok != "")
	if err != nil || k.OwnIdentity == nil || !identity.IsOwn(credential.Key) {
		return credential, err
	}
	return k.exchangeOwn(ctx, name, credential)
}

// NewFingerprint returns a function that returns 64 bits of a keyed hash, which distinguishes keys without revealing
// them. With an empty pin, fingerprints are the same in every installation.
func NewFingerprint(pin secret.Value) func(secret.Value) string {
	key := []byte("switchyard/fingerprint/v1:" + pin.Reveal())
	return func(value secret.Value) string {
		if value.IsZero() {
			return ""
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(value.Reveal()))
		return hex.EncodeToString(mac.Sum(nil)[:8])
	}
}
