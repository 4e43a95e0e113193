// Package pgdb opens a service's Postgres pool, whose connections organizations share, runs transactions, applies
// migrations and classifies driver errors. It uses no table but the list of applied migrations; each service's
// internal/postgres owns the others.
package pgdb

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/secret"
)

const (
	connectTimeout  = 5 * time.Second
	rollbackTimeout = 5 * time.Second
	healthPeriod    = 30 * time.Second
	idleUntilPing   = time.Second
	maxConnIdle     = 5 * time.Minute
	maxConnLifetime = 30 * time.Minute
	defaultConns    = 4
)

// Options configure the pool of one database.
type Options struct {
	URL string // postgres://user:password@host:port/database; its parameters override Open's defaults
	// URLFile, unless empty, holds the URL in place of the field. It is read again for each new connection, so that a
	// change of user, password or certificates needs no restart.
	URLFile         secret.File
	MaxConns        int32  // 0 means DefaultConns
	DefaultConns    int32  // unless the URL has pool_max_conns; 0 means 4, on machines of any size
	ApplicationName string // shown in pg_stat_activity
	// Settings are further session parameters.
	Settings map[string]string
	// Log says when the URL's file has changed or can't be used; nil for none.
	Log *slog.Logger
	// Tracer sees each statement; nil for none.
	Tracer pgx.QueryTracer
}

// Open returns a pool and verifies it with a ping, so that a wrong setting fails the start and not the first request.
// No error contains the password. The session's defaults are a statement timeout of 30 s and an idle-in-transaction
// timeout of 10 s.
//
// The calls of one organization (caller.From) hold at most half of the connections, rounded up. If an organization's
// turn doesn't come within 5 s, the call gets an *apierr.Error: 429 with Retry-After. Each connection that a call holds
// counts, so a call that has one must not wait for a second one.
func Open(ctx context.Context, o Options) (*pgxpool.Pool, error) {
	cfg, err := o.configuration(ctx)
	if err != nil {
		return nil, err
	}
	cfg.AfterConnect = writeUUIDs
	cfg.HealthCheckPeriod = healthPeriod
	cfg.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > idleUntilPing || hasPendingData(p.Conn.PgConn().Conn())
	}
	cfg.PingTimeout = connectTimeout
	cfg.MaxConnIdleTime = maxConnIdle
	cfg.MaxConnLifetime = maxConnLifetime
	cfg.MaxConnLifetimeJitter = maxConnLifetime / 10
	divide(cfg)

	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open Postgres pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach Postgres: %w", err)
	}
	return pool, nil
}

// InTx runs fn in a transaction. It commits if fn returns nil and rolls back if fn returns an error or panics. An error
// of fn is returned unchanged.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer rollback(ctx, tx)

	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// rollback does nothing after a commit. It doesn't depend on ctx: a cancelled caller must not cost the pool a
// connection.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // On failure the pool closes the connection, and the server ends its transaction.
}
