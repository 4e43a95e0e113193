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

// openSteering opens what operators set over the policy and of its models, which
// the fleet's plans go by.
func (b *builder) openSteering(context.Context) error {
	b.overrides = steering.NewOverrides(postgres.NewSteering(b.control), b.telemetry.Log)
	b.watcher.Watch(control.Routing, b.overrides.Load)
	b.runner.Go("canary arms", b.overrides.Run)
	b.models = catalog.NewStore(postgres.NewDeprecations(b.control))
	b.watcher.Watch(control.Models, b.models.Load)
	return nil
}

// keepReconciliations opens the comparisons with invoices, and deletes old ones.
func (b *builder) keepReconciliations(context.Context) error {
	b.reconciler = reconcile.Service{Store: postgres.NewReconciliations(b.control)}
	b.runner.Go("reconciliations", b.reconciler.Upkeep(b.cfg.ReconciliationRetention, b.telemetry.Log))
	return nil
}

// readCatalog reads the operator's catalog, or the shipped one.
func readCatalog(path string) ([]byte, error) {
	if path == "" {
		return shipped.Catalog, nil
	}
	return os.ReadFile(path)
}

// Present is the policy in force, with where its candidates stand.
func (f *fleets) Present() (*policy.Policy, policy.Version, []routing.RankedCandidate) {
	g := f.present.Load()
	return g.policy, g.version, routing.Ranking(g.policy, g.state(f))
}
