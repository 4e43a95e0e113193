package batchjob

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/semaphore"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
)

// Files keeps the requests and the results of jobs; see file.Manager.
type Files interface {
	Get(ctx context.Context, s file.Scope, id string) (file.File, error)
	Read(ctx context.Context, s file.Scope, f file.File) iter.Seq2[[]byte, error]
	Begin(ctx context.Context, s file.Scope, f file.File) (*file.Writer, error)
}

// Ledger commits entries. One that is stored already is skipped.
type Ledger interface {
	Append(ctx context.Context, entries []ledger.Entry) error
}

// Recorder records what became of a job; see trace.Recorder.
type Recorder interface {
	Observe(organization string) (keep int, ok bool)
	Record(ctx context.Context, o *trace.Observation)
}

// Options of a Manager. All but Recorder, Spent and Now are required.
type Options struct {
	Store  Store
	Files  Files
	Sealer conversation.Sealer
	// Fleet returns the one in force.
	Fleet  func() *inference.Fleet
	Ledger Ledger
	// Refusal returns why an organization, or its run, may not call now; nil if it may.
	Refusal func(ctx context.Context, organization, run string) error
	// Recorder records nothing if it is nil.
	Recorder Recorder
	// Spent counts what a job has cost; nil counts nothing.
	Spent func(r *ledger.Report)
	// Retention returns how long an organization's ended jobs are kept.
	Retention func(organization string) time.Duration
	// Replica names this replica among all.
	Replica string
	// Now returns the time; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Meter makes the metrics.
	Meter metric.Meter
}

// Manager keeps jobs, and works on those that are due. Safe for concurrent use.
type Manager struct {
	Options

	// wake asks for a turn. making bounds the bytes of the requests that are given to vendors at once.
	wake   chan struct{}
	making *semaphore.Weighted
	// metrics count what becomes of jobs.
	metrics metrics

	mu sync.Mutex
	// working counts the jobs that this replica works on, by organization.
	working map[string]int
}

// New returns a Manager that works on nothing until Run, or an error of the meter.
func New(o Options) (*Manager, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	counted, err := newMetrics(o.Meter)
	if err != nil {
		return nil, err
	}
	return &Manager{
		Options: o, wake: make(chan struct{}, workers), making: semaphore.NewWeighted(makingBytes), metrics: counted, working: make(map[string]int),
	}, nil
}

// Create stores a job with its requests, and reserves its worst case unless reserve is nil. The error is ErrFull for one too
// many, and an *apierr.Error or a *budget.ShortError where a limit does not cover it.
func (m *Manager) Create(ctx context.Context, j *Job, requests []Request, reserve *Reservation) error {
	j.ExpiresAt = j.CreatedAt.Add(m.Retention(j.Organization))
	row, err := m.seal(j)
	if err != nil {
		return err
	}
	text, err := json.Marshal(requests)
	if err != nil {
		return fmt.Errorf("encode requests: %w", err)
	}
	key, sealed, err := m.Sealer.Seal(j.Organization, requestsOf(j.ID), s2.Encode(nil, text))
	if err != nil {
		return fmt.Errorf("seal requests: %w", err)
	}
	stored, err := m.Store.Insert(ctx, row, SealedRequests{key, sealed}, reserve, MaxUnderWay)
	if err == nil && !stored {
		err = ErrFull
	}
	if err == nil {
		m.signal()
	}
	return err
}

func (m *Manager) signal() {
	select {
	case m.wake <- struct{}{}:
	default: // A turn is due already.
	}
}

// Get returns a job. The error is ErrNotFound where there is none.
func (m *Manager) Get(ctx context.Context, s Scope, f Form, id string) (*Job, error) {
	row, found, err := m.Store.Get(ctx, s, f, id, m.Now())
	if err == nil && !found {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return m.open(row)
}

// List returns a page of jobs, the newest first, and whether others follow it in its direction.
func (m *Manager) List(ctx context.Context, s Scope, f Form, p Page) (jobs []*Job, more bool, err error) {
	limit := p.Limit
	p.Limit++
	rows, err := m.Store.List(ctx, s, f, p, m.Now())
	if err != nil {
		return nil, false, err
	}
	if more = len(rows) > limit; more {
		rows = rows[:limit]
	}
	jobs = make([]*Job, len(rows))
	for i, row := range rows {
		at := i
		if p.Before != "" { // The store returns them against the order.
			at = len(rows) - 1 - i
		}
		if jobs[at], err = m.open(row); err != nil {
			return nil, false, err
		}
	}
	return jobs, more, nil
}

// Cancel asks for the end of a job, and returns it. One that has ended stays as it is.
func (m *Manager) Cancel(ctx context.Context, s Scope, f Form, id string) (*Job, error) {
	if _, err := m.Get(ctx, s, f, id); err != nil {
		return nil, err
	}
	if err := m.Store.Cancel(ctx, s, id); err != nil {
		return nil, err
	}
	m.signal()
	return m.Get(ctx, s, f, id)
}

// Delete deletes a job. The error is ErrUnderWay for one that has not ended.
func (m *Manager) Delete(ctx context.Context, s Scope, f Form, id string) error {
	if _, err := m.Get(ctx, s, f, id); err != nil {
		return err
	}
	deleted, err := m.Store.Delete(ctx, s, id, m.Now())
	if err == nil && !deleted {
		err = ErrUnderWay
	}
	return err
}

// Erase deletes an organization's jobs, and ends those that are under way.
func (m *Manager) Erase(ctx context.Context, organization string) error {
	err := m.Store.Erase(ctx, organization, m.Now())
	m.signal()
	return err
}

// requests returns the requests of a job.
func (m *Manager) requests(ctx context.Context, j *Job) ([]Request, error) {
	stored, err := m.Store.Requests(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	var requests []Request
	err = m.unseal(j.Organization, requestsOf(j.ID), stored.Key, stored.Sealed, &requests)
	return requests, err
}
