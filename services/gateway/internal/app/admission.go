package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/admission"
)

// openAdmission builds the admission controller and the keeper of budget reservations. The controller reserves with the
// keeper, and the keeper reports the controller's sessions.
func (b *builder) openAdmission(ctx context.Context) error {
	keeper := budget.NewKeeper(postgres.NewReservations(b.pool), b.service.Log)
	b.replica = keeper.Replica()
	b.organizations = postgres.NewOrganizations(b.control)
	b.runs = postgres.NewRuns(b.control, keeper.Replica())
	b.admission = admission.New(admission.Options{Organizations: b.organizations, Runs: b.runs, Budget: keeper, Log: b.service.Log})
	b.watcher.Watch(control.Organizations, b.admission.LoadOrganizations)
	b.watcher.Watch(control.Runs, b.admission.LoadRuns)
	if err := keeper.Start(ctx); err != nil {
		return err
	}
	b.service.Runner.Go("budget", func(ctx context.Context) error { return keeper.Run(ctx, b.admission) })
	b.service.Runner.OnClose("budget", keeper.Close)
	return nil
}
