package keyring

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

const (
	// maxOwn bounds the identities of organizations that are kept open.
	maxOwn = 1024
	// ownIdle is how long one is kept after its last use.
	ownIdle = time.Hour
)

// ownIdentities keeps the identities open that organizations have brought, so that each is exchanged once and not for
// every request.
type ownIdentities struct {
	mu sync.Mutex
	by map[ownKey]*openIdentity
}

// ownKey tells identities apart by the hash of their secrets, for each provider: what is signed depends on it.
type ownKey struct{ provider, fingerprint string }

type openIdentity struct {
	Identity

	used time.Time
}

func newOwnIdentities() ownIdentities { return ownIdentities{by: make(map[ownKey]*openIdentity)} }

// exchangeOwn returns the credential of an identity that an organization has brought.
func (k *Keyring) exchangeOwn(ctx context.Context, name string, brought provider.Credential) (provider.Credential, error) {
	found, err := k.openOwn(name, brought)
	if err != nil { // Such as one of AWS for another vendor.
		return provider.Credential{}, apierr.New(apierr.KindInvalid, reasonMissingKeys, "the organization's credential for "+name+": "+err.Error())
	}
	credential, err := found.Credential(ctx)
	if err != nil {
		return provider.Credential{}, notExchanged(err)
	}
	credential.Source, credential.Fingerprint = brought.Source, brought.Fingerprint
	return replaceable(credential, found), nil
}

// openOwn opens an identity, or returns the one that is open.
func (k *Keyring) openOwn(name string, brought provider.Credential) (Identity, error) {
	key, now := ownKey{name, brought.Fingerprint}, time.Now()
	k.own.mu.Lock()
	defer k.own.mu.Unlock()
	if found := k.own.by[key]; found != nil {
		found.used = now
		return found, nil
	}
	made, err := k.OwnIdentity(name, brought.Key)
	if err != nil {
		return nil, err
	}
	if len(k.own.by) >= maxOwn {
		for other, found := range k.own.by {
			if now.Sub(found.used) >= ownIdle {
				delete(k.own.by, other)
			}
		}
	}
	if len(k.own.by) < maxOwn {
		k.own.by[key] = &openIdentity{made, now}
	}
	return made, nil
}
