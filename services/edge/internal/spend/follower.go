package spend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// due bounds the feeds of a round, pages those of one feed, and pageTime one page.
	due      = 100
	pages    = 25
	pageTime = 5 * time.Second
	// dropEvery is the interval at which old windows are removed, dropped how many at once.
	dropEvery = time.Hour
	dropped   = 5000
)

// How long windows of minutes and days are kept, which operators may read. Those of months stay.
const (
	KeepMinutes = 48 * time.Hour
	KeepDays    = 62 * 24 * time.Hour
)

// Source is the gateway's billed feed, see billing.Feed.
type Source interface {
	Read(ctx context.Context, q billing.Query) (billing.Page, error)
}

// Store keeps feeds and windows.
type Store interface {
	// Due returns feeds to read, those that wait the longest first.
	Due(ctx context.Context, now time.Time, limit int) ([]Feed, error)
	// Origins returns the first key of the chain of rotations of each key that is not the first.
	Origins(ctx context.Context, keys []string) (map[string]string, error)
	// Advance moves a feed on to a cursor, adds the amounts and spends the costs from the organization's credits: all or
	// nothing. It reports false, and changes nothing, if the feed was moved on before.
	Advance(ctx context.Context, feed Feed, next string, now time.Time, amounts []Amount, costs []credit.Cost) (bool, error)
	// Drop removes up to limit windows of minutes and days from before these times, and returns how many.
	Drop(ctx context.Context, minutes, days time.Time, limit int) (int, error)
}

// Follower reads feeds.
type Follower struct {
	source Source
	store  Store
	log    *slog.Logger
}

// NewFollower returns a Follower; the caller has to start Run.
func NewFollower(source Source, store Store, log *slog.Logger) *Follower {
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

// round reads the feeds that are due, several at a time. One that fails holds up no other.
func (f *Follower) round(ctx context.Context) error {
	feeds, err := f.store.Due(ctx, time.Now(), due)
	if err != nil {
		return fmt.Errorf("find due feeds: %w", err)
	}
	failures := make([]error, len(feeds))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, feed := range feeds {
		group.Go(func() error {
			failures[i] = f.follow(ctx, feed)
			return nil
		})
	}
	_ = group.Wait() // Its functions return no error.
	return errors.Join(failures...)
}

// follow reads a feed to its end, for at most some pages.
func (f *Follower) follow(ctx context.Context, feed Feed) error {
	for range pages {
		more, err := f.page(ctx, &feed)
		if err != nil {
			return fmt.Errorf("follow spend of %s: %w", feed.Organization, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// page reads a page of a feed and moves it on.
func (f *Follower) page(ctx context.Context, feed *Feed) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	page, err := f.source.Read(ctx, billing.Query{
		Organization: feed.Organization, Since: feed.Since, Cursor: feed.Cursor, Limit: billing.MaxPage,
	})
	if err != nil {
		return false, fmt.Errorf("read page: %w", err)
	}
	origins, err := f.store.Origins(ctx, keysOf(page.Records))
	if err != nil {
		return false, fmt.Errorf("find first keys: %w", err)
	}
	moved, err := f.store.Advance(ctx, *feed, page.Next, time.Now(), sum(page.Records, origins), costsOf(page.Records))
	if err != nil {
		return false, fmt.Errorf("add page: %w", err)
	}
	feed.Cursor = page.Next
	return moved && page.More, nil
}

func keysOf(records []billing.Record) (keys []string) {
	for _, r := range records {
		if r.Key != "" {
			keys = append(keys, r.Key)
		}
	}
	return keys
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
