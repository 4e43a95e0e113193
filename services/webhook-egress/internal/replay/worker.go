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
	// workPause is how often a worker looks for a job, failPause how long a job
	// rests whose page failed.
	workPause, failPause = 250 * time.Millisecond, 5 * time.Second
	// pageTimeout bounds a page.
	pageTimeout = 10 * time.Second
)

// Done is what a page did.
type Done struct {
	// Found is false when no job was due.
	Found bool
	// Job is its id, also beside an error where it is known.
	Job delivery.ID
	// Queued deliveries now wait in the store.
	Queued int
}

// Jobs are worked on a page at a time.
type Jobs interface {
	// Page does the next page of the job that has waited longest, in one
	// transaction with the job's progress: it is done once or not at all.
	Page(ctx context.Context) (Done, error)
	// Fail ends a job whose page the store can't hold or panics at.
	Fail(ctx context.Context, id delivery.ID, reason string) error
	// Postpone lets a job rest.
	Postpone(ctx context.Context, id delivery.ID, pause time.Duration) error
}

// Waker is told of deliveries that wait in the store.
type Waker interface {
	Waiting()
}

// Worker does jobs. Every replica has one; they share the jobs between them.
type Worker struct {
	jobs  Jobs
	waker Waker
	log   *slog.Logger
}

// NewWorker returns a worker.
func NewWorker(jobs Jobs, waker Waker, log *slog.Logger) *Worker { return &Worker{jobs, waker, log} }

// Run works until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: workPause, Do: w.work, Log: w.log, Name: "replays"}.Run(ctx)
}

// work does all that is due. What fails is told with its job.
func (w *Worker) work(ctx context.Context) error {
	for ctx.Err() == nil && w.page(ctx) {
	}
	return nil
}

// page reports whether there may be more to do at once.
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
	if errors.Is(err, delivery.ErrRejected) || errors.Is(err, panics.Err) { // So would every further try.
		err = w.jobs.Fail(ctx, done.Job, ErrorInternal)
	} else {
		err = w.jobs.Postpone(ctx, done.Job, failPause)
	}
	if err != nil {
		w.log.ErrorContext(ctx, "a replay could not be put aside", slog.String("error", err.Error()))
	}
	return false
}

func (w *Worker) bounded(ctx context.Context) (Done, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return w.jobs.Page(ctx)
}
