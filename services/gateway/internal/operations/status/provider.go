package status

import (
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Health is the health of a provider as this replica sees it.
type Health string

// The healths. An impaired provider has a circuit that is not closed, or fails often; an offline one has no closed
// circuit; an unconfigured one has no fleet credential.
const (
	Healthy      Health = "healthy"
	Impaired     Health = "degraded"
	Offline      Health = "down"
	Unconfigured Health = "unconfigured"
)

// Reasons why a request that names no provider does not get this one.
const (
	reasonMissingKey = "missing_key"
	reasonPinned     = "pinned_elsewhere"
	reasonOpen       = "breaker_open"
	reasonFull       = "bulkhead_full"
	reasonUnranked   = "not_in_the_policys_choice"
)

// Provider is one configured provider, with its health and its ranks.
type Provider struct {
	Name, Dialect string
	Aliases       []string
	Health        Health
	Since         time.Time
	FleetKey      bool
	Operations    []provider.Operation
	// NotSelectable is why a request that names no provider does not get this one; empty when it may.
	NotSelectable string
	Circuits      []Circuit
	Bulkhead      health.Bulkhead
	Models        []health.Figures
	Ranking       []routing.RankedCandidate
	Credentials   []Credential
}

// Credential is one of the fleet's credentials that the policy lists, as this replica sees it.
type Credential struct {
	Name  string
	Kind  string
	State CredentialState
	// Reason is why it rests, and Until how long.
	Reason health.Cause
	Until  time.Time
	// Fingerprint is empty for a credential that is missing or draining.
	Fingerprint string
	InFlight    int
}

// CredentialState is whether calls are made with a credential.
type CredentialState string

// The states of credentials.
const (
	CredentialReady    CredentialState = "ready"
	CredentialResting  CredentialState = "resting"
	CredentialMissing  CredentialState = "missing"
	CredentialDraining CredentialState = "draining"
)

// Circuit is a circuit with the class of the last failure in its family.
type Circuit struct {
	health.Status

	LastClass string
}

// Facts are the inputs of the views.
type Facts struct {
	Policy    *policy.Policy
	Override  steering.Override
	State     routing.State
	Snapshot  []health.Status
	Figures   []health.Figures
	Bulkheads func(provider string) health.Bulkhead
	// HasKey reports whether the fleet has a credential for a provider or the provider needs none.
	HasKey func(provider string) bool
	// Credentials returns the credentials that the policy lists for a provider; nil returns none.
	Credentials func(p *policy.Provider) []Credential
	// PolicyProblem is a short code of what keeps the policy that was last released from being in force here; empty for
	// nothing.
	PolicyProblem string
	Now           time.Time
}

// Providers returns all configured providers, by name. The caller sets their Since times.
func Providers(f Facts) []Provider {
	ranking := routing.Ranking(f.Policy, f.State)
	all := make([]Provider, 0, len(f.Policy.Providers))
	for i := range f.Policy.Providers {
		configured := &f.Policy.Providers[i]
		p := Provider{
			Name: configured.Name, Dialect: configured.Dialect, Aliases: configured.Aliases, FleetKey: f.HasKey(configured.Name),
			Operations: f.Policy.Serves(provider.Target{Provider: configured.Name}), Bulkhead: f.Bulkheads(configured.Name),
		}
		for _, figures := range f.Figures {
			if figures.Provider == p.Name {
				p.Models = append(p.Models, figures)
			}
		}
		for _, status := range f.Snapshot {
			if status.Provider == p.Name {
				p.Circuits = append(p.Circuits, Circuit{status, lastClass(p.Models, status.Circuit)})
			}
		}
		for _, s := range ranking {
			if s.Provider == p.Name {
				p.Ranking = append(p.Ranking, s)
			}
		}
		if f.Credentials != nil {
			p.Credentials = f.Credentials(configured)
		}
		p.Health = p.judge()
		p.NotSelectable = p.reason(f.Override)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// lastClass returns the class of the last failure in a family.
func lastClass(models []health.Figures, c health.Circuit) (class string) {
	var last time.Time
	for _, m := range models {
		if m.Circuit == c && m.LastBad.After(last) {
			last, class = m.LastBad, string(m.LastClass)
		}
	}
	return class
}

func (p *Provider) open() (open int) {
	for _, c := range p.Circuits {
		if c.Phase != health.Closed {
			open++
		}
	}
	return open
}

func (p *Provider) judge() Health {
	calls, failures := 0, 0
	for _, m := range p.Models {
		calls, failures = calls+m.RecentCalls, failures+m.RecentFailures
	}
	open := p.open()
	switch {
	case !p.FleetKey:
		return Unconfigured
	case open > 0 && open == len(p.Circuits):
		return Offline
	case open > 0, failures >= fewestFailures && float64(failures) >= degradedShare*float64(calls):
		return Impaired
	}
	return Healthy
}

func (p *Provider) reason(o steering.Override) string {
	switch {
	case !p.FleetKey:
		return reasonMissingKey
	case o.Pin != nil && o.Pin.Provider != p.Name:
		return reasonPinned
	case p.Health == Offline:
		return reasonOpen
	case p.Bulkhead.InFlight >= p.Bulkhead.Limit && p.Bulkhead.Limit > 0:
		return reasonFull
	case len(p.Ranking) == 0 && o.Pin == nil && (o.Canary == nil || o.Canary.Provider != p.Name):
		return reasonUnranked
	}
	return ""
}

// ProviderReports returns what a replica reports of providers.
func ProviderReports(snapshot []health.Status, figures []health.Figures) []ProviderReport {
	by := make(map[string]*ProviderReport)
	at := func(provider string) *ProviderReport {
		if by[provider] == nil {
			by[provider] = &ProviderReport{Provider: provider}
		}
		return by[provider]
	}
	for _, f := range figures {
		s := at(f.Provider)
		s.Attempts, s.Failures = s.Attempts+f.Calls, s.Failures+f.Failures
		s.RecentAttempts, s.RecentFailures = s.RecentAttempts+f.RecentCalls, s.RecentFailures+f.RecentFailures
		if f.LastGood.After(s.LastSuccess) {
			s.LastSuccess = f.LastGood
		}
		if f.LastBad.After(s.LastFailure) {
			s.LastFailure, s.LastClass = f.LastBad, string(f.LastClass)
		}
	}
	for _, c := range snapshot {
		s := at(c.Provider)
		s.Circuits++
		if c.Phase != health.Closed {
			s.Open++
		}
	}
	all := make([]ProviderReport, 0, len(by))
	for _, s := range by {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b ProviderReport) int { return strings.Compare(a.Provider, b.Provider) })
	return all
}
