// Package postgres stores inboxes and the outbox in the notify schema. It implements the store interfaces of packages
// send, dispatch, push, upkeep and api; internal/app creates it.
package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/pgdb"
)

// change runs fn in a transaction.
func change(ctx context.Context, pool *pgxpool.Pool, op string, fn func(*dbsql.Queries) error) error {
	return changeCounted(ctx, pool, op, nil, fn)
}

// changeCounted adds the call's count and runs fn in one transaction. The count comes first, so that the locks of fn are
// held no longer than without it.
func changeCounted(
	ctx context.Context, pool *pgxpool.Pool, op string, count *callcount.Count, fn func(*dbsql.Queries) error,
) error {
	err := pgdb.InTx(ctx, pool, func(tx pgx.Tx) error {
		if err := addCount(ctx, tx, count); err != nil {
			return err
		}
		return fn(dbsql.New(tx))
	})
	return failure(op, err)
}

// addCount adds a call's count; nil stands for a call that counts nothing.
func addCount(ctx context.Context, db countfeed.DB, count *callcount.Count) error {
	if count == nil {
		return nil
	}
	return countfeed.Add(ctx, db, []callcount.Count{*count})
}

// read runs fn on one snapshot, so that its queries agree.
func read(ctx context.Context, pool *pgxpool.Pool, op string, fn func(*dbsql.Queries) error) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, pool, snapshot, func(tx pgx.Tx) error { return fn(dbsql.New(tx)) })
	return failure(op, err)
}

// failure adds the operation to an error. If the database is unavailable, the error is one that callers may retry.
func failure(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case pgdb.IsUnavailable(err):
		err = apierr.Unavailable("the store is unavailable", err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
