package batchjob

import (
	"context"
	"errors"
	"log/slog"

	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// watch looks at a job at its vendor, and ends it there if it is to end.
func (m *Manager) watch(ctx context.Context, j *Job) error {
	v, err := m.present(ctx, j)
	if err != nil {
		return m.unwatched(ctx, j, err)
	}
	report, err := m.ask(ctx, j, v)
	if err != nil {
		return m.unwatched(ctx, j, err)
	}
	j.Report, j.Failures = *report, 0
	j.Report.ID = j.VendorID
	if !report.Status.Ended() {
		j.Status = report.Status
		return m.move(ctx, j, pollAfter(m.Now().Sub(j.StartedAt)))
	}
	if report.Output == "" && report.Errors == "" {
		j.Problems = report.Problems
		return m.finish(ctx, j, report.Status, nil)
	}
	j.Stage, j.FinalizingAt = StageSettling, m.Now()
	j.Output, j.Errors = file.NewID(), file.NewID()
	return m.move(ctx, j, 0)
}

// ask asks a vendor for the state of a job, and before that for its end if it is to end.
func (m *Manager) ask(ctx context.Context, j *Job, v *vendor) (*provider.BatchReport, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if j.CancellingAt.IsZero() && (j.CancelRequested || m.Refusal(ctx, j.Organization, j.Run) != nil) {
		if err := v.runner.CancelBatch(ctx, v.credential, j.VendorID); err != nil {
			return nil, err
		}
		j.CancellingAt = m.Now()
	}
	return v.runner.ReadBatch(ctx, v.credential, j.VendorID)
}

// present returns the vendor that runs a job.
func (m *Manager) present(ctx context.Context, j *Job) (*vendor, error) {
	target, ok := j.target()
	if !ok {
		return nil, errNoVendor
	}
	return m.vendorOf(ctx, j, target)
}

// unwatched puts off the watch of a job, or gives it up.
func (m *Manager) unwatched(ctx context.Context, j *Job, err error) error {
	age := m.Now().Sub(j.StartedAt)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, provider.ErrNoBatch) && age > lostAfter:
		return m.fail(ctx, j, codeLost, "the vendor no longer has the batch")
	case age > giveUpAfter:
		return m.fail(ctx, j, codeUnavailable, "the vendor could not be asked for a week")
	}
	return m.postpone(ctx, j, err)
}

// fail ends a job without results.
func (m *Manager) fail(ctx context.Context, j *Job, code, text string) error {
	j.Problems = append(j.Problems, provider.BatchProblem{Code: code, Message: text})
	return m.finish(ctx, j, provider.BatchFailed, nil)
}

// finish ends a job for its callers, with the files of its results.
func (m *Manager) finish(ctx context.Context, j *Job, status provider.BatchStatus, files []file.File) error {
	j.Stage, j.Status, j.EndedAt, j.Failures = StageClearing, status, m.Now(), 0
	if j.VendorID == "" {
		j.Stage = StageEnded
	}
	j.Output, j.Errors = idOf(files, j.Output), idOf(files, j.Errors)
	j.ExpiresAt = j.EndedAt.Add(m.Retention(j.Organization))
	row, err := m.seal(j)
	if err != nil {
		return err
	}
	kept, err := m.Store.Finish(ctx, row, files)
	if err := m.given(kept, err, 0); err != nil {
		return err
	}
	m.Log.InfoContext(ctx, "a batch has ended", slog.String("batch", j.ID), slog.String("organization_id", j.Organization),
		slog.String("provider", j.Provider), slog.String("status", string(status)), slog.Int("requests", j.Count),
		slog.Any("results", j.Results), slog.Float64("cost_cents", j.Cost.Cents()), slog.Any("problems", codesOf(j.Problems)))
	m.metrics.end(ctx, status)
	m.record(ctx, j)
	return nil
}

// codesOf returns the codes of problems. Their messages may quote a caller's content, which is not logged.
func codesOf(problems []provider.BatchProblem) []string {
	codes := make([]string, len(problems))
	for i, p := range problems {
		codes[i] = p.Code
	}
	return codes
}

// idOf returns an id if it is that of one of some files.
func idOf(files []file.File, id string) string {
	for _, f := range files {
		if f.ID == id {
			return id
		}
	}
	return ""
}

// clear deletes what the vendor keeps of a job that has ended.
func (m *Manager) clear(ctx context.Context, j *Job) error {
	v, err := m.present(ctx, j)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		err = v.runner.DeleteBatch(bounded, v.credential, &j.Report)
	}
	if err != nil && ctx.Err() == nil && m.Now().Sub(j.EndedAt) < Window {
		return m.postpone(ctx, j, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.Stage = StageEnded
	return m.move(ctx, j, 0)
}
