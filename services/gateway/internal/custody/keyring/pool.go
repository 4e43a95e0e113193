package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// Member is one of the fleet's credentials for a provider: a key in a file, or an identity.
type Member struct {
	// Name of the credential in the pool, and its share of the requests relative to the others; zero where it is the only
	// one.
	Name   string
	Weight int
	// File is the path of the key's file; empty for an identity.
	File string
	// Identity gets access tokens, or signs; nil for a key.
	Identity Identity
	// Drain takes no new requests.
	Drain bool
}

// Identity is a credential that renews itself; see package identity.
type Identity interface {
	// Current returns the present credential without waiting; false where there is none.
	Current() (provider.Credential, bool)
	// Credential returns the present credential. It waits where there is none, for at most as long as ctx lasts.
	Credential(ctx context.Context) (provider.Credential, error)
	// Drop has a credential replaced that the vendor refused.
	Drop(refused provider.Credential)
}

// pool holds the fleet's credentials for one provider.
type pool struct {
	Options

	provider string
	keyless  bool
	members  []*member
}

// member is one credential of a pool.
type member struct {
	Member

	// key is nil for an identity. The list holds one credential, so that it can be returned as it is.
	key *secret.Cached[[]provider.Credential]
	// had reports whether the key could be read before.
	had atomic.Bool
}

func newPool(name string, members []Member, o Options) *pool {
	p := &pool{Options: o, provider: name, keyless: len(members) == 0}
	for _, m := range members {
		if m.Drain {
			continue
		}
		made := &member{Member: m}
		if m.Identity == nil {
			made.key = secret.NewCached(secret.File(m.File), func(key secret.Value) []provider.Credential {
				return []provider.Credential{{Name: m.Name, Weight: m.Weight, Key: key, Source: SourceFleet, Fingerprint: o.Fingerprint(key)}}
			})
		}
		p.members = append(p.members, made)
	}
	return p
}

// keyless is the credential of a provider that needs none.
var keyless = []provider.Credential{{Source: SourceFleet}}

// credentials returns those of the pool that can be used now, or ErrNoKey.
func (p *pool) credentials(ctx context.Context) ([]provider.Credential, error) {
	switch {
	case p.keyless:
		return keyless, nil
	case len(p.members) == 1:
		return p.read(ctx, p.members[0])
	}
	all := make([]provider.Credential, 0, len(p.members))
	var missing error
	for _, m := range p.members {
		if m.Identity == nil {
			some, err := p.key(ctx, m)
			all, missing = append(all, some...), cmp.Or(missing, err)
		} else if present, ok := m.Identity.Current(); ok {
			all = append(all, m.of(present))
		}
	}
	if len(all) == 0 {
		return p.await(ctx, cmp.Or(missing, ErrNoKey))
	}
	return all, nil
}

// await returns the first credential of the pool's identities, all of which have none yet. missing is the error of a pool
// without identities.
func (p *pool) await(ctx context.Context, missing error) ([]provider.Credential, error) {
	for _, m := range p.members {
		if m.Identity == nil {
			continue
		}
		credential, err := m.Identity.Credential(ctx)
		if err == nil {
			return []provider.Credential{m.of(credential)}, nil
		}
		missing = notExchanged(err)
	}
	return nil, missing
}

// exchangeAgain is when a caller may ask again for an identity's credential.
const exchangeAgain = time.Second

// notExchanged returns the caller's error for an identity without a credential. Its manager has logged the cause.
func notExchanged(err error) error {
	return (&apierr.Error{
		Kind: apierr.KindUnavailable, Reason: reasonMissingKeys, Class: apierr.ClassTransient, RetryAfter: exchangeAgain,
		Text: "no provider configured (missing keys): the identity can't be exchanged for a credential at the moment",
	}).Wrap(err)
}

const reasonMissingKeys apierr.Reason = "missing_keys"

// read returns a member's credential as a list of one.
func (p *pool) read(ctx context.Context, m *member) ([]provider.Credential, error) {
	if m.Identity != nil {
		return p.await(ctx, ErrNoKey)
	}
	return p.key(ctx, m)
}

// of returns an identity's credential as that of the pool's member.
func (m *member) of(credential provider.Credential) provider.Credential {
	credential.Name, credential.Weight, credential.Source = m.Name, m.Weight, SourceFleet
	return replaceable(credential, m.Identity)
}

// replaceable returns a credential that its identity replaces once the vendor has refused it.
func replaceable(credential provider.Credential, by Identity) provider.Credential {
	refused := credential
	credential.Refused = func(e *provider.Error) {
		if e.Status == http.StatusUnauthorized || slices.Contains(expired, e.Code) {
			by.Drop(refused)
		}
	}
	return credential
}

// expired are the codes of AWS for credentials that have ended or were withdrawn.
var expired = []string{"ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException", "InvalidClientTokenId"}

// key returns the key in a member's file as a list of one.
func (p *pool) key(ctx context.Context, m *member) ([]provider.Credential, error) {
	credentials, changed, err := m.key.Read()
	if err == nil {
		if changed {
			m.had.Store(true)
		}
		return credentials, nil
	}
	if never := errors.Is(err, fs.ErrNotExist) && !m.had.Load(); changed && !never {
		p.Log.WarnContext(ctx, "fleet key can't be read", "provider", p.provider, "credential", m.Name, "error", err.Error())
	}
	return nil, &MissingError{Provider: p.provider, File: m.File, cause: err}
}

// MissingError is the error of a key whose file can't be read; it is ErrNoKey. It is for operators, since it names the
// file.
type MissingError struct {
	Provider, File string

	cause error
}

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("provider %s: key_file %s (a relative one is in GATEWAY_FLEET_KEYS_DIR, or beside the file that names it): %v",
		e.Provider, e.File, e.cause)
}

// Is reports whether target is ErrNoKey.
func (e *MissingError) Is(target error) bool { return target == ErrNoKey }

// Unwrap returns why the file can't be read.
func (e *MissingError) Unwrap() error { return e.cause }
