package app

import (
	"context"
	"os"

	"switchyard.dev/services/gateway/internal/catalog"
	"switchyard.dev/services/gateway/internal/control"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/reconcile"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/gateway/internal/steering"
	"switchyard.dev/services/gateway/policy"
)

// openSteering opens what operators set over the policy and of its models, which
// the fleet's plans go by.
func (p *parts) openSteering(context.Context) error {
	p.overrides = steering.NewOverrides(postgres.NewSteering(p.control), p.telemetry.Log)
	p.watcher.Watch(control.Routing, p.overrides.Load)
	p.runner.Go("canary arms", p.overrides.Run)
	p.models = catalog.NewStore(postgres.NewDeprecations(p.control))
	p.watcher.Watch(control.Models, p.models.Load)
	return nil
}

// keepReconciliations opens the comparisons with invoices, and deletes old ones.
func (p *parts) keepReconciliations(context.Context) error {
	p.reconciler = reconcile.Service{Store: postgres.NewReconciliations(p.control)}
	p.runner.Go("reconciliations", p.reconciler.Upkeep(p.cfg.ReconciliationRetention, p.telemetry.Log))
	return nil
}

// readCatalog reads the operator's catalog, or the shipped one.
func readCatalog(path string) ([]byte, error) {
	if path == "" {
		return policy.Catalog, nil
	}
	return os.ReadFile(path)
}

// Present is the policy in force, with where its candidates stand.
func (f *fleets) Present() (*routing.Policy, routing.Version, []routing.RankedCandidate) {
	g := f.present.Load()
	return g.policy, g.version, g.policy.Ranking(g.state(f))
}
