package background

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/lifecycle"
)

// Options configure a Queue.
type Options struct {
	Store         Store
	Conversations Conversations
	Sealer        Sealer
	// Replica names this replica among all.
	Replica string
	// Limit is how many responses are made at once here, of which one organization may have Share percent.
	Limit, Share int
	Log          *slog.Logger
}

// Queue holds jobs, and runs them. Safe for concurrent use.
type Queue struct {
	store         Store
	conversations Conversations
	sealer        Sealer
	replica       string
	limit         int
	places        *fairshare.Pool
	log           *slog.Logger

	// wake asks for a turn, ended tells Drain of the end of a job.
	wake, ended chan struct{}
	draining    atomic.Bool
	idle        sync.WaitGroup // of the jobs that are made here

	mu   sync.Mutex
	jobs map[string]*made
}

// made is a job that is made here.
type made struct {
	organization string
	cancel       context.CancelCauseFunc
}

// NewQueue returns a Queue that makes nothing until Run.
func NewQueue(o Options) *Queue {
	return &Queue{
		store: o.Store, conversations: o.Conversations, sealer: o.Sealer, replica: o.Replica, limit: o.Limit,
		places: fairshare.New(int64(o.Limit), o.Share), log: o.Log,
		wake: make(chan struct{}, 1), ended: make(chan struct{}, 1), jobs: make(map[string]*made),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // It has not been heard yet.
	}
}

// Run makes responses until ctx ends, and then ends those that are being made. work makes one; it must end soon after its
// context, and must Finish the job unless the cause is ErrEnded or ErrStopping. Run is a part of the service's lifecycle.
func (q *Queue) Run(ctx context.Context, work func(context.Context, *Job)) error {
	turns := lifecycle.Repeat{
		Every: renewEvery, Wake: q.wake, Log: q.log, Name: "background responses",
		Do: func(ctx context.Context) error { return q.turn(ctx, work) },
	}
	err := turns.Run(ctx)
	q.mu.Lock()
	for _, m := range q.jobs {
		m.cancel(ErrStopping)
	}
	q.mu.Unlock()
	q.idle.Wait()
	return err
}

// Drain begins no more jobs, and waits until those that are being made have ended, or ctx. Run ends the rest.
func (q *Queue) Drain(ctx context.Context) error {
	q.draining.Store(true)
	for q.making() > 0 {
		select {
		case <-q.ended:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (q *Queue) making() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// turn renews what this replica holds and begins what no replica makes.
func (q *Queue) turn(ctx context.Context, work func(context.Context, *Job)) error {
	if err := q.renew(ctx); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if q.draining.Load() {
		return nil
	}
	free, full := q.free()
	if free == 0 {
		return nil
	}
	now := time.Now()
	rows, err := q.store.Claim(ctx, q.replica, now, now.Add(hold), free, full)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	for _, row := range rows {
		q.begin(ctx, row, work)
	}
	if len(rows) == free {
		signal(q.wake)
	}
	return nil
}

// renew keeps this replica's jobs, and ends those that it has lost.
func (q *Queue) renew(ctx context.Context) error {
	q.mu.Lock()
	held := len(q.jobs)
	before := maps.Clone(q.jobs)
	q.mu.Unlock()
	if held == 0 {
		return nil
	}
	ids, err := q.store.Renew(ctx, q.replica, time.Now().Add(hold))
	if err != nil {
		return err
	}
	for _, id := range ids {
		delete(before, id)
	}
	for _, lost := range before {
		lost.cancel(ErrEnded)
	}
	return nil
}

// free returns how many jobs may be begun at once, and the organizations that may begin none.
func (q *Queue) free() (n int, full []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	full = []string{}
	seen := make(map[string]bool)
	for _, m := range q.jobs {
		if !seen[m.organization] && q.places.Full(m.organization) {
			full = append(full, m.organization)
		}
		seen[m.organization] = true
	}
	return q.limit - len(q.jobs), full
}

// begin makes a claimed job, or gives it back where its organization has its share.
func (q *Queue) begin(ctx context.Context, row Row, work func(context.Context, *Job)) {
	if !q.places.Acquire(row.Organization, 1) {
		q.release(ctx, row.ID, false)
		return
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	m := &made{row.Organization, cancel}
	q.mu.Lock()
	q.jobs[row.ID] = m
	q.mu.Unlock()
	q.idle.Go(func() {
		defer q.over(row.ID, m)
		err := lifecycle.Protect(base, "background response", func() error {
			job, err := q.load(base, row)
			if err == nil {
				work(base, job)
			}
			return err
		})
		if err != nil {
			q.log.WarnContext(base, "background response failed", slog.String("response", row.ID), slog.String("error", err.Error()))
		}
	})
}

// over forgets a job that is no longer made here. Another attempt at it may have begun.
func (q *Queue) over(id string, m *made) {
	m.cancel(nil)
	q.mu.Lock()
	if q.jobs[id] == m {
		delete(q.jobs, id)
	}
	q.mu.Unlock()
	q.places.Release(m.organization, 1)
	signal(q.wake)
	signal(q.ended)
}

// load opens a claimed job.
func (q *Queue) load(ctx context.Context, row Row) (*Job, error) {
	request, err := q.open(row.Organization, requestName(row.ID), row.Key, row.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open request: %w", err)
	}
	record, err := q.conversations.Get(ctx, row.Scope, row.ID)
	if err != nil {
		return nil, fmt.Errorf("get response: %w", err)
	}
	return &Job{
		Scope: row.Scope, ID: row.ID, Streamed: row.Streamed, Request: request,
		Attempts: row.Attempts, LastEvent: row.LastEvent, Record: record,
	}, nil
}

// Release lets another replica make a job.
func (q *Queue) Release(ctx context.Context, j *Job) { q.release(ctx, j.ID, true) }

func (q *Queue) release(ctx context.Context, id string, begun bool) {
	if err := q.store.Release(ctx, q.replica, id, begun); err != nil { // Another replica takes it when the hold ends.
		q.log.WarnContext(ctx, "background response could not be given back", slog.String("response", id), slog.String("error", err.Error()))
	}
}
