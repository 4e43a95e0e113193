package app

import (
	"context"
	"os"
	"time"

	"switchyard.dev/services/gateway/internal/keyring"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/gateway/internal/status"
	"switchyard.dev/services/platform/lifecycle"
)

// watchStatus has this replica tell the others what it sees, and come to a verdict
// of what they all see.
func (p *parts) watchStatus(context.Context) error {
	host, _ := os.Hostname() // Without a name, only places are harder to tell apart.
	o := status.Options{
		Replica: p.replica.String(), Place: host + " " + p.cfg.HTTPListen, Version: p.telemetry.Version, Log: p.telemetry.Log,
		Slow: postgres.NewReports(p.pool),
		Sources: status.Sources{
			Checks: p.checks, Draining: lifecycle.ErrDraining,
			Vendors:   func() []status.Sight { return status.Sights(p.health.Snapshot(), p.health.Figures()) },
			Providers: p.providerNames,
			Policy:    p.fleets.inForce,
			Pings: map[string]func(context.Context) error{
				status.Postgres: p.pool.Ping,
				status.Spool:    p.ledger.Ready,
			},
		},
	}
	if p.redis != nil {
		o.Fast = redis.NewReports(p.redis)
		o.Sources.Pings[status.Redis] = func(ctx context.Context) error { return p.redis.Ping(ctx).Err() }
	}
	p.status = status.NewReporter(status.NewMonitor(o), p.facts)
	p.runner.Go("status", p.status.Monitor.Run)
	p.runner.OnClose("status", p.status.Monitor.Close)
	return nil
}

func (p *parts) providerNames() []string {
	var names []string
	for _, vendor := range p.fleets.policy().Providers {
		names = append(names, vendor.Name)
	}
	return names
}

// checks are the readiness checks.
func (p *parts) checks(ctx context.Context) []status.Check {
	results := p.runner.Ready(ctx)
	checks := make([]status.Check, len(results))
	for i, r := range results {
		checks[i] = status.Check{Name: r.Name, Err: r.Err}
	}
	return checks
}

// facts are what the views of the providers are made of.
func (p *parts) facts() status.Facts {
	g := p.fleets.present.Load()
	return status.Facts{
		Policy: g.policy, Override: p.overrides.Override(), State: g.state(p.fleets), Snapshot: p.health.Snapshot(), Figures: p.health.Figures(),
		Bulkheads: p.health.Bulkhead, PolicyProblem: p.fleets.release.problem(), Now: time.Now().UTC(),
		HasKey: func(provider string) bool {
			_, err := g.fleet.Keys.Resolve(context.Background(), keyring.Scope{Byok: keyring.ModeFleet}, provider)
			return err == nil
		},
	}
}

// state is what plans of a generation depend on besides the requests.
func (g *generation) state(f *fleets) routing.State {
	return routing.State{Now: time.Now(), Prices: g.prices, Live: f, Lives: f.models}
}
