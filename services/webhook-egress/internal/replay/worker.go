package replay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

const (
	// workPause is the interval at which a worker looks for jobs, failPause how long a job waits after a failed page.
	workPause, failPause = 250 * time.Millisecond, 5 * time.Second
	// pageTimeout bounds a page.
	pageTimeout = 10 * time.Second
)

// Done is the result of a page.
type Done struct {
	// Found is false when no job was due.
	Found bool
	// Job is the id of the job; it is also set beside an error if it is known.
	Job delivery.ID
	// Queued is how many deliveries now wait in the store.
	Queued int
}

// Jobs is the queue of jobs; they are processed a page at a time.
type Jobs interface {
	// Page processes the next page of the job that has waited longest, in one transaction with the job's progress: it
	// takes effect once or not at all.
	Page(ctx context.Context) (Done, error)
	// Fail ends a job with a page that the store rejects or that panics.
	Fail(ctx context.Context, id delivery.ID, reason string) error
	// Postpone delays the next page of a job.
	Postpone(ctx context.Context, id delivery.ID, pause time.Duration) error
}

// Waker is notified of deliveries that wait in the store.
type Waker interface {
	Waiting()
}

// Worker executes jobs. Every replica has one; they share the jobs.
type Worker struct {
	jobs  Jobs
	waker Waker
	log   *slog.Logger
}

// NewWorker returns a Worker.
func NewWorker(jobs Jobs, waker Waker, log *slog.Logger) *Worker { return &Worker{jobs, waker, log} }

// Run works until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: workPause, Do: w.work, Log: w.log, Name: "replays"}.Run(ctx)
}

// work processes all due pages. Failures are logged with their job.
func (w *Worker) work(ctx context.Context) error {
	for ctx.Err() == nil && w.page(ctx) {
	}
	return nil
}

// page processes one page. It reports whether more may be due at once.
func (w *Worker) page(ctx context.Context) bool {
	done, err := w.bounded(ctx)
	switch {
	case err == nil:
		if done.Queued > 0 {
			w.waker.Waiting()
		}
		return done.Found
	case errors.Is(err, delivery.ErrConflict):
		return true
	case ctx.Err() != nil:
		return false
	}
	w.log.ErrorContext(ctx, "a page of a replay failed", slog.String("replay_id", done.Job.String()), slog.String("error", err.Error()))
	if done.Job == (delivery.ID{}) {
		return false
	}
	if errors.Is(err, delivery.ErrRejected) || errors.Is(err, panics.Err) { // Every further try would fail too.
		err = w.jobs.Fail(ctx, done.Job, ErrorInternal)
	} else {
		err = w.jobs.Postpone(ctx, done.Job, failPause)
	}
	if err != nil {
		w.log.ErrorContext(ctx, "a failed replay could not be postponed", slog.String("error", err.Error()))
	}
	return false
}

func (w *Worker) bounded(ctx context.Context) (Done, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return w.jobs.Page(ctx)
}
