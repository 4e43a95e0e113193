package app

import (
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/service"
)

// openSteering opens the operators' settings for routing and models, which the fleet's plans depend on.
func openSteering(s *service.Service, stores stores) (*steering.Overrides, *catalog.Store) {
	overrides := steering.NewOverrides(postgres.NewSteering(stores.control), s.Log)
	stores.watcher.Watch(control.Routing, overrides.Load)
	s.Runner.Go("canary arms", overrides.Run)
	models := catalog.NewStore(postgres.NewDeprecations(stores.control))
	stores.watcher.Watch(control.Models, models.Load)
	return overrides, models
}

// startReconciliations opens the comparisons with invoices and deletes old ones.
func startReconciliations(s *service.Service, cfg Config, stores stores) reconcile.Service {
	reconciler := reconcile.Service{Store: postgres.NewReconciliations(stores.control)}
	s.Runner.Go("reconciliations", reconciler.Upkeep(cfg.ReconciliationRetention, s.Log))
	return reconciler
}

// readCatalog reads the operator's catalog, or returns the shipped one.
func readCatalog(path string) ([]byte, error) {
	if path == "" {
		return shipped.Catalog, nil
	}
	return bounded.ReadFile(path, bounded.MaxFile)
}

// Present returns the policy in force with its version and the ranking of its candidates.
func (f *fleets) Present() (*policy.Policy, policy.Version, []routing.RankedCandidate) {
	g := f.present.Load()
	return g.policy, g.version, routing.Ranking(g.policy, g.state(f))
}
