package batchjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// workers is how many jobs a replica works on at once, of which one organization may have mostWorking.
	workers, mostWorking = 4, 3
	// turnEvery is how often a replica looks for jobs that are due.
	turnEvery = time.Second
	// hold is how long a replica holds a job without renewing, renewEvery how often it renews.
	hold, renewEvery = 30 * time.Second, 5 * time.Second
)

// Waits between two steps.
const (
	// A job is looked at after a tenth of its age, within these bounds.
	pollLeast, pollMost = time.Second, time.Minute
	// After failures of the vendor the wait doubles, within these bounds.
	failureLeast, failureMost = 2 * time.Second, 5 * time.Minute
)

// How long a vendor's failures are borne.
const (
	// makeFor is how long a job is offered to vendors that fail. After unclearFor a vendor knows whether it has made one.
	makeFor    = time.Hour
	unclearFor = time.Minute
	// lostAfter is how long a vendor may not have a job before it is given up, and giveUpAfter how long it may fail.
	lostAfter   = Window + time.Hour
	giveUpAfter = 7 * 24 * time.Hour
)

// errLost ends the work on a job that another replica has claimed.
var errLost = errors.New("another replica works on the batch")

// pollAfter returns how long to wait before a job of an age is looked at again.
func pollAfter(age time.Duration) time.Duration { return min(max(age/10, pollLeast), pollMost) }

// failureAfter returns how long to wait after so many failures in a row.
func failureAfter(failures int) time.Duration {
	return min(failureLeast<<min(max(failures-1, 0), 10), failureMost)
}

// Run works on jobs until ctx ends. It is a part of the service's lifecycle.
func (m *Manager) Run(ctx context.Context) error {
	var group errgroup.Group
	for range workers {
		turns := lifecycle.Repeat{Every: turnEvery, Wake: m.wake, Log: m.Log, Name: "batch jobs", Do: m.turn}
		group.Go(func() error { return turns.Run(ctx) })
	}
	return group.Wait()
}

// turn works on jobs until none is due.
func (m *Manager) turn(ctx context.Context) error {
	for ctx.Err() == nil {
		row, found, err := m.Store.Claim(ctx, m.Replica, hold, m.full())
		if err != nil || !found {
			return err
		}
		if err := m.work(ctx, row); err != nil && !errors.Is(err, errLost) && ctx.Err() == nil {
			return fmt.Errorf("batch %s: %w", row.ID, err)
		}
	}
	return nil
}

// full returns the organizations whose jobs this replica may not work on now.
func (m *Manager) full() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := []string{}
	for organization, n := range m.working {
		if n >= mostWorking {
			full = append(full, organization)
		}
	}
	return full
}

func (m *Manager) count(organization string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.working[organization] += n; m.working[organization] == 0 {
		delete(m.working, organization)
	}
}

// work takes a claimed job one step further, while the claim is renewed. A step that fails is repeated when the hold ends.
func (m *Manager) work(ctx context.Context, row Row) error {
	m.count(row.Organization, 1)
	defer m.count(row.Organization, -1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group errgroup.Group
	group.Go(func() error { return m.renew(ctx, &row, cancel) })
	err := lifecycle.Protect(ctx, "batch job", func() error {
		j, err := m.open(row)
		if err != nil {
			return err
		}
		return m.step(ctx, j)
	})
	cause := context.Cause(ctx)
	cancel(nil)
	_ = group.Wait()
	if errors.Is(cause, errLost) {
		return errLost
	}
	return err
}

// renew keeps a claim until ctx ends, and ends ctx if the claim is lost.
func (m *Manager) renew(ctx context.Context, row *Row, cancel context.CancelCauseFunc) error {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		kept, err := m.Store.Renew(ctx, row.ID, row.Lease, hold)
		switch {
		case err == nil && kept:
			renewed = time.Now()
		case err == nil, time.Since(renewed) > hold-renewEvery:
			cancel(errLost)
			return nil
		}
	}
}

// step does what the job's stage says.
func (m *Manager) step(ctx context.Context, j *Job) error {
	switch j.Stage {
	case StageMaking:
		return m.make(ctx, j)
	case StageRunning:
		return m.watch(ctx, j)
	case StageSettling:
		return m.settle(ctx, j)
	case StageClearing:
		return m.clear(ctx, j)
	case StageEnded:
	}
	return nil
}

// move stores a job and gives it back until it is due.
func (m *Manager) move(ctx context.Context, j *Job, after time.Duration) error {
	row, err := m.seal(j)
	if err != nil {
		return err
	}
	kept, err := m.Store.Move(ctx, row, after)
	return m.given(kept, err, after)
}

// given returns the result of giving a job back.
func (m *Manager) given(kept bool, err error, after time.Duration) error {
	switch {
	case err != nil:
		return err
	case !kept:
		return errLost
	case after == 0:
		m.signal()
	}
	return nil
}

// save stores a job, which stays claimed.
func (m *Manager) save(ctx context.Context, j *Job) error {
	row, err := m.seal(j)
	if err != nil {
		return err
	}
	kept, err := m.Store.Save(ctx, row)
	if err == nil && !kept {
		err = errLost
	}
	return err
}

// postpone stores a job whose vendor has failed, for a later try.
func (m *Manager) postpone(ctx context.Context, j *Job, failure error) error {
	j.Failures++
	m.metrics.postpone(ctx, j.Stage)
	after := failureAfter(j.Failures)
	if vendor, ok := errors.AsType[*provider.Error](failure); ok {
		after = max(after, min(vendor.RetryAfter, failureMost))
	}
	m.Log.WarnContext(ctx, "a step of a batch is repeated later", slog.String("batch", j.ID), slog.String("stage", string(j.Stage)),
		slog.Int("failures", j.Failures), slog.Duration("after", after), slog.String("error", failure.Error()))
	return m.move(ctx, j, after)
}
