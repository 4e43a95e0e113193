package spend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// every is the interval at which due feeds are looked for, atOnce how many are read at a time.
	every  = 500 * time.Millisecond
	atOnce = 8
	// due bounds the feeds of a round, and stepTime the reading and the adding of a page of each. After roundTime feeds that
	// have more wait for the next round, so that one that is far behind holds up no other.
	due       = 1000
	stepTime  = 10 * time.Second
	roundTime = time.Second
	// dropEvery is the interval at which old windows are removed, dropped how many at once.
	dropEvery = time.Hour
	dropped   = 5000
)

// How long windows of minutes and days are kept, which operators may read. Those of months stay.
const (
	KeepMinutes = 48 * time.Hour
	KeepDays    = 62 * 24 * time.Hour
)

// Store keeps feeds and windows.
type Store interface {
	// Due returns feeds to read, those that wait the longest first.
	Due(ctx context.Context, now time.Time, limit int) ([]Feed, error)
	// Origins returns the first key of the chain of rotations of each key that is not the first.
	Origins(ctx context.Context, keys []string) (map[string]string, error)
	// Advance applies all steps in one transaction, or none. It skips a step whose feed has moved since it was read.
	Advance(ctx context.Context, steps []Step, now time.Time) error
	// Drop removes up to limit windows of minutes and days from before these times, and returns how many.
	Drop(ctx context.Context, minutes, days time.Time, limit int) (int, error)
}

// Follower reads feeds.
type Follower struct {
	source billing.Source
	store  Store
	log    *slog.Logger
}

// NewFollower returns a Follower; the caller has to start Run.
func NewFollower(source billing.Source, store Store, log *slog.Logger) *Follower {
	return &Follower{source: source, store: store, log: log}
}

// Run follows feeds until ctx ends. It continues after every failure.
func (f *Follower) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: every, Do: f.round, Log: f.log, Name: "spend of organizations"}.Run(ctx)
}

// Upkeep removes old windows until ctx ends. It continues after every failure.
func (f *Follower) Upkeep(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: dropEvery, Do: func(ctx context.Context) error { return f.drop(ctx, time.Now()) }, Log: f.log, Name: "old windows of spend",
	}.Run(ctx)
}

// round reads the feeds that are due to their ends, or for some time.
func (f *Follower) round(ctx context.Context) error {
	feeds, err := f.store.Due(ctx, time.Now(), due)
	if err != nil {
		return fmt.Errorf("find due feeds: %w", err)
	}
	var failures []error
	for begun := time.Now(); len(feeds) > 0 && time.Since(begun) < roundTime; {
		feeds, err = f.page(ctx, feeds)
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// page moves each feed on by a page, and returns those that have more. A feed that fails holds up no other.
func (f *Follower) page(ctx context.Context, feeds []Feed) (more []Feed, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	reads := make([]billing.Page, len(feeds))
	failures := make([]error, len(feeds))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, feed := range feeds {
		group.Go(func() error {
			reads[i], failures[i] = f.read(ctx, feed)
			return nil
		})
	}
	_ = group.Wait() // Its functions return no error.
	origins, err := f.store.Origins(ctx, keysOf(reads))
	if err != nil {
		return nil, errors.Join(append(failures, fmt.Errorf("find first keys: %w", err))...)
	}
	steps := make([]Step, 0, len(feeds))
	for i, feed := range feeds {
		if failures[i] != nil {
			continue
		}
		next := feed
		next.Cursor = reads[i].Next.String()
		steps = append(steps, Step{feed, next.Cursor, sum(reads[i].Records, origins), costsOf(reads[i].Records)})
		if reads[i].More {
			more = append(more, next)
		}
	}
	return more, errors.Join(append(failures, f.advance(ctx, steps))...)
}

// read returns the page of a feed behind its cursor.
func (f *Follower) read(ctx context.Context, feed Feed) (billing.Page, error) {
	after, err := billing.ParsePosition(feed.Cursor)
	if err != nil {
		return billing.Page{}, fmt.Errorf("spend of %s: %w", feed.Organization, err)
	}
	page, err := f.source.Read(ctx, billing.Query{Organization: feed.Organization, Since: feed.Since, After: after, Limit: billing.MaxPage})
	if err != nil {
		return billing.Page{}, fmt.Errorf("spend of %s: read page: %w", feed.Organization, err)
	}
	return page, nil
}

// advance takes steps together, or one by one if that fails, because one of them may be why.
func (f *Follower) advance(ctx context.Context, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	err := f.store.Advance(ctx, steps, time.Now())
	if err == nil {
		return nil
	}
	if len(steps) == 1 {
		return fmt.Errorf("spend of %s: add page: %w", steps[0].Feed.Organization, err)
	}
	var failures []error
	for i := range steps {
		failures = append(failures, f.advance(ctx, steps[i:i+1]))
	}
	return errors.Join(failures...)
}

func keysOf(pages []billing.Page) (keys []string) {
	for _, page := range pages {
		for i := range page.Records {
			if key := page.Records[i].Key; key != "" {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func costsOf(records []billing.Record) []credit.Cost {
	costs := make([]credit.Cost, len(records))
	for i, r := range records {
		costs[i] = credit.Cost{At: r.StartedAt, Pico: r.Pico}
	}
	return costs
}

// drop removes old windows.
func (f *Follower) drop(ctx context.Context, now time.Time) error {
	for {
		n, err := f.store.Drop(ctx, now.Add(-KeepMinutes), now.Add(-KeepDays), dropped)
		if err != nil {
			return fmt.Errorf("drop old windows: %w", err)
		}
		if n < dropped {
			return nil
		}
	}
}
