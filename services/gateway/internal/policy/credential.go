package policy

import (
	"cmp"
	"errors"
	"fmt"

	"switchyard.dev/services/gateway/internal/custody/identity"
)

// Choice is how a credential of a pool is chosen for a request.
type Choice string

// The choices.
const (
	// ChoiceWeighted spreads requests by weight.
	ChoiceWeighted Choice = "weighted"
	// ChoiceSticky keeps requests that begin alike with one credential, for the vendor's prompt cache, unless it is far
	// busier than the others.
	ChoiceSticky Choice = "sticky"
	// ChoiceLeastLoaded takes the credential with the smallest part of its limits in use.
	ChoiceLeastLoaded Choice = "least_loaded"
	// ChoiceLowestLatency takes the faster of two random credentials.
	ChoiceLowestLatency Choice = "lowest_latency"
)

// Credential is one of the fleet's credentials for a provider: a key, or an identity.
type Credential struct {
	// Name in the pool, for lineage, metrics and operators.
	Name string `yaml:"name"`
	// KeyFile is the path of the file with the key; empty for an identity.
	KeyFile         string `yaml:"key_file"`
	identity.Config `yaml:",inline"`
	// Weight is the credential's share of the requests, relative to the others; 1 if absent.
	Weight int `yaml:"weight"`
	// Drain takes no new requests; those in flight end with the credential.
	Drain bool `yaml:"drain"`
	// Quota is the vendor's limit for each model, ModelQuotas are the limits of models that differ.
	Quota       `yaml:",inline"`
	ModelQuotas []ModelQuota `yaml:"model_quotas"`
	// QuotaGroup names the account that the vendor limits, for credentials that share one; a credential without it has
	// limits of its own.
	QuotaGroup string `yaml:"quota_group"`
}

const (
	maxCredentials = 64
	maxWeight      = 1000
)

// Pool returns the fleet's credentials of the provider: those it lists, or the one of its key file; none if it is called
// without a key.
func (p *Provider) Pool() []Credential {
	if len(p.Credentials) > 0 || p.KeyFile == "" {
		return p.Credentials
	}
	return []Credential{{KeyFile: p.KeyFile}}
}

func (p *Provider) checkCredentials() error {
	switch {
	case len(p.Credentials) > 0 && p.KeyFile != "":
		return errors.New("key_file: is given beside credentials; list it there")
	case len(p.Credentials) > maxCredentials:
		return fmt.Errorf("credentials: %d are more than %d", len(p.Credentials), maxCredentials)
	}
	switch p.CredentialChoice {
	case "", ChoiceWeighted, ChoiceSticky, ChoiceLeastLoaded, ChoiceLowestLatency:
	default:
		return fmt.Errorf("credential_choice: want %s, %s, %s or %s", ChoiceWeighted, ChoiceSticky, ChoiceLeastLoaded, ChoiceLowestLatency)
	}
	seen := make(map[string]bool)
	for i := range p.Credentials {
		c := &p.Credentials[i]
		err := cmp.Or(c.check(), c.checkQuotas())
		if err == nil && seen[c.Name] {
			err = errors.New("name: appears twice")
		}
		if err != nil {
			return fmt.Errorf("credentials[%d] %q: %w", i, c.Name, err)
		}
		seen[c.Name] = true
	}
	return p.checkGroups()
}

func (c *Credential) check() error {
	if c.Weight == 0 {
		c.Weight = 1
	}
	switch {
	case !providerName.MatchString(c.Name):
		return errors.New("name: want lower-case letters, digits, '.', '_' and '-', at most 64")
	case c.Weight < 1 || c.Weight > maxWeight:
		return fmt.Errorf("weight: want 1 to %d", maxWeight)
	case c.KeyFile == "" && c.IsZero():
		return errors.New("want key_file, aws, gcp, azure or oidc")
	case c.KeyFile != "" && !c.IsZero():
		return errors.New("key_file: is given beside an identity")
	}
	return nil
}

// resolve makes the paths of the credential's files absolute, and completes an identity by its provider's base URL.
func (c *Credential) resolve(source *Source, baseURL string) (err error) {
	c.KeyFile = source.absolute(c.KeyFile)
	if !c.IsZero() {
		c.Config, err = c.Complete(baseURL, cmp.Or(source.KeysDir, noKeysDir))
	}
	return err
}

// Choices returns how a credential is chosen, for the providers that have several.
func (p *Policy) Choices() map[string]Choice {
	choices := make(map[string]Choice)
	for i := range p.Providers {
		if v := &p.Providers[i]; len(v.Credentials) > 1 {
			choices[v.Name] = cmp.Or(v.CredentialChoice, ChoiceWeighted)
		}
	}
	return choices
}
