package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// finishTime bounds the commit of finished work after its context has ended.
const finishTime = 10 * time.Second

// cursor is a table with one row, which the replica that follows a feed holds.
type cursor struct {
	// lock returns pgx.ErrNoRows if another replica holds the row.
	lock func(ctx context.Context, q *dbsql.Queries) (string, error)
	move func(ctx context.Context, q *dbsql.Queries, cursor string) error
}

// alone calls do with a cursor in a transaction that holds its row, so that a replica that has lost its connection commits
// nothing, and commits the cursor that do returns. It does nothing if another replica holds the row. If do returns an error,
// or its context ends, what was done before is committed all the same.
func alone(ctx context.Context, pool *pgxpool.Pool, c cursor, do func(ctx context.Context, done string, q *dbsql.Queries) (string, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		own, cancel = context.WithDeadline(own, deadline.Add(finishTime))
		defer cancel()
	}
	var failure error
	err := pgdb.InTx(own, pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		before, err := c.lock(own, q)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock cursor: %w", err)
		}
		after, err := do(ctx, before, q)
		failure = err
		if after == before {
			return nil
		}
		return c.move(own, q, after)
	})
	return errors.Join(failure, err)
}
