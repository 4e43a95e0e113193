package app

import (
	"context"
	"os"
	"time"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/platform/lifecycle"
)

// watchStatus starts the monitor, which reports this replica's state to the others and judges all replicas' reports.
func (b *builder) watchStatus(context.Context) error {
	host, _ := os.Hostname() // Without a host name, replicas are only harder to distinguish.
	o := status.Options{
		Replica: b.replica.String(), Place: host + " " + b.cfg.HTTPListen, Version: b.service.Version, Log: b.service.Log,
		Slow: postgres.NewReports(b.pool),
		Sources: status.Sources{
			Checks: b.checks, Draining: lifecycle.ErrDraining,
			Vendors:   func() []status.ProviderReport { return status.ProviderReports(b.health.Snapshot(), b.health.Figures()) },
			Providers: b.providerNames,
			Policy:    b.fleets.inForce,
			Pings: map[string]func(context.Context) error{
				status.Postgres: b.pool.Ping,
				status.Spool:    b.ledger.Ready,
			},
		},
	}
	if b.redis != nil {
		o.Fast = redis.NewReports(b.redis)
		o.Sources.Pings[status.Redis] = func(ctx context.Context) error { return b.redis.Ping(ctx).Err() }
	}
	b.status = status.NewReporter(status.NewMonitor(o), b.facts)
	b.service.Runner.Go("status", b.status.Monitor.Run)
	b.service.Runner.OnClose("status", b.status.Monitor.Close)
	return nil
}

func (b *builder) providerNames() []string {
	var names []string
	for _, vendor := range b.fleets.policy().Providers {
		names = append(names, vendor.Name)
	}
	return names
}

// checks returns the results of the readiness checks.
func (b *builder) checks(ctx context.Context) []status.Check {
	results := b.service.Runner.Ready(ctx)
	checks := make([]status.Check, len(results))
	for i, r := range results {
		checks[i] = status.Check{Name: r.Name, Err: r.Err}
	}
	return checks
}

// facts returns the inputs of the provider views.
func (b *builder) facts() status.Facts {
	g := b.fleets.present.Load()
	return status.Facts{
		Policy: g.policy, Override: b.overrides.Override(), State: g.state(b.fleets), Snapshot: b.health.Snapshot(), Figures: b.health.Figures(),
		Bulkheads: b.health.Bulkhead, PolicyProblem: b.fleets.release.problem(), Now: time.Now().UTC(),
		HasKey: func(provider string) bool {
			_, err := g.fleet.Keys.Resolve(context.Background(), keyring.Scope{Byok: keyring.ModeFleet}, provider)
			return err == nil
		},
	}
}

// state returns what a generation's plans depend on besides the requests.
func (g *generation) state(f *fleets) routing.State {
	return routing.State{Now: time.Now(), Prices: g.prices, Live: f, Lifecycles: f.models}
}
