package app

import (
	"context"
	"os"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/shipped"
)

// openSteering opens the operators' settings for routing and models, which the fleet's plans depend on.
func (b *builder) openSteering(context.Context) error {
	b.overrides = steering.NewOverrides(postgres.NewSteering(b.control), b.service.Log)
	b.watcher.Watch(control.Routing, b.overrides.Load)
	b.service.Runner.Go("canary arms", b.overrides.Run)
	b.models = catalog.NewStore(postgres.NewDeprecations(b.control))
	b.watcher.Watch(control.Models, b.models.Load)
	return nil
}

// openReconciliations opens the comparisons with invoices and deletes old ones.
func (b *builder) openReconciliations(context.Context) error {
	b.reconciler = reconcile.Service{Store: postgres.NewReconciliations(b.control)}
	b.service.Runner.Go("reconciliations", b.reconciler.Upkeep(b.cfg.ReconciliationRetention, b.service.Log))
	return nil
}

// readCatalog reads the operator's catalog, or returns the shipped one.
func readCatalog(path string) ([]byte, error) {
	if path == "" {
		return shipped.Catalog, nil
	}
	return os.ReadFile(path)
}

// Present returns the policy in force with its version and the ranking of its candidates.
func (f *fleets) Present() (*policy.Policy, policy.Version, []routing.RankedCandidate) {
	g := f.present.Load()
	return g.policy, g.version, routing.Ranking(g.policy, g.state(f))
}
