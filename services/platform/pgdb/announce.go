package pgdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Announcer lets a process acknowledge writes before it has committed them, without a reader in another process missing
// them. The writer announces writes before it acknowledges the first one, and withdraws the announcement when they are
// committed. A reader that calls AwaitAnnounced first sees all writes that were acknowledged before its call. A writer
// whose process dies, or that loses its connection, withdraws by that.
//
// An announcement is a shared advisory lock in a transaction that writes nothing and holds no snapshot. Readers look for
// these transactions and lock nothing, so no writer waits for a reader.
type Announcer struct {
	pool *pgxpool.Pool
	name string
}

const (
	// announceClass is the class of the advisory locks; their objects are hashes of the schema and the name.
	announceClass = 0x53594954
	// minPause and maxPause bound the time between two looks of a reader.
	minPause, maxPause = 4 * time.Millisecond, 25 * time.Millisecond
	// announceTime bounds the wait of a reader.
	announceTime = 3 * time.Second
	// withdrawTime bounds the end of an announcement. After it the pool closes the connection, which has the same effect.
	withdrawTime = time.Second
	// announceConns is the number of an announcer's connections: announcements of one writer overlap.
	announceConns = 2
)

// NewAnnouncer returns the announcer of one kind of writes to the pool's schema. It has two connections of its own, which
// it opens when it needs them: announcements last, and must not take the connections of other work.
func NewAnnouncer(pool *pgxpool.Pool, name string) (*Announcer, error) {
	cfg := pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = announceConns, 0, 0
	own, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("open Postgres pool: %w", err)
	}
	return &Announcer{own, name}, nil
}

// Announce returns when readers can see the announcement. withdraw ends it.
func (a *Announcer) Announce(ctx context.Context) (withdraw func(), err error) {
	tx, err := a.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("announce writes: %w", err)
	}
	const lock = "SELECT pg_advisory_xact_lock_shared($1, hashtext(current_schema() || ' ' || $2))"
	if _, err := tx.Exec(ctx, lock, announceClass, a.name); err != nil {
		rollback(ctx, tx)
		return nil, fmt.Errorf("announce writes: %w", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
		defer cancel()
		_ = tx.Commit(ctx) // On failure the pool closes the connection, and the server ends its transaction.
	}, nil
}

// Close closes the announcer's connections.
func (a *Announcer) Close() { a.pool.Close() }

// AwaitAnnounced returns when the announcements of a kind of writes that exist at the time of the call are withdrawn. It
// gives up after 3 s without an error: a writer that takes longer has a database that doesn't take its writes.
func AwaitAnnounced(ctx context.Context, pool *pgxpool.Pool, name string) error {
	pending, err := announced(ctx, pool, name)
	if err != nil || len(pending) == 0 {
		return err
	}
	return Await(ctx, announceTime, func(ctx context.Context) (bool, error) {
		now, err := announced(ctx, pool, name)
		pending = slices.DeleteFunc(pending, func(transaction string) bool { return !slices.Contains(now, transaction) })
		return len(pending) == 0, err
	})
}

// Await returns when done has returned true or an error. It calls done after pauses of half the time waited so far, at
// least 4 and at most 25 ms, and a last time at the limit. After that Await gives up without an error.
func Await(ctx context.Context, limit time.Duration, done func(context.Context) (bool, error)) error {
	start := time.Now()
	timer := time.NewTimer(min(pauseAfter(0), limit))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("await other transactions: %w", context.Cause(ctx))
		case <-timer.C:
		}
		if ended, err := done(ctx); ended || err != nil {
			return err
		}
		waited := time.Since(start)
		if waited >= limit {
			return nil
		}
		timer.Reset(min(pauseAfter(waited), limit-waited))
	}
}

// pauseAfter returns the pause before the next look of a reader that has waited this long. Each look makes the server
// copy its lock table. Pauses grow with the wait, so a reader waits at most half as long again as it must, or 4 ms
// longer.
func pauseAfter(waited time.Duration) time.Duration {
	return min(max(waited/2, minPause), maxPause)
}

// announced returns the virtual IDs of the transactions that announce writes. Postgres uses no ID twice.
func announced(ctx context.Context, pool *pgxpool.Pool, name string) (transactions []string, err error) {
	const query = `SELECT coalesce(array_agg(l.virtualtransaction), '{}')
FROM pg_locks AS l
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND l.classid = $1 AND l.objid = hashtext(current_schema() || ' ' || $2)::oid`
	if err := pool.QueryRow(ctx, query, announceClass, name).Scan(&transactions); err != nil {
		return nil, fmt.Errorf("await announced writes: %w", err)
	}
	return transactions, nil
}
