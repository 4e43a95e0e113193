package batchjob

import (
	"context"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// statuses are those that a job's end has in traces.
var statuses = map[provider.BatchStatus]trace.Status{
	provider.BatchCompleted: trace.StatusOK, provider.BatchCancelled: trace.StatusCancelled,
	provider.BatchFailed: trace.StatusFailed, provider.BatchExpired: trace.StatusFailed,
}

// report returns what a job has cost; nil for one that no vendor had.
func (j *Job) report() *ledger.Report {
	target, ok := j.target()
	if !ok || j.VendorID == "" {
		return nil
	}
	return &ledger.Report{
		Provider: target.Provider, Model: target.Model, Usage: j.Usage, Cost: j.Cost, Estimated: j.Estimated,
		Prompt: j.Usage.Prompt(), Completion: j.Usage.Completion(),
	}
}

// record counts what a job that has ended has cost, and records it as one request, whose id is the job's: its lineage,
// without content.
func (m *Manager) record(ctx context.Context, j *Job) {
	report := j.report()
	if report != nil && m.Spent != nil {
		m.Spent(report)
	}
	if m.Recorder == nil {
		return
	}
	if _, ok := m.Recorder.Observe(j.Organization); !ok {
		return
	}
	o := &trace.Observation{
		ID: j.Reservation, Policy: j.Policy, Status: statuses[j.Status], Started: j.CreatedAt, Ended: j.EndedAt,
		Request: trace.Request{
			ID: j.ID, Organization: j.Organization, Key: j.Key, Service: j.Service, Run: j.Run, Inputs: j.Count,
			Route: routing.Request{Operation: OperationOf(j.API), Model: j.Model},
		},
	}
	if target, ok := j.target(); ok && report != nil {
		o.Served, o.Price, o.Report = target.Target, j.Price, report
		o.Credential = provider.Credential{Source: target.Source, Fingerprint: j.Fingerprint}
		o.Tries = []trace.Try{{
			Target: target.Target, Credential: target.Source, Outcome: trace.TryOK, VendorID: j.VendorID,
			Started: j.StartedAt, Duration: j.EndedAt.Sub(j.StartedAt),
		}}
	}
	if len(j.Problems) > 0 {
		o.Err = apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable, j.Problems[0].Message)
	}
	m.Recorder.Record(context.WithoutCancel(ctx), o)
}
