package app

import (
	"context"
	"time"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/service"
)

// batches holds the managers of callers' files and batch jobs; they are nil without trace keys.
type batches struct {
	files *file.Manager
	jobs  *batchjob.Manager
}

// openBatches builds the managers of files and of batch jobs, and works on the jobs that are due.
func openBatches(s *service.Service, stores stores, g governance, p pipeline) (b batches, err error) {
	fileStore, jobStore := postgres.NewFiles(stores.pool), postgres.NewBatchJobs(stores.pool)
	s.Runner.Go("upkeep of files", trace.NewUpkeep(fileStore, "files", s.Log).Run)
	s.Runner.Go("upkeep of batches", trace.NewUpkeep(jobStore, "batches", s.Log).Run)
	if p.traces.keys == nil {
		return batches{}, nil
	}
	retention := func(organization string) time.Duration {
		return p.fleets.policy().Tracing(organization).ContentRetention
	}
	b.files = file.NewManager(fileStore, p.traces.keys, retention)
	b.jobs, err = batchjob.New(batchjob.Options{
		Store: jobStore, Files: b.files, Sealer: p.traces.keys, Fleet: p.fleets.fleet, Ledger: postgres.NewLedger(stores.pool),
		Refusal: func(ctx context.Context, organization, run string) error {
			return refusal(ctx, g.admission, organization, run)
		},
		Recorder: p.traces.recorder, Spent: p.engine.Spent, Retention: retention, Replica: g.replica.String(), Log: s.Log, Meter: s.Meter,
	})
	if err != nil {
		return b, err
	}
	s.Runner.Go("batches", b.jobs.Run)
	return b, nil
}

// refusal returns why an organization, or its run, may not call now.
func refusal(ctx context.Context, controller *admission.Controller, organization, run string) error {
	grant, err := controller.Admit(ctx, organization, run, keyterm.Terms{})
	if err != nil {
		return err
	}
	grant.End(false)
	return nil
}

// apiFiles and apiJobs return the managers as the API takes them: nil for none.
func (b batches) apiFiles() api.Files {
	if b.files == nil {
		return nil
	}
	return b.files
}

func (b batches) apiJobs() api.BatchJobs {
	if b.jobs == nil {
		return nil
	}
	return b.jobs
}

// erase erases the files and batches of an organization.
func (b batches) erase(ctx context.Context, organization string) error {
	if b.files == nil {
		return nil
	}
	if err := b.jobs.Erase(ctx, organization); err != nil {
		return incomplete("batches", err)
	}
	if _, err := b.files.Erase(ctx, organization); err != nil {
		return incomplete("files", err)
	}
	return nil
}
