package countfeed

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// keep is how long rows are kept after their minute, although they have been read: a reader whose database was
	// restored from a backup may read them again.
	keep = 7 * 24 * time.Hour
	// purgeEvery is the interval at which old rows are deleted, purged how many at once.
	purgeEvery = 10 * time.Minute
	purged     = 5000
)

// Pager lists a feed and deletes what has been read and is old. It is safe for concurrent use.
type Pager struct {
	feed *Feed
	read atomic.Pointer[feed.Position]
	log  *slog.Logger
}

// NewPager returns the Pager of a feed; the caller has to start Run.
func NewPager(f *Feed, log *slog.Logger) *Pager { return &Pager{feed: f, log: log} }

// MaxPage is the largest and the default page size.
const MaxPage = 1000

// List returns up to limit rows after a cursor, and the cursor of what follows. The caller has stored the cursor: the rows
// before it are not needed any more. A limit of 0 is MaxPage.
func (p *Pager) List(ctx context.Context, cursor string, limit int) (page Page, next string, err error) {
	after, ok := feed.Parse(cursor)
	if !ok {
		return Page{}, "", apierr.Invalid("cursor", "must be the next_cursor of a page")
	}
	if limit == 0 {
		limit = MaxPage
	}
	if page, err = p.feed.List(ctx, after, limit); err != nil {
		return Page{}, "", err
	}
	p.read.Store(&after)
	return page, page.Next.String(), nil
}

// Run deletes old rows until ctx ends. It is a part of the service's lifecycle.
func (p *Pager) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: purgeEvery, Do: func(ctx context.Context) error { return p.purge(ctx, time.Now()) }, Log: p.log, Name: "counts of calls that were read",
	}.Run(ctx)
}

func (p *Pager) purge(ctx context.Context, now time.Time) error {
	read := p.read.Load()
	if read == nil {
		return nil
	}
	for {
		if n, err := p.feed.Purge(ctx, *read, now.Add(-keep), purged); err != nil || n < purged {
			return err
		}
	}
}
