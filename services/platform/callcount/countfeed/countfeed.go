// Package countfeed stores a service's counts of calls in its Postgres: the table call_count, which each service's own
// migrations create. It lists them in the order of their commits, so that a reader that keeps its position gets each row
// once.
package countfeed

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/pgdb"
)

//go:embed sql/add.sql
var add string

//go:embed sql/add_once.sql
var addOnce string

//go:embed sql/list.sql
var list string

//go:embed sql/hidden.sql
var hidden string

//go:embed sql/listed.sql
var listed string

//go:embed sql/purge.sql
var purge string

// Sum is how many calls count alike.
type Sum struct {
	Organization, Key, Metric string
	Minute                    time.Time
	User                      string
	Tags                      map[string]string
	Calls                     int64
}

// Page is a part of the feed. Next is the position behind it; it is the one that was asked for if there are no sums.
type Page struct {
	Sums []Sum
	Next feed.Position
	// Incomplete reports that a transaction in progress hides counts of calls that were answered before.
	Incomplete bool
}

// Feed is the counts of a service.
type Feed struct {
	pool *pgxpool.Pool
	// await returns when the rows of calls that were answered before are committed.
	await func(ctx context.Context) error
	// patience bounds the wait of List for transactions in progress.
	patience time.Duration
}

// patience is how long a reader waits for other transactions, which is longer than one of a healthy service takes.
const patience = time.Second

// New returns the counts in a pool's database. await, which may be nil, returns when the counts of the calls that were
// answered before are committed.
func New(pool *pgxpool.Pool, await func(ctx context.Context) error) *Feed {
	if await == nil {
		await = func(context.Context) error { return nil }
	}
	return &Feed{pool: pool, await: await, patience: patience}
}

// DB is a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Add adds counts in the transaction that stores the records of their calls, which may be committed once only.
func Add(ctx context.Context, tx DB, counts []callcount.Count) error {
	if len(counts) == 0 {
		return nil
	}
	statement, args := Addition(counts)
	if _, err := tx.Exec(ctx, statement, args); err != nil {
		return fmt.Errorf("add counts of calls: %w", err)
	}
	return nil
}

// Addition returns the statement of [Add], for a batch of statements.
func Addition(counts []callcount.Count) (statement string, args pgx.NamedArgs) {
	return add, columns(counts)
}

// Record adds counts, without those that were added before.
func (f *Feed) Record(ctx context.Context, counts []callcount.Count) error {
	args := columns(counts)
	ids := make([]uuid.UUID, len(counts))
	for i := range counts {
		ids[i] = counts[i].ID
	}
	args["ids"] = ids
	if _, err := f.pool.Exec(ctx, addOnce, args); err != nil {
		return fmt.Errorf("record counts of calls: %w", err)
	}
	return nil
}

// columns returns the columns of counts, as arguments of a statement.
func columns(counts []callcount.Count) pgx.NamedArgs {
	n := len(counts)
	organizations, keys, metrics := make([]string, n), make([]string, n), make([]string, n)
	moments, users, tags := make([]time.Time, n), make([]string, n), make([]map[string]string, n)
	for i, c := range counts {
		organizations[i], keys[i], metrics[i] = c.Organization, c.Key, c.Metric
		moments[i], users[i], tags[i] = c.At, c.User, c.Tags
		if tags[i] == nil {
			tags[i] = map[string]string{}
		}
	}
	return pgx.NamedArgs{
		"organizations": organizations, "keys": keys, "metrics": metrics, "moments": moments, "users": users, "tags": tags,
	}
}

// List returns up to limit rows after a position. Every call that was answered before List is included, unless the page
// is incomplete because another transaction of the database server took longer than a second.
func (f *Feed) List(ctx context.Context, after feed.Position, limit int) (Page, error) {
	page, err := f.page(ctx, after, limit)
	if err != nil {
		return Page{}, fmt.Errorf("list counts of calls: %w", err)
	}
	return page, nil
}

func (f *Feed) page(ctx context.Context, after feed.Position, limit int) (Page, error) {
	if err := f.await(ctx); err != nil {
		return Page{}, err
	}
	shown, err := f.awaitHidden(ctx, after)
	if err != nil {
		return Page{}, err
	}
	rows, err := f.pool.Query(ctx, list, pgx.NamedArgs{"txid": after.Transaction, "seq": after.Row, "count": limit})
	if err != nil {
		return Page{}, err
	}
	page := Page{Next: after, Incomplete: !shown}
	page.Sums, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Sum, err error) {
		err = row.Scan(&page.Next.Transaction, &page.Next.Row, &s.Organization, &s.Key, &s.Metric, &s.Minute, &s.User, &s.Tags, &s.Calls)
		return s, err
	})
	return page, err
}

// errAhead reports a position that this database has not reached: it was restored from a backup, or it is another one.
// Counts would be skipped.
var errAhead = errors.New("the cursor is ahead of the database's transactions")

// awaitHidden returns when the rows that are committed now can be listed, or reports false after the feed's patience. A
// transaction that began before them and may yet add others hides them.
func (f *Feed) awaitHidden(ctx context.Context, after feed.Position) (shown bool, err error) {
	var newest, next uint64
	err = f.pool.QueryRow(ctx, hidden).Scan(&newest, &next)
	switch {
	case err != nil:
		return false, err
	case after.Transaction >= next:
		return false, errAhead
	case newest == 0:
		return true, nil
	}
	err = pgdb.Await(ctx, f.patience, func(ctx context.Context) (bool, error) {
		err := f.pool.QueryRow(ctx, listed, pgx.NamedArgs{"txid": newest}).Scan(&shown)
		return shown, err
	})
	return shown, err
}

// Purge deletes up to limit rows before a position whose calls were made before a time, and returns how many there were.
func (f *Feed) Purge(ctx context.Context, read feed.Position, before time.Time, limit int) (int, error) {
	done, err := f.pool.Exec(ctx, purge, pgx.NamedArgs{"txid": read.Transaction, "seq": read.Row, "before": before, "count": limit})
	if err != nil {
		return 0, fmt.Errorf("purge counts of calls: %w", err)
	}
	return int(done.RowsAffected()), nil
}
