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
	"switchyard.dev/services/platform/pgdb"
)

// change runs fn in a transaction.
func change(ctx context.Context, pool *pgxpool.Pool, op string, fn func(*dbsql.Queries) error) error {
	err := pgdb.InTx(ctx, pool, func(tx pgx.Tx) error { return fn(dbsql.New(tx)) })
	return failure(op, err)
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
