// Package keyring finds the credential that a call to a provider uses. Fleet
// keys are read from files, which may be replaced while the service runs. Keys
// leave it only as secret.Value. Package inference asks it; internal/app makes it.
package keyring

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"switchyard.dev/services/gateway/internal/provider"
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
)

// Scope is whose credential a request may use.
type Scope struct {
	Organization string
	// Byok is the mode that the request asked for; empty when it did not.
	Byok Mode
}

// Keyring holds the fleet's keys. Safe for concurrent use.
type Keyring struct {
	log   *slog.Logger
	fleet map[string]*key
	pin   []byte
}

// key is one fleet key; a provider without a file needs none.
type key struct {
	file secret.File

	mu         sync.Mutex
	stat       fs.FileInfo
	credential provider.Credential
	found      bool
	warned     bool // of the failure that lasts
}

// New returns the keyring of providers by name, each with its key file or "".
// The fingerprint key is what fingerprints are hashed with; without one they
// are the same in every installation.
func New(log *slog.Logger, files map[string]string, fingerprint secret.Value) *Keyring {
	k := &Keyring{log: log, fleet: make(map[string]*key), pin: []byte("switchyard/fingerprint/v1:" + fingerprint.Reveal())}
	for name, file := range files {
		k.fleet[name] = &key{
			file: secret.File(file), found: file == "",
			credential: provider.Credential{Source: SourceFleet},
		}
	}
	return k
}

// Resolve finds the credential for a provider, or ErrNoKey. Organizations have
// no credentials of their own yet, so that requiring one finds none.
func (k *Keyring) Resolve(scope Scope, name string) (provider.Credential, error) {
	fleet, ok := k.fleet[name]
	if !ok || scope.Byok == ModeRequire {
		return provider.Credential{}, ErrNoKey
	}
	if fleet.file == "" {
		return fleet.credential, nil
	}
	return k.read(name, fleet)
}

// read looks at the file on each use, and into it when it is another than last
// time: a key is replaced by replacing its file.
func (k *Keyring) read(name string, of *key) (provider.Credential, error) {
	stat, err := os.Stat(string(of.file))
	of.mu.Lock()
	defer of.mu.Unlock()
	if err == nil && of.stat != nil && same(of.stat, stat) {
		return of.use()
	}
	had := of.found
	var value secret.Value
	if err == nil {
		value, err = of.file.Read()
	}
	of.stat, of.found = stat, err == nil
	of.credential = provider.Credential{Key: value, Source: SourceFleet, Fingerprint: k.fingerprint(value)}
	if never := errors.Is(err, fs.ErrNotExist) && !had; err != nil && !never && !of.warned {
		k.log.Warn("fleet key can't be read", "provider", name, "error", err.Error())
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

// fingerprint tells keys apart without giving them away: 64 bits of a keyed hash.
func (k *Keyring) fingerprint(value secret.Value) string {
	if value.IsZero() {
		return ""
	}
	mac := hmac.New(sha256.New, k.pin)
	mac.Write([]byte(value.Reveal()))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
