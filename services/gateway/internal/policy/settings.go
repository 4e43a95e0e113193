package policy

import (
	"errors"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/governance/pattern"
)

// Resilience holds the settings of circuit breaking, which package health applies from the start of the service on.
type Resilience struct {
	Breaker Breaker `yaml:"breaker"`
}

// Breaker holds the settings of the circuit breaker of a provider's model family.
type Breaker struct {
	// The breaker opens if FailurePercent of at least Sample calls within Window fail.
	FailurePercent float64       `yaml:"failure_percent"`
	Sample         uint          `yaml:"sample"`
	Window         time.Duration `yaml:"window"`
	// Delay is the time until the first probe. It doubles after each failed probe, up to MaxDelay.
	Delay    time.Duration `yaml:"delay"`
	MaxDelay time.Duration `yaml:"max_delay"`
}

// defaults are the values that apply if a policy leaves them out.
var defaults = Resilience{
	Breaker: Breaker{FailurePercent: 50, Sample: 5, Window: 30 * time.Second, Delay: 5 * time.Second, MaxDelay: time.Minute},
}

func (r Resilience) check() error {
	b := r.Breaker
	switch {
	case !(b.FailurePercent > 0 && b.FailurePercent <= 100) || b.Sample < 1 || b.Sample > 10_000:
		return errors.New("resilience.breaker: want failure_percent above 0 up to 100, and sample from 1 to 10000")
	case b.Window < time.Second || b.Delay < 100*time.Millisecond || b.MaxDelay < b.Delay:
		return errors.New("resilience.breaker: want window of at least 1s, delay of at least 100ms and max_delay not below it")
	}
	return nil
}

// Resilience returns the resilience settings of all providers.
func (p *Policy) Resilience() Resilience { return p.resilience }

// Values of hosted_tools.
const (
	hostedToolsOffer  = "offer"
	hostedToolsRefuse = "refuse"
)

func checkHostedTools(value string) error {
	switch value {
	case "", hostedToolsOffer, hostedToolsRefuse:
		return nil
	}
	return errors.New("hosted_tools: want offer or refuse")
}

// RefusesHostedTools reports whether a request that offers the model tools of a vendor's own is served only by providers
// that have them.
func (p *Policy) RefusesHostedTools() bool { return p.hostedTools == hostedToolsRefuse }

// Cache holds the settings of the response cache. Package cache applies them.
type Cache struct {
	// Enabled is false by default.
	Enabled bool `yaml:"enabled"`
	// TTL is how long an answer is kept.
	TTL time.Duration `yaml:"ttl"`
	// Organizations are rules for some organizations; the first that matches applies.
	Organizations []CacheRule `yaml:"organizations"`
}

// CacheRule is the cache setting of some organizations.
type CacheRule struct {
	// Organizations are patterns of names; "*" stands for any characters.
	Organizations []string `yaml:"organizations"`
	Enabled       bool     `yaml:"enabled"`
	// TTL is how long an answer is kept; 0 is the policy's TTL.
	TTL time.Duration `yaml:"ttl"`
}

const defaultCacheTTL = 5 * time.Minute

func (c Cache) check() error {
	if c.TTL != 0 && c.TTL < time.Second {
		return errors.New("cache.ttl: want at least 1s")
	}
	for _, rule := range c.Organizations {
		if len(rule.Organizations) == 0 {
			return errors.New("cache.organizations: each needs organizations")
		}
		if rule.TTL != 0 && rule.TTL < time.Second {
			return errors.New("cache.organizations.ttl: want at least 1s")
		}
	}
	return nil
}

// Budget holds the settings for calls under a ceiling.
type Budget struct {
	// Unpriced is what happens to calls of models without a price: "refuse" (the default) or "allow".
	Unpriced string `yaml:"unpriced"`
}

func (b Budget) check() error {
	switch b.Unpriced {
	case "", "refuse", "allow":
		return nil
	}
	return errors.New("budget.unpriced: want refuse or allow")
}

// ServesUnpriced reports whether calls under a ceiling may use models without a price.
func (p *Policy) ServesUnpriced() bool { return p.budget.Unpriced == "allow" }

// Caches reports whether answers of any organization are cached.
func (p *Policy) Caches() bool {
	return p.cache.Enabled || slices.ContainsFunc(p.cache.Organizations, func(r CacheRule) bool { return r.Enabled })
}

// CacheTTL returns how long answers of an organization are cached; 0 means not at all.
func (p *Policy) CacheTTL(organization string) time.Duration {
	ttl := p.cache.TTL
	if ttl == 0 {
		ttl = defaultCacheTTL
	}
	for _, rule := range p.cache.Organizations {
		if !pattern.Any(rule.Organizations, organization) {
			continue
		}
		switch {
		case !rule.Enabled:
			return 0
		case rule.TTL > 0:
			return rule.TTL
		}
		return ttl
	}
	if !p.cache.Enabled {
		return 0
	}
	return ttl
}
