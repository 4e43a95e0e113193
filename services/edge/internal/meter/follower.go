package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// every is the interval at which the services' counts are read.
	every = 500 * time.Millisecond
	// pageTime bounds a page, pages how many of a service are read at a time. The next round continues.
	pageTime = 5 * time.Second
	pages    = 100
	// catchUpTime bounds the wait of a reader of the counters for services that don't answer.
	catchUpTime = 3 * time.Second
)

// Follower adds the counts of services to the counters. It is safe for concurrent use, and replicas may follow the same
// services.
type Follower struct {
	store    Store
	services map[string]*followed
	log      *slog.Logger
}

// followed is a service whose counts are read.
type followed struct {
	Feed

	// read is when its counts were last read to their end, in Unix nanoseconds.
	read atomic.Int64
}

// NewFollower returns a Follower of feeds by the names of their services; the caller has to start Run.
func NewFollower(feeds map[string]Feed, store Store, log *slog.Logger) *Follower {
	f := &Follower{store: store, services: make(map[string]*followed, len(feeds)), log: log}
	for name, feed := range feeds {
		f.services[name] = &followed{Feed: feed}
		f.services[name].read.Store(time.Now().UnixNano())
	}
	return f
}

// Run follows the services until ctx ends. It continues after every failure.
func (f *Follower) Run(ctx context.Context) error {
	var group errgroup.Group
	for name := range f.services {
		follow := func(ctx context.Context) error { return f.follow(ctx, name) }
		group.Go(func() error {
			return lifecycle.Repeat{Every: every, Do: follow, Log: f.log, Name: "counts of " + name}.Run(ctx)
		})
	}
	return group.Wait()
}

// Age returns how long ago the counts of each service were read to their end.
func (f *Follower) Age(now time.Time) map[string]time.Duration {
	ages := make(map[string]time.Duration, len(f.services))
	for name, of := range f.services {
		ages[name] = max(0, now.Sub(time.Unix(0, of.read.Load())))
	}
	return ages
}

// CatchUp returns when the counters include all calls that were answered before. Its error says which services could not
// be read in time; their counts are added later.
func (f *Follower) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	failures := make([]error, 0, len(f.services))
	var group errgroup.Group
	var mu sync.Mutex
	for name := range f.services {
		group.Go(func() error {
			err := f.follow(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
			return nil
		})
	}
	_ = group.Wait() // Its functions return no error.
	return errors.Join(failures...)
}

var (
	errIncomplete = errors.New("a transaction in progress hides the latest calls")
	errBehind     = errors.New("more counts than are read at a time are waiting")
)

// follow adds the counts of a service up to their end.
func (f *Follower) follow(ctx context.Context, name string) error {
	of := f.services[name]
	for range pages {
		begun := time.Now()
		more, err := f.page(ctx, name, of)
		if err != nil {
			return fmt.Errorf("counts of %s: %w", name, err)
		}
		if !more {
			of.read.Store(begun.UnixNano())
			return nil
		}
	}
	return fmt.Errorf("counts of %s: %w", name, errBehind)
}

// page adds a page. It reports that there is more if another replica has added one meanwhile, too.
func (f *Follower) page(ctx context.Context, name string, of Feed) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	cursor, err := f.store.Cursor(ctx, name)
	if err != nil {
		return false, fmt.Errorf("read cursor: %w", err)
	}
	page, err := of.Read(ctx, cursor)
	if err != nil {
		return false, fmt.Errorf("read page: %w", err)
	}
	if len(page.Counts) > 0 {
		added, err := f.store.Add(ctx, name, cursor, page.Next, Sum(page.Counts))
		if err != nil {
			return false, fmt.Errorf("add page: %w", err)
		}
		if page.More || !added {
			return true, nil
		}
	}
	if page.Incomplete {
		return false, errIncomplete
	}
	return false, nil
}

// Reader reads the counters once they include all calls that were answered before.
type Reader struct {
	follower *Follower
	ledger   Ledger
}

// NewReader returns a reader of the ledger to which a Follower adds.
func NewReader(f *Follower, l Ledger) *Reader { return &Reader{f, l} }

// Sum implements Ledger. While a service can't be read its latest calls are missing, which is logged.
func (r *Reader) Sum(ctx context.Context, q Query) ([]Total, error) {
	if err := r.follower.CatchUp(ctx); err != nil {
		r.follower.log.WarnContext(ctx, "usage may lack the latest calls", "error", err.Error())
	}
	return r.ledger.Sum(ctx, q)
}
