package policy

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/governance/pattern"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Quota bounds what calls take in a minute, and how many are in flight. Zero fields mean no limit.
type Quota struct {
	// TPM and RPM are tokens and requests per minute.
	TPM int64 `yaml:"tpm"`
	RPM int64 `yaml:"rpm"`
	// Concurrency is the number of calls at a time.
	Concurrency int `yaml:"concurrency"`
}

// ModelQuota is the quota that some models of a credential have together.
type ModelQuota struct {
	// Models are names from the provider's list.
	Models []string `yaml:"models"`
	Quota  `yaml:",inline"`
}

// Quotas are the limits of organizations, and how long requests may wait until something is free.
type Quotas struct {
	// MaxWait is how long a request may wait; DefaultMaxWait if absent, and 0 refuses it at once.
	MaxWait *time.Duration `yaml:"max_wait"`
	// Organizations are rules for some organizations; the first that matches applies.
	Organizations []OrganizationQuota `yaml:"organizations"`
}

// OrganizationQuota is the quota of each of some organizations, for each model.
type OrganizationQuota struct {
	// Organizations are patterns of names; "*" stands for any characters.
	Organizations []string `yaml:"organizations"`
	Quota         `yaml:",inline"`
}

// Bounds of quotas.
const (
	mostPerMinute   = 1 << 40
	mostConcurrency = 100_000
	mostWait        = 5 * time.Minute
	mostModelQuotas = 64
)

// DefaultMaxWait is how long requests may wait for a quota where the policy doesn't say.
const DefaultMaxWait = 10 * time.Second

func (q Quota) check() error {
	switch {
	case q.TPM < 0 || q.TPM > mostPerMinute:
		return fmt.Errorf("tpm: want 1 to %d", int64(mostPerMinute))
	case q.RPM < 0 || q.RPM > mostPerMinute:
		return fmt.Errorf("rpm: want 1 to %d", int64(mostPerMinute))
	case q.Concurrency < 0 || q.Concurrency > mostConcurrency:
		return fmt.Errorf("concurrency: want 1 to %d", mostConcurrency)
	}
	return nil
}

func (q Quota) limit() quota.Limit {
	return quota.Limit{Tokens: q.TPM, Requests: q.RPM, Concurrent: q.Concurrency}
}

func (c *Credential) checkQuotas() error {
	if err := c.Quota.check(); err != nil {
		return err
	}
	if c.QuotaGroup != "" && !providerName.MatchString(c.QuotaGroup) {
		return errors.New("quota_group: want lower-case letters, digits, '.', '_' and '-', at most 64")
	}
	if len(c.ModelQuotas) > mostModelQuotas {
		return fmt.Errorf("model_quotas: %d are more than %d", len(c.ModelQuotas), mostModelQuotas)
	}
	seen := make(map[string]bool)
	for i, of := range c.ModelQuotas {
		if err := of.check(seen); err != nil {
			return fmt.Errorf("model_quotas[%d].%w", i, err)
		}
	}
	return nil
}

// check checks the quota of some of a credential's models; seen are those that have one already.
func (q *ModelQuota) check(seen map[string]bool) error {
	if len(q.Models) == 0 {
		return errors.New("models: is required")
	}
	for _, name := range q.Models {
		if seen[name] {
			return fmt.Errorf("models: %q has a quota already", name)
		}
		seen[name] = true
	}
	return q.Quota.check()
}

// checkGroups returns an error unless the credentials of a quota group state the same limits.
func (p *Provider) checkGroups() error {
	first := make(map[string]*Credential)
	for i := range p.Credentials {
		c := &p.Credentials[i]
		other := first[c.QuotaGroup]
		switch {
		case c.QuotaGroup == "":
		case other == nil:
			first[c.QuotaGroup] = c
		case c.Quota != other.Quota || !reflect.DeepEqual(c.ModelQuotas, other.ModelQuotas):
			return fmt.Errorf("credentials[%d] %q: quota_group: has other limits than credential %q of the group", i, c.Name, other.Name)
		}
	}
	return nil
}

func (q *Quotas) check() error {
	if q.MaxWait != nil && (*q.MaxWait < 0 || *q.MaxWait > mostWait) {
		return fmt.Errorf("quotas.max_wait: want at most %s", mostWait)
	}
	for i, rule := range q.Organizations {
		if len(rule.Organizations) == 0 {
			return fmt.Errorf("quotas.organizations[%d].organizations: is required", i)
		}
		if err := rule.check(); err != nil {
			return fmt.Errorf("quotas.organizations[%d].%w", i, err)
		}
	}
	return nil
}

// MaxQuotaWait returns how long a request may wait for a quota.
func (p *Policy) MaxQuotaWait() time.Duration {
	if p.quotas.MaxWait == nil {
		return DefaultMaxWait
	}
	return *p.quotas.MaxWait
}

// credentialQuotas are the subjects and limits of a credential by model; other is what each of its other models has.
type credentialQuotas struct {
	by    map[string]quota.Claim
	other quota.Limit
	group string
}

// setQuotas prepares the limits of a provider's credentials.
func (p *Policy) setQuotas(of *Provider) error {
	for i := range of.Credentials {
		c := &of.Credentials[i]
		limits := credentialQuotas{
			by: make(map[string]quota.Claim), other: c.limit(), group: "credential/" + of.Name + "/" + cmp.Or(c.QuotaGroup, c.Name) + "/",
		}
		for at, q := range c.ModelQuotas {
			for _, name := range q.Models {
				if !slices.ContainsFunc(of.Models, func(m Model) bool { return m.Name == name }) {
					return fmt.Errorf("credentials[%d] %q: model_quotas[%d].models: the provider lists no model %q", i, c.Name, at, name)
				}
				limits.by[name] = quota.Claim{Subject: limits.subject(q.Models[0]), Limit: q.limit()}
			}
		}
		if limits.other != (quota.Limit{}) || len(limits.by) > 0 {
			p.credentialQuotas[credentialName{of.Name, c.Name}] = limits
		}
	}
	return nil
}

type credentialName struct{ provider, credential string }

func (q *credentialQuotas) subject(model string) quota.Subject {
	return quota.Subject(q.group + quota.Name(model))
}

// CredentialQuota returns the limit of one of the fleet's credentials for a model, and under which subject it counts.
// Models that no policy names count together, as callers may invent their names.
func (p *Policy) CredentialQuota(t provider.Target, unlisted bool, credential string) (quota.Subject, quota.Limit) {
	of, limited := p.credentialQuotas[credentialName{t.Provider, credential}]
	if !limited {
		return "", quota.Limit{}
	}
	if claim, own := of.by[t.Model]; own {
		return claim.Subject, claim.Limit
	}
	if of.other == (quota.Limit{}) {
		return "", quota.Limit{}
	}
	if unlisted {
		return of.subject(quota.AnyModel), of.other
	}
	return of.subject(t.Model), of.other
}

// HasQuotas reports whether there are limits of credentials or organizations.
func (p *Policy) HasQuotas() bool { return len(p.credentialQuotas)+len(p.quotas.Organizations) > 0 }

// OrganizationQuota returns the limit of an organization for each model.
func (p *Policy) OrganizationQuota(organization string) quota.Limit {
	for i := range p.quotas.Organizations {
		rule := &p.quotas.Organizations[i]
		if pattern.Any(rule.Organizations, organization) {
			return rule.limit()
		}
	}
	return quota.Limit{}
}
