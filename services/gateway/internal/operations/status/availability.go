package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Kinds of dependencies.
const (
	KindDatastore = "datastore"
	KindCache     = "cache"
	KindProvider  = "provider"
	KindSecrets   = "secrets"
	KindFile      = "file"
)

// Dependency is one thing that the gateway needs.
type Dependency struct {
	Name, Kind string
	// Purpose is what it is used for, Impact what happens while it is down, Mitigation what keeps requests going
	// meanwhile.
	Purpose, Impact, Mitigation string
	// Required reports whether requests fail without it, Single whether it is a single point of failure.
	Required, Single bool
	Ping
}

// Availability is the state of the gateway's dependencies.
type Availability struct {
	// Status is available, degraded or unavailable.
	Status       string
	Dependencies []Dependency
	At           time.Time
}

// The statuses of an Availability.
const (
	available   = "available"
	impaired    = "degraded"
	unavailable = "unavailable"
)

// Single returns the names of the single points of failure; never nil.
func (a *Availability) Single() []string {
	names := []string{}
	for _, d := range a.Dependencies {
		if d.Single {
			names = append(names, d.Name)
		}
	}
	return names
}

// Names of the dependencies that are pinged.
const (
	Postgres = "postgres"
	Redis    = "redis"
	Spool    = "spool"
)

// stores are the places that the gateway keeps data in.
var stores = []Dependency{
	{
		Name: Postgres, Kind: KindDatastore, Required: true, Single: true,
		Purpose:    "the ledger, budgets, runs, approvals, credentials of organizations, settings made by operators, the audit log",
		Impact:     "calls under a ceiling or of a minted run are refused with 503, and so are requests that read or change stored data; all other completions are served",
		Mitigation: "ledger rows wait in the spool on disk; settings hold as they were last read; run it with a standby",
	},
	{
		Name: Redis, Kind: KindCache,
		Purpose:    "the breakers' exchange between replicas, the response cache, wake-ups after changes",
		Impact:     "each replica's breakers decide by its own calls, no answer comes from the cache, changes take up to 300 ms longer",
		Mitigation: "nothing in it is needed to serve; replicas agree again within a second of its return",
	},
	{
		Name: Spool, Kind: KindFile,
		Purpose:    "ledger rows on their way to Postgres, in GATEWAY_SPOOL_DIR",
		Impact:     "each ledger row needs a transaction of its own; while Postgres is away too, or when it is full, completions are refused with 503 before a provider is called",
		Mitigation: "rows go straight to Postgres",
	},
}

// policyFiles describes the files that this replica reads at its start and at each reload.
func policyFiles(f Facts) Dependency {
	d := Dependency{
		Name: "policy", Kind: KindFile,
		Purpose:    "each replica's own files: policy, additional providers, prices and catalog",
		Impact:     "a replica whose files are invalid, or differ from those last released, keeps the policy that it has; it can't start with invalid files",
		Mitigation: "it checks its files every second and follows once they are those released",
		Ping:       Ping{State: Up, At: f.Now},
	}
	if f.PolicyProblem != "" {
		d.State = Degraded
	}
	return d
}

// maxKeysNamed bounds how many missing keys are named.
const maxKeysNamed = 20

// secrets describes the fleet's keys, and names the files of those that are missing.
func secrets(f Facts) Dependency {
	d := Dependency{
		Name: "fleet-keys", Kind: KindSecrets,
		Purpose:    "the fleet's credentials, one file for each provider as the policy names it",
		Impact:     "a provider without a key is left out of requests; where no candidate has one the answer is 503 missing_keys",
		Mitigation: "other providers of the model, the fallback ladder, organizations' own credentials",
		Ping:       Ping{State: Up, At: f.Now},
	}
	with := 0
	var without []string
	for _, p := range f.Policy.Providers {
		switch {
		case p.KeyFile == "":
		case f.HasKey(p.Name):
			with++
		default:
			without = append(without, p.Name+" ("+p.KeyFile+")")
		}
	}
	if len(without) == 0 {
		return d
	}
	if d.State = Down; with > 0 {
		d.State = Degraded
	}
	d.Mitigation += "; put the keys into the files, whose folder is GATEWAY_FLEET_KEYS_DIR or that of the file that names them: " +
		strings.Join(without[:min(len(without), maxKeysNamed)], ", ")
	if more := len(without) - maxKeysNamed; more > 0 {
		d.Mitigation += fmt.Sprintf(" and %d more", more)
	}
	return d
}

