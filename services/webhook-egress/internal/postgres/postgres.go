// Package postgres keeps deliveries, endpoints, events and jobs. It implements
// the stores that the domain's packages declare; all SQL is in queries/ and typed
// by sqlc.
//
// Order of locks, the same in every transaction: an organization's endpoints as
// a whole; by id the flows that rows are added to, shared, so that no other
// transaction puts them to sleep; idempotency keys by key; queue rows by id;
// deliveries; the counts of endpoints and flows; last of all, by id, the flows that
// change. The keys of events, resends and jobs come first of all, since no
// transaction that waits for one of them holds another. A claim begins with flows
// that it changes, but it skips whatever is locked, and waits for nothing. Settles
// of two replicas that change flows in several statements each may deadlock:
// Postgres aborts one of them, and it is repeated.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// Store keeps deliveries in one schema of Postgres.
type Store struct {
	pool *pgxpool.Pool
	sql  *dbsql.Queries
	// keyLifetime is how long an idempotency key is remembered.
	keyLifetime time.Duration
}

// Settings of the store's sessions. Every statement here finds its rows by a key,
// in tables that grow from nothing to millions of rows within a day: what the
// planner knows of them is always old. A plan made while a day was empty would
// read the whole of it, so it is left one way only, the nested loop over an index.
func Settings() map[string]string {
	return map[string]string{
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
	}
}

// New returns a store on a pool whose search_path is the service's schema.
func New(pool *pgxpool.Pool, keyLifetime time.Duration) *Store {
	return &Store{pool: pool, sql: dbsql.New(pool), keyLifetime: keyLifetime}
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// inTx runs fn in a transaction and explains its error.
func (s *Store) inTx(ctx context.Context, operation string, fn func(*dbsql.Queries) error) error {
	err := pgdb.InTx(ctx, s.pool, func(tx pgx.Tx) error { return fn(s.sql.WithTx(tx)) })
	return explain(operation, err)
}

// explain turns a driver's error into one that the domain understands.
func explain(operation string, err error) error {
	if err == nil {
		return nil
	}
	if pgdb.IsUnavailable(err) {
		return apierr.Unavailable("the database is away", fmt.Errorf("%s: %w", operation, err))
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return fmt.Errorf("%s: %w", operation, err)
	}
	// Class 22: data that a column can't hold; class 23: a constraint.
	// Class 40: a deadlock or another conflict that a repeat resolves.
	switch pg.Code[:2] {
	case "22", "23":
		return fmt.Errorf("%s: %w: %w", operation, delivery.ErrRejected, err)
	case "40":
		return fmt.Errorf("%s: %w: %w", operation, delivery.ErrConflict, err)
	}
	return fmt.Errorf("%s: %w", operation, err)
}

func uuidOf(id delivery.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// uuidOrNull reads a caller's id; the empty text is null.
func uuidOrNull(text string) (pgtype.UUID, error) {
	if text == "" {
		return pgtype.UUID{}, nil
	}
	id, err := delivery.ParseID(text)
	return uuidOf(id), err
}

func optional(id pgtype.UUID) string {
	if !id.Valid {
		return ""
	}
	return delivery.ID(id.Bytes).String()
}

// orZero is what a nullable column holds, or the zero value.
func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// epoch stands for no time where SQL takes an array of them.
var epoch = time.Unix(0, 0)

func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return epoch
	}
	return t
}
