package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/service"
)

// openAdmission builds the admission controller and the reserver of budget reservations. The controller reserves with the
// reserver, and the reserver reports the controller's sessions.
func (g *governance) openAdmission(ctx context.Context, s *service.Service, stores stores) error {
	reserver := budget.NewReserver(postgres.NewReservations(stores.pool), s.Log)
	g.replica = reserver.Replica()
	g.organizations = postgres.NewOrganizations(stores.control)
	g.runs = postgres.NewRuns(stores.control, reserver.Replica())
	g.admission = admission.New(admission.Options{Organizations: g.organizations, Runs: g.runs, Budget: reserver, Log: s.Log})
	stores.watcher.Watch(control.Organizations, g.admission.LoadOrganizations)
	stores.watcher.Watch(control.Runs, g.admission.LoadRuns)
	if err := reserver.Start(ctx); err != nil {
		return err
	}
	s.Runner.Go("budget", func(ctx context.Context) error { return reserver.Run(ctx, g.admission) })
	s.Runner.OnClose("budget", reserver.Close)
	return nil
}
