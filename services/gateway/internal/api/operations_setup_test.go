package api_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/platform/lifecycle"
)

// catalogText is the tests' catalog of the tests' models.
const catalogText = `
providers:
  - provider: first
    display_name: The first
    owner: Acme
    source: https://acme.example/models
    reviewed: 2026-11-01
    models:
      - {model: ancient, display_name: Ancient, cutoff: 2026-01-01, deprecated: 2025-06-01, successor: m, reason: old}
`

// operations are the operators' settings and views.
type operations struct {
	overrides *steering.Overrides
	models    *catalog.Store
	monitor   *health.Monitor
	status    *status.Reporter
	prices    *price.Table
	// checks are the readiness checks.
	checks func(context.Context) []status.Check
}

func (b *bench) openOperations(tb testing.TB, watcher *control.Watcher, log *slog.Logger) {
	tb.Helper()
	b.overrides = steering.NewOverrides(postgres.NewSteering(b.control), log)
	b.models = catalog.NewStore(postgres.NewDeprecations(b.control))
	b.monitor = health.New(health.Options{Log: log})
	b.checks = func(context.Context) []status.Check { return []status.Check{{Name: "lifecycle"}} }
	watcher.Watch(control.Routing, b.overrides.Load)
	watcher.Watch(control.Models, b.models.Load)
	b.status = status.NewReporter(status.NewMonitor(status.Options{
		Replica: uuid.NewString(), Version: "test", Log: log, Slow: postgres.NewReports(b.pool),
		Sources: status.Sources{
			Checks: func(ctx context.Context) []status.Check { return b.checks(ctx) }, Draining: lifecycle.ErrDraining,
			Vendors: func() []status.ProviderReport {
				return status.ProviderReports(b.monitor.Snapshot(), b.monitor.Figures())
			},
			Providers: func() (names []string) {
				for _, p := range b.policies.policy.Providers {
					names = append(names, p.Name)
				}
				return names
			},
			Policy: func() (string, string) { return "v1", "" },
			Pings:  map[string]func(context.Context) error{status.Postgres: b.pool.Ping},
		},
	}), func() status.Facts {
		return status.Facts{
			Policy: b.policies.policy, Override: b.overrides.Override(), Snapshot: b.monitor.Snapshot(), Figures: b.monitor.Figures(),
			State:     routing.State{Now: time.Now(), Prices: b.prices, Live: b.monitor, Lifecycles: b.models},
			Bulkheads: b.monitor.Bulkhead, HasKey: func(provider string) bool { return provider != "keyless" }, Now: time.Now(),
		}
	})
}

// knows puts a policy and its prices in force.
func (b *bench) knows(tb testing.TB, policy *policy.Policy, prices *price.Table) {
	tb.Helper()
	file, err := catalog.Parse([]byte(catalogText))
	if err != nil {
		tb.Fatal(err)
	}
	b.policies.policy, b.prices = policy, prices
	b.models.Put(catalog.New(policy, prices, file))
}

func (b *bench) reconciler() reconcile.Service {
	return reconcile.Service{Store: postgres.NewReconciliations(b.control)}
}

// Present is the tests' policy.
func (p *policies) Present() (*policy.Policy, policy.Version, []routing.RankedCandidate) {
	return p.policy, policy.Version{Hash: "aaa"}, routing.Ranking(p.policy, routing.State{})
}
