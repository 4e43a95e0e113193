package app

import (
	"context"
	"os"
	"time"

	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/routing"
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
		HasKey: func(provider string) bool { return hasKey(now.fleet.Keys, provider) },
	}
}

// state returns what a generation's plans depend on besides the requests.
func (g *generation) state(f *fleets) routing.State {
	return routing.State{Now: time.Now(), Prices: g.prices, Live: f, Lifecycles: f.models}
}
