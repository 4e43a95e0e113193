package policy

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/custody/keyring"
)

// Canonical returns the name of a provider, given its name or one of its aliases in any case, or false if none is
// configured.
func (p *Policy) Canonical(name string) (string, bool) {
	if p.byName[name] != nil {
		return name, true
	}
	name = strings.ToLower(name)
	if p.byName[name] != nil {
		return name, true
	}
	canonical, ok := p.aliases[name]
	return canonical, ok
}

// Byok returns the mode in which organizations' own credentials are used for requests that ask for none. The empty mode
// uses the fleet's credentials.
func (p *Policy) Byok() keyring.Mode { return p.byok }

// setByok sets the mode.
func (p *Policy) setByok(mode keyring.Mode) error {
	modes := []keyring.Mode{"", keyring.ModeFleet, keyring.ModePrefer, keyring.ModeRequire}
	if !slices.Contains(modes, mode) {
		return fmt.Errorf("byok: %q: want fleet, prefer or require", mode)
	}
	p.byok = mode
	return nil
}

// setAliases collects the aliases of all providers. An alias belongs to one provider only.
func (p *Policy) setAliases() error {
	p.aliases = make(map[string]string)
	for _, provider := range p.Providers {
		for _, alias := range provider.Aliases {
			switch other, taken := p.aliases[alias]; {
			case !providerName.MatchString(alias):
				return fmt.Errorf("provider %s: aliases: %q: want a name like that of a provider", provider.Name, alias)
			case taken && other != provider.Name:
				return fmt.Errorf("provider %s: aliases: %q belongs to %s, too", provider.Name, alias, other)
			}
			p.aliases[alias] = provider.Name
		}
	}
	return nil
}