// Assess returns what the gateway depends on. ping returns the measurement of a store, nil if it is not configured;
// vendors are the fleet's verdicts; ready reports whether this replica takes requests.
func Assess(f Facts, ping func(name string) *Ping, vendors []Vendor, ready bool) Availability {
	a := Availability{Status: available, At: f.Now}
	for _, d := range stores {
		if measured := ping(d.Name); measured != nil {
			d.Ping = *measured
			a.Dependencies = append(a.Dependencies, d)
		}
	}
	a.Dependencies = append(a.Dependencies, policyFiles(f), secrets(f))
	alone := onlyProviders(f)
	for i := range f.Policy.Providers {
		a.Dependencies = append(a.Dependencies, providerDependency(&f.Policy.Providers[i], alone, vendors, f))
	}
	for _, d := range a.Dependencies {
		switch {
		case d.Kind == KindProvider && !f.HasKey(d.Name[len("provider:"):]), d.Kind == KindSecrets: // No request depends on it.
		case d.State == Down && d.Required && d.Kind == KindProvider:
			a.Status = unavailable
		case (d.State == Down || d.State == Degraded) && a.Status == available:
			a.Status = impaired
		}
	}
	if !ready {
		a.Status = unavailable
	}
	return a
}

// onlyProviders returns the providers without a substitute, each with the operations that only it can serve: among the
// providers that requests without a provider get, only it has a key.
func onlyProviders(f Facts) map[string][]string {
	able := make(map[provider.Operation][]string)
	for _, s := range routing.Ranking(f.Policy, f.State) {
		if f.HasKey(s.Provider) && !slices.Contains(able[s.Operation], s.Provider) {
			able[s.Operation] = append(able[s.Operation], s.Provider)
		}
	}
	alone := make(map[string][]string)
	for _, operation := range provider.Operations() {
		if names := able[operation]; len(names) == 1 {
			alone[names[0]] = append(alone[names[0]], string(operation))
		}
	}
	return alone
}

func providerDependency(p *policy.Provider, alone map[string][]string, vendors []Vendor, f Facts) Dependency {
	d := Dependency{
		Name: "provider:" + p.Name, Kind: KindProvider, Purpose: "serves " + listOf(f.Policy.Serves(provider.Target{Provider: p.Name})),
		Impact:     "requests go to other providers of the model, or down the fallback ladder; those that forbid a substitution fail with 502",
		Mitigation: "failover; a circuit breaker for each family of models; a bulkhead",
		Ping:       Ping{State: Unknown, At: f.Now},
	}
	if operations := alone[p.Name]; len(operations) > 0 {
		d.Required, d.Single = true, true
		d.Impact = "requests for " + strings.Join(operations, ", ") + " fail with 503: no other provider with a key can serve them"
		d.Mitigation = "give another provider a key, and a place in the policy's ladder"
	}
	if p.Dialect == "sandbox" {
		d.Impact, d.Mitigation = "none: it is served inside this process", ""
		d.Single = false
	}
	if !f.HasKey(p.Name) {
		d.Impact, d.Mitigation = "none: it has no key and is not used for requests", ""
	}
	for _, v := range vendors {
		if v.Provider == p.Name {
			d.State, d.Since = v.State, v.Since
		}
	}
	return d
}

func listOf(operations []provider.Operation) string {
	names := make([]string, len(operations))
	for i, operation := range operations {
		names[i] = string(operation)
	}
	return strings.Join(names, ", ")
}
