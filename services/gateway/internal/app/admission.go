package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/admission"
	"switchyard.dev/services/gateway/internal/budget"
	"switchyard.dev/services/gateway/internal/control"
	"switchyard.dev/services/gateway/internal/postgres"
)

// openAdmission makes the controller that lets requests in, with the keeper of what is
// set aside for them: the controller reserves with the keeper, which reports the controller's
// sessions.
func (p *parts) openAdmission(ctx context.Context) error {
	keeper := budget.NewKeeper(postgres.NewReservations(p.pool), p.telemetry.Log)
	p.replica = keeper.Replica()
	p.organizations = postgres.NewOrganizations(p.control)
	p.runs = postgres.NewRuns(p.control, keeper.Replica())
	p.admission = admission.New(admission.Options{Organizations: p.organizations, Runs: p.runs, Budget: keeper, Log: p.telemetry.Log})
	p.watcher.Watch(control.Organizations, p.admission.LoadOrganizations)
	p.watcher.Watch(control.Runs, p.admission.LoadRuns)
	if err := keeper.Start(ctx); err != nil {
		return err
	}
	p.runner.Go("budget", func(ctx context.Context) error { return keeper.Run(ctx, p.admission) })
	p.runner.OnClose("budget", keeper.Close)
	return nil
}
