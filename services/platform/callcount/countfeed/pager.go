package countfeed

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
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

// cursor returns the position as a cursor; empty for the beginning.
func (p Position) cursor() string {
	if p == (Position{}) {
		return ""
	}
	return strconv.FormatUint(p.Transaction, 10) + "-" + strconv.FormatInt(p.Row, 10)
}

// parse is the inverse of cursor. It reports false for a text that is none.
func parse(cursor string) (p Position, ok bool) {
	if cursor == "" {
		return Position{}, true
	}
	transaction, row, _ := strings.Cut(cursor, "-")
	var errTransaction, errRow error
	p.Transaction, errTransaction = strconv.ParseUint(transaction, 10, 63)
	p.Row, errRow = strconv.ParseInt(row, 10, 64)
	return p, errTransaction == nil && errRow == nil && p.Row > 0
}

// Pager lists a feed and deletes what has been read and is old. It is safe for concurrent use.
type Pager struct {
	feed *Feed
	read atomic.Pointer[Position]
	log  *slog.Logger
}

// NewPager returns the Pager of a feed; the caller has to start Run.
func NewPager(f *Feed, log *slog.Logger) *Pager { return &Pager{feed: f, log: log} }

// MaxPage is the largest and the default page size.
const MaxPage = 1000

// List returns up to limit rows after a cursor, and the cursor of what follows. The caller has stored the cursor: the rows
// before it are not needed any more. A limit of 0 is MaxPage.
func (p *Pager) List(ctx context.Context, cursor string, limit int) (page Page, next string, err error) {
	after, ok := parse(cursor)
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
	return page, page.Next.cursor(), nil
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
