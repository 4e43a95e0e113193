package keyring

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"switchyard.dev/services/gateway/internal/vendors/provider"
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

// Identity is a credential that renews itself.
type Identity interface {
	// Credential returns the present credential. It waits only where there is none yet, for at most as long as ctx lasts.
	Credential(ctx context.Context) (provider.Credential, error)
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
	for _, m := range p.members {
		if some, err := p.read(ctx, m); err == nil {
			all = append(all, some...)
		}
	}
	if len(all) == 0 {
		return nil, ErrNoKey
	}
	return all, nil
}

// read returns a member's credential as a list of one.
func (p *pool) read(ctx context.Context, m *member) ([]provider.Credential, error) {
	if m.Identity != nil {
		credential, err := m.Identity.Credential(ctx)
		if err != nil {
			return nil, err
		}
		credential.Name, credential.Weight, credential.Source = m.Name, m.Weight, SourceFleet
		return []provider.Credential{credential}, nil
	}
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
	return nil, ErrNoKey
}
