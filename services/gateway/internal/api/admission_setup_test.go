package api_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/admission"
)

// openControl follows the settings in the background of the test.
func (b *bench) openControl(tb testing.TB, log *slog.Logger) {
	tb.Helper()
	var watcher *control.Watcher
	b.control = postgres.NewControl(b.pool, func(ctx context.Context, topic control.Topic, version int64) {
		watcher.LoadVersion(ctx, topic, version)
	})
	watcher = control.NewWatcher(b.control, time.Minute, log)
	reserver := budget.NewReserver(postgres.NewReservations(b.pool), log)
	b.organizations, b.runs = postgres.NewOrganizations(b.control), postgres.NewRuns(b.control, reserver.Replica())
	b.admission = admission.New(admission.Options{Organizations: b.organizations, Runs: b.runs, Budget: reserver, Log: log})
	b.custody = newCustody(tb, b, log)
	b.openOperations(tb, watcher, log)
	b.openTools(tb, watcher, log)
	watcher.Watch(control.Credentials, b.cache.Load)
	watcher.Watch(control.Organizations, b.admission.LoadOrganizations)
	watcher.Watch(control.Runs, b.admission.LoadRuns)
	if err := reserver.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if err := watcher.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var group sync.WaitGroup
	group.Go(func() { _ = watcher.Run(ctx) })
	group.Go(func() { _ = reserver.Run(ctx, b.admission) })
	tb.Cleanup(func() {
		cancel()
		group.Wait()
	})
}
