package app

import (
	"errors"
	"fmt"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/cloud"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

// startIdentities starts to renew the identities of the fleet and of organizations.
func startIdentities(s *service.Service, cfg Config, out *network.Network) (*identity.Manager, error) {
	fingerprint, err := newFingerprint(cfg)
	if err != nil {
		return nil, err
	}
	tokens, err := out.Transport(network.Route{})
	if err != nil {
		return nil, err
	}
	metadata, err := out.Transport(network.Route{Direct: true})
	if err != nil {
		return nil, err
	}
	m, err := identity.NewManager(identity.Options{
		Open: cloud.Opener(identity.NewClients(tokens, metadata)), Fingerprint: fingerprint, Log: s.Log, Meter: s.Meter,
	})
	if err != nil {
		return nil, err
	}
	s.Runner.Go("identities", m.Run)
	return m, nil
}

// newPools returns the fleet's credentials for each provider.
func newPools(identities *identity.Manager, p *policy.Policy) (map[string][]keyring.Member, error) {
	fleet := make(map[string][]keyring.Member)
	for i := range p.Providers {
		vendor := &p.Providers[i]
		var members []keyring.Member
		for _, c := range vendor.Pool() {
			member := keyring.Member{Name: c.Name, Weight: c.Weight, File: c.KeyFile, Drain: c.Drain}
			if !c.IsZero() {
				opened, err := identities.Fleet(c.Config)
				if err != nil {
					return nil, fmt.Errorf("provider %s: credential %s: %w", vendor.Name, c.Name, err)
				}
				member.Identity = opened
			}
			members = append(members, member)
		}
		fleet[vendor.Name] = members
	}
	return fleet, nil
}

// ownIdentity returns the function that opens identities of organizations: for the same service and region as the fleet's
// identity, or as the provider's base URL says.
func ownIdentity(identities *identity.Manager, p *policy.Policy) func(name string, text secret.Value) (keyring.Identity, error) {
	return func(name string, text secret.Value) (keyring.Identity, error) {
		for i := range p.Providers {
			vendor := &p.Providers[i]
			if vendor.Name != name {
				continue
			}
			var like identity.Config
			for _, c := range vendor.Pool() {
				if !c.IsZero() {
					like = c.Config
					break
				}
			}
			config, err := identity.ParseOwn(text, like)
			if err != nil {
				return nil, err
			}
			if config, err = config.Complete(vendor.BaseURL, ""); err != nil {
				return nil, err
			}
			return identities.Own(config)
		}
		return nil, errors.New("there is no such provider")
	}
}
