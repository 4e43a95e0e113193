// Package postgres persists deliveries, endpoints, events and jobs. It implements the stores that the domain packages
// declare; all SQL is in queries/ and typed by sqlc.
//
// The order of locks is the same in every transaction: the endpoints of an organization as a whole; by id the flows
// to which rows are added, shared, so that no other transaction puts them to sleep; idempotency keys by key; ordering
// keys by flow and key; queue rows by id; deliveries; the counts of endpoints and flows; by id, the flows that change;
// last, the lock of house events. A resend locks its ended deliveries before ordering keys: no holder of an ordering key
// waits for those. The keys of events, resends and jobs come before all of these, since no transaction that waits for one
// of them holds another. A claim begins with flows that it changes, but it skips locked rows and waits for nothing.
// Settles of two replicas that change flows in several statements each may deadlock: Postgres aborts one of them, and it
// is repeated.
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
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// Store persists deliveries in one schema of Postgres.
type Store struct {
	pool *pgxpool.Pool
	sql  *dbsql.Queries
	// keyLifetime is how long an idempotency key is valid.
	keyLifetime time.Duration
	// transact runs the transactions of the hot path (enqueue, claim, settle): pipelined, or inCountedTx, which takes a
	// round trip for each statement.
	transact func(ctx context.Context, operation string, counts []callcount.Count, fn func(*dbsql.Queries) error) error
}

// Settings returns the settings of the store's sessions. Every statement finds its rows by a key, in tables that grow
// from nothing to millions of rows within a day, so the planner's statistics are always outdated, and a prepared
// statement keeps the plan that was made with them. Therefore only nested loops over an index are enabled: a plan made
// while a table was empty would otherwise scan or sort all of it later.
//
// A nested loop may still read a whole index in its order and join the wanted rows to that. It considers this for an
// index whose first column is compared by = with another table, or whose rows are all selected by the index's own
// condition. So statements look up the rows of a list with "key = ANY (ARRAY[wanted.key])", with LATERAL and LIMIT, or
// with "key = ANY (ARRAY(SELECT …))". TestPlansLookUpByKey refuses all other plans.
//
// As there is one plan, it is made once. By itself Postgres makes a new one for each execution with short lists, which
// seems cheaper to it than the plan for lists of any length; but the planning takes longer than the execution.
func Settings() map[string]string {
	return map[string]string{
		"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
		"plan_cache_mode": "force_generic_plan",
	}
}

// New returns a Store on a pool whose search_path is the service's schema.
func New(pool *pgxpool.Pool, keyLifetime time.Duration) *Store {
	s := &Store{pool: pool, sql: dbsql.New(pool), keyLifetime: keyLifetime}
	s.transact = s.pipelined
	return s
}

// Ping returns an error if the database does not respond.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// Counts returns the feed of the counts that the store adds.
func (s *Store) Counts() *countfeed.Feed { return countfeed.New(s.pool, nil) }

// inTx runs fn in a transaction and converts its error.
func (s *Store) inTx(ctx context.Context, operation string, fn func(*dbsql.Queries) error) error {
	return s.inCountedTx(ctx, operation, nil, fn)
}

// inCountedTx runs fn in a transaction, adds counts to it unless fn fails, and converts the error.
func (s *Store) inCountedTx(
	ctx context.Context, operation string, counts []callcount.Count, fn func(*dbsql.Queries) error,
) error {
	err := pgdb.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := fn(s.sql.WithTx(tx)); err != nil {
			return err
		}
		return countfeed.Add(ctx, tx, counts)
	})
	return explain(operation, err)
}

// countsOf returns the counts of calls; nil stands for a call that counts nothing.
func countsOf(calls ...*callcount.Count) []callcount.Count {
	var counts []callcount.Count
	for _, count := range calls {
		if count != nil {
			counts = append(counts, *count)
		}
	}
	return counts
}

// explain converts a driver's error to one of the domain.
func explain(operation string, err error) error {
	if err == nil {
		return nil
	}
	if pgdb.IsUnavailable(err) {
		return apierr.Unavailable("the database is unavailable", fmt.Errorf("%s: %w", operation, err))
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

// uuidOrNull parses a caller's id; an empty text is null.
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

// orZero returns the value of a nullable column, or the zero value.
func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// epoch stands for the zero time in arrays for SQL.
var epoch = time.Unix(0, 0)

func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return epoch
	}
	return t
}
