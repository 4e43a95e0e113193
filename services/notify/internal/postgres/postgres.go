// Package postgres keeps inboxes and the outbox in the notify schema. It
// implements the store interfaces that packages send and api declare;
// internal/app makes it.
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

// read runs fn on one snapshot, so that what it reads in several steps agrees.
func read(ctx context.Context, pool *pgxpool.Pool, op string, fn func(*dbsql.Queries) error) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, pool, snapshot, func(tx pgx.Tx) error { return fn(dbsql.New(tx)) })
	return failure(op, err)
}

// failure names the operation, and tells callers to come again when the
// database is away.
func failure(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case pgdb.IsUnavailable(err):
		err = apierr.Unavailable("the store is away", err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
