package policy

import (
	"errors"
	"slices"
	"time"
)

// Resilience is when a provider is left alone. Package health keeps to it, from
// the service's start on.
type Resilience struct {
	Breaker Breaker `yaml:"breaker"`
}

// Breaker opens for a model family of a provider.
type Breaker struct {
	// FailurePercent of at least Sample calls within Window opens it.
	FailurePercent float64       `yaml:"failure_percent"`
	Sample         uint          `yaml:"sample"`
	Window         time.Duration `yaml:"window"`
	// Delay until the first probe, twice as long after each that fails, MaxDelay at most.
	Delay    time.Duration `yaml:"delay"`
	MaxDelay time.Duration `yaml:"max_delay"`
}

// defaults of what a policy leaves out.
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

// Resilience of all providers.
func (p *Policy) Resilience() Resilience { return p.resilience }

// Cache says whose answers are kept to be given again. Package cache reads it.
type Cache struct {
	// Enabled is off unless said otherwise.
	Enabled bool `yaml:"enabled"`
	// TTL of an answer.
	TTL time.Duration `yaml:"ttl"`
	// Organizations with settings of their own; the first that matches holds.
	Organizations []CacheRule `yaml:"organizations"`
}

// CacheRule is the setting of some organizations.
type CacheRule struct {
	// Organizations by name; "*" stands for any characters.
	Organizations []string `yaml:"organizations"`
	Enabled       bool     `yaml:"enabled"`
	// TTL of an answer; 0 is the policy's.
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

// Budget is what holds for calls under a ceiling.
type Budget struct {
	// Unpriced is for models whose cost is unknown: "refuse" (the default) or "allow".
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

// Caches reports whether any organization's answers are kept.
func (p *Policy) Caches() bool {
	return p.cache.Enabled || slices.ContainsFunc(p.cache.Organizations, func(r CacheRule) bool { return r.Enabled })
}

// CacheTTL is how long answers of an organization are kept; 0 is not at all.
func (p *Policy) CacheTTL(organization string) time.Duration {
	ttl := p.cache.TTL
	if ttl == 0 {
		ttl = defaultCacheTTL
	}
	for _, rule := range p.cache.Organizations {
		if !slices.ContainsFunc(rule.Organizations, func(pattern string) bool { return matches(pattern, organization) }) {
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
