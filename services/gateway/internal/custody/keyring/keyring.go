// Package keyring finds the credential that a call to a provider uses: the
// organization's own, which package byok holds, or the fleet's. Fleet keys are
// read from files, which may be replaced while the service runs. Keys leave it
// only as secret.Value. Package inference asks it; internal/app makes it.
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

// ErrNoKey says that there is no credential for a provider.
var ErrNoKey = errors.New("no key for the provider")

// SourceFleet is the source of credentials that belong to the fleet.
const SourceFleet = "fleet"

// SourceByok is the source of credentials that organizations bring.
const SourceByok = "byok"

// Mode says what to do where an organization has no credential of its own.
type Mode string

// The modes of a request's byok.
const (
	// ModeRequire never uses the fleet's key.
	ModeRequire Mode = "require"
	// ModePrefer uses the organization's own first, then the fleet's.
	ModePrefer Mode = "prefer"
	// ModeFleet never uses the organization's own; no request can ask for it.
	ModeFleet Mode = "fleet"
)

// Scope is whose credential a request may use.
type Scope struct {
	Organization string
	// Byok is the mode that the request asked for; empty when it did not: then the
	// keyring's own mode holds.
	Byok Mode
	// Provider is the only one whose own credential may be used; empty is any.
	Provider string
}

// Own are the credentials that organizations bring.
type Own interface {
	// Find gives an organization's credential for a provider; an error where there
	// is none, or none that can be used now. asked: the request itself asks for it, so
	// that one which was stored a moment ago must be found.
	Find(ctx context.Context, organization, provider string, asked bool) (provider.Credential, error)
}

// Options of a Keyring.
type Options struct {
	Log *slog.Logger
	// Files are the key files of providers by name; "" for one that needs no key.
	Files map[string]string
	// Fingerprint hashes keys; see NewFingerprint.
	Fingerprint func(secret.Value) string
	// Own is nil where organizations bring none.
	Own Own
	// Mode of requests that ask for none; ModeFleet when empty.
	Mode Mode
	// Canonical gives the name of a provider by an alias; nil where there are none.
	Canonical func(string) (string, bool)
}

// Keyring holds the fleet's keys. Safe for concurrent use.
type Keyring struct {
	Options

	fleet map[string]*key
}

// key is one fleet key; a provider without a file needs none.
type key struct {
	file secret.File

	mu         sync.Mutex
	looked     time.Time // when the file was looked at
	stat       fs.FileInfo
	credential provider.Credential
	found      bool
	warned     bool // of the failure that lasts
}

// New returns a keyring.
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

// Resolve finds the credential for a provider. The error is ErrNoKey where there
// is none, and another one where the organization has one that can't be used now.
func (k *Keyring) Resolve(ctx context.Context, scope Scope, name string) (provider.Credential, error) {
	fleet, ok := k.fleet[name]
	if !ok {
		return provider.Credential{}, ErrNoKey // No key goes to an unknown address.
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
		return credential, err // The organization's own tells more.
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

// lookEvery is how long a key file is taken for what it was: a request looks for
// the keys of all its candidates, and most fleets have several.
const lookEvery = 100 * time.Millisecond

// read looks at the file when it is used, and into it when it is another than
// last time: a key is replaced by replacing its file.
func (k *Keyring) read(name string, of *key) (provider.Credential, error) {
	of.mu.Lock()
	defer of.mu.Unlock()
	now := time.Now()
	if now.Sub(of.looked) < lookEvery {
		return of.use()
	}
	of.looked = now
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

// NewFingerprint returns what tells keys apart without giving them away: 64 bits
// of a hash with a key of its own. Without one, fingerprints are the same in
// every installation.
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
