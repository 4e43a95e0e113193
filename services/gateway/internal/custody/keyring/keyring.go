// Package keyring finds the credential for a call to a provider: the organization's own, which package byok holds, or
// the fleet's. Fleet keys are read from files, which may be replaced while the service runs. Keys leave it only as
// secret.Value. Package inference resolves credentials with it; internal/app constructs it.
package keyring

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

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
	// Files are the key files of providers by name; "" means that the provider needs no key.
	Files map[string]string
	// Fingerprint hashes keys; see NewFingerprint.
	Fingerprint func(secret.Value) string
	// Own is nil if organizations can't bring credentials.
	Own Own
	// Mode applies to requests that ask for none; ModeFleet if empty.
	Mode Mode
	// Canonical returns the name of a provider, given an alias; nil if there are no aliases.
	Canonical func(string) (string, bool)
}

// Keyring holds the fleet's keys. Safe for concurrent use.
type Keyring struct {
	Options

	fleet map[string]*key
}

// key is one fleet key. A provider without a file needs none.
type key struct {
	file secret.File

	mu         sync.Mutex
	checked    time.Time // when the file was last checked
	stat       fs.FileInfo
	credential provider.Credential
	found      bool
	warned     bool // the current failure is logged
}

// New returns a Keyring.
func New(o Options) *Keyring {
	o.Mode = cmp.Or(o.Mode, ModeFleet)
	k := &Keyring{Options: o, fleet: make(map[string]*key)}
	for name, file := range o.Files {
		k.fleet[name] = &key{
			file: secret.File(file), found: file == "",
			credential: provider.Credential{Source: SourceFleet},
		}
	}
	return k
}

// Resolve returns the credential for a provider. The error is ErrNoKey if there is none, and another one if the
// organization has one that can't be used now.
func (k *Keyring) Resolve(ctx context.Context, scope Scope, name string) (provider.Credential, error) {
	fleet, ok := k.fleet[name]
	if !ok {
		return provider.Credential{}, ErrNoKey // No key is sent to an unknown address.
	}
	mode := cmp.Or(scope.Byok, k.Mode)
	if mode == ModeFleet {
		return k.ofFleet(name, fleet)
	}
	own, err := k.own(ctx, scope, name)
	if err == nil || mode == ModeRequire {
		return own, err
	}
	credential, fleetErr := k.ofFleet(name, fleet)
	if fleetErr != nil {
		return credential, err // The error of the organization's own credential says more.
	}
	return credential, nil
}

func (k *Keyring) own(ctx context.Context, scope Scope, name string) (provider.Credential, error) {
	only := scope.Provider
	if k.Canonical != nil && only != "" {
		only, _ = k.Canonical(only)
	}
	if k.Own == nil || scope.Provider != "" && only != name {
		return provider.Credential{}, ErrNoKey
	}
	return k.Own.Find(ctx, scope.Organization, name, scope.Byok != "")
}

func (k *Keyring) ofFleet(name string, fleet *key) (provider.Credential, error) {
	if fleet.file == "" {
		return fleet.credential, nil
	}
	return k.read(name, fleet)
}

// checkEvery is how long a key file is assumed unchanged: a request looks up the keys of all its candidates, and most
// fleets have several.
const checkEvery = 100 * time.Millisecond

// read returns the key, and rereads the file if it has changed: a key is replaced by replacing its file.
func (k *Keyring) read(name string, of *key) (provider.Credential, error) {
	of.mu.Lock()
	defer of.mu.Unlock()
	now := time.Now()
	if now.Sub(of.checked) < checkEvery {
		return of.use()
	}
	of.checked = now
	stat, err := os.Stat(string(of.file))
	if err == nil && of.stat != nil && same(of.stat, stat) {
		return of.use()
	}
	had := of.found
	var value secret.Value
	if err == nil {
		value, err = of.file.Read()
	}
	of.stat, of.found = stat, err == nil
	of.credential = provider.Credential{Key: value, Source: SourceFleet, Fingerprint: k.Fingerprint(value)}
	if never := errors.Is(err, fs.ErrNotExist) && !had; err != nil && !never && !of.warned {
		k.Log.Warn("fleet key can't be read", "provider", name, "error", err.Error())
	}
	of.warned = err != nil
	return of.use()
}

func (of *key) use() (provider.Credential, error) {
	if !of.found {
		return provider.Credential{}, ErrNoKey
	}
	return of.credential, nil
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
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
