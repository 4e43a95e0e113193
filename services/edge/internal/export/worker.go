package export

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/lifecycle"
)

// Store keeps what exports must not forget.
type Store interface {
	// Lease takes a lease for a holder or renews it. It reports false while another holds it.
	Lease(ctx context.Context, name, holder string, duration time.Duration) (fence int64, held bool, err error)
	// Collect adds the growth of the hours in [from, to) of the counts, as of now. It returns ErrFence without the lease.
	Collect(ctx context.Context, fence int64, from, to, now time.Time) (added int, err error)
	// Growths returns growths after an id with hours in [since, until); until may be zero.
	Growths(ctx context.Context, after int64, since, until time.Time, limit int) ([]Growth, error)
	// Open makes the cursor of a destination and source unless it exists.
	Open(ctx context.Context, destination string, source Source, since time.Time) error
	// Cursors returns a destination's cursors that are not finished, first those that go on, then the newest.
	Cursors(ctx context.Context, destination string) ([]Cursor, error)
	// Advance moves a cursor behind a page and keeps the refusals. It returns ErrFence without the lease.
	Advance(ctx context.Context, fence int64, p Progress) error
	// Begin records the time from which events of a cursor's page are sent, unless an earlier time is recorded. It
	// returns ErrFence without the lease.
	Begin(ctx context.Context, fence int64, c Cursor, at time.Time) error
	// Fail records why a try failed, what was taken and refused in it, and p.Cursor.UnsureSince. It returns ErrFence
	// without the lease.
	Fail(ctx context.Context, fence int64, p Progress, failure string) error
	// LastTaken returns the last Progress.Last of a destination, from before a restart and of other replicas, too.
	LastTaken(ctx context.Context, destination string) (LastTaken, error)
	// Refused returns the given identifiers whose events a destination refused.
	Refused(ctx context.Context, destination string, identifiers []string) ([]string, error)
	// Drop removes up to limit rows of each kind that are older than their limit.
	Drop(ctx context.Context, growths, others time.Time, limit int) (dropped int, err error)
}

// ErrFence is the error of a write by a replica whose lease another has taken.
var ErrFence = errors.New("another replica exports now")

// Recorder counts what became of events, for metrics.
type Recorder interface {
	Exported(ctx context.Context, destination string, taken, refused int)
}

// Options configures a Worker. All fields are required.
type Options struct {
	Settings Settings
	Store    Store
	// Pagers are the sources; the ledger only if a destination reads it.
	Pagers map[Source]Pager
	Client *http.Client
	// Holder names this process, for leases.
	Holder   string
	Recorder Recorder
	Log      *slog.Logger
}

// Worker collects counts and sends to all destinations, while it has the leases.
type Worker struct {
	Options

	collector *Collector
}

// NewWorker returns a Worker; the caller has to run it.
func NewWorker(o Options) *Worker {
	return &Worker{Options: o, collector: newCollector(o)}
}

// leaseShare is the part of a lease that a request may take, as a divisor. So if a vendor lets requests for some events
// hang, a step still has time for a batch, maxLost single events and the event that shows that the vendor is up. A step
// begins no request in the last such part.
const leaseShare = maxLost + 2

// Run exports until ctx ends. A destination that fails delays no other.
func (w *Worker) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	repeat := lifecycle.Repeat{Every: w.Settings.Every, Do: w.collector.Round, Log: w.Log, Name: "collection of counts for exports"}
	group.Go(func() error { return repeat.Run(ctx) })
	for _, d := range w.Settings.Destinations {
		client, share := *w.Client, w.Settings.Lease/leaseShare
		client.Timeout = max(share, time.Second)
		s := &sender{Worker: w, destination: d, vendor: newVendor(&client, d, min(share, postTime))}
		group.Go(func() error { return s.run(ctx) })
	}
	return group.Wait()
}
