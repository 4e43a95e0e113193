package app

import (
	"cmp"
	"context"
	"os"
	"time"

	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/service"
)

// startStatus starts the monitor, which reports this replica's state to the others and judges all replicas' reports.
func startStatus(s *service.Service, cfg Config, stores stores, g governance, p pipeline) *status.Reporter {
	host, _ := os.Hostname() // Without a host name, replicas are only harder to distinguish.
	o := status.Options{
		Replica: g.replica.String(), Address: host + " " + cfg.HTTPListen, Version: s.Version, Ledger: string(p.ledger.Mode()), Log: s.Log,
		Slow: postgres.NewReports(stores.pool),
		Sources: status.Sources{
			Checks: checks(s), Draining: lifecycle.ErrDraining,
			Vendors:   func() []status.ProviderReport { return status.ProviderReports(p.health.Snapshot(), p.health.Figures()) },
			Providers: p.fleets.providerNames,
			Policy:    p.fleets.inForce,
			Pings: map[string]func(context.Context) error{
				status.Postgres: stores.pool.Ping,
				status.Spool:    p.ledger.Ready,
			},
		},
	}
	if stores.redis != nil {
		o.Fast = redis.NewReports(stores.redis)
		o.Sources.Pings[status.Redis] = func(ctx context.Context) error { return stores.redis.Ping(ctx).Err() }
	}
	reporter := status.NewReporter(status.NewMonitor(o), func() status.Facts { return facts(g, p) })
	s.Runner.Go("status", reporter.Monitor.Run)
	s.Runner.OnClose("status", reporter.Monitor.Close)
	return reporter
}

func (f *fleets) providerNames() []string {
	var names []string
	for _, vendor := range f.policy().Providers {
		names = append(names, vendor.Name)
	}
	return names
}

// checks returns the function that runs the readiness checks.
func checks(s *service.Service) func(ctx context.Context) []status.Check {
	return func(ctx context.Context) []status.Check {
		results := s.Runner.Ready(ctx)
		checks := make([]status.Check, len(results))
		for i, r := range results {
			checks[i] = status.Check{Name: r.Name, Err: r.Err}
		}
		return checks
	}
}

// facts returns the inputs of the provider views.
func facts(g governance, p pipeline) status.Facts {
	now := p.fleets.present.Load()
	return status.Facts{
		Policy: now.policy, Override: g.overrides.Override(), State: now.state(p.fleets), Snapshot: p.health.Snapshot(), Figures: p.health.Figures(),
		Bulkheads: p.health.Bulkhead, PolicyProblem: p.fleets.release.problem(), Now: time.Now().UTC(),
		HasKey:      func(provider string) bool { return hasKey(now.fleet.Keys, provider) },
		Credentials: func(of *policy.Provider) []status.Credential { return credentialStates(now.fleet.Keys, p.health, of) },
	}
}

// credentialStates returns the credentials that the policy lists for a provider, as this replica sees them.
func credentialStates(keys inference.Keys, monitor *health.Monitor, of *policy.Provider) (all []status.Credential) {
	usable := make(map[string]provider.Credential)
	present, _ := resolveNow(keys, of.Name) // Without any, all are missing.
	for _, c := range present {
		usable[c.Name] = c
	}
	for i := range of.Credentials {
		listed := &of.Credentials[i]
		made := status.Credential{
			Name: listed.Name, Kind: cmp.Or(listed.Kind(), kindKey), State: status.CredentialMissing,
			InFlight: int(monitor.CredentialUse(of.Name, listed.Name).InFlight),
		}
		if found, ok := usable[listed.Name]; ok {
			made.State, made.Fingerprint = status.CredentialReady, found.Fingerprint
			if made.Until, made.Reason = monitor.CredentialRest(of.Name, found.Fingerprint); made.Reason != "" {
				made.State = status.CredentialResting
			}
		} else if listed.Drain {
			made.State = status.CredentialDraining
		}
		all = append(all, made)
	}
	return all
}

// kindKey is the kind of a credential that is no identity.
const kindKey = "key"

// state returns what a generation's plans depend on besides the requests.
func (g *generation) state(f *fleets) routing.State {
	return routing.State{Now: time.Now(), Prices: g.prices, Live: f, Lifecycles: f.models}
}
