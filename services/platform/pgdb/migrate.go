package pgdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	migrationTable = "schema_migrations"
	// Two migrators of one schema wait for each other: one try per second for five minutes.
	lockPeriodSeconds = 1
	lockTries         = 300
	// Under traffic, Postgres may abort a migration for the sake of its locks. It is tried again after migrationPause.
	migrationTries = 6
	migrationPause = time.Second
)

// Migrate applies the missing ones of the numbered .sql files at the root of fsys to the first schema of the URL's
// search_path, which must exist. It returns the names of the files applied, also if a later one failed. Each file is
// one transaction unless it contains `-- +goose NO TRANSACTION`. Several replicas may run it at the same time, and
// services may use the schema: a file that Postgres aborts because of a lock is tried again, so a file without a
// transaction must be able to start over.
func Migrate(ctx context.Context, url string, fsys fs.FS, log *slog.Logger) (applied []string, err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	// A migration that waits for a table lock blocks all later statements on the table, so it gives up early. There is
	// no statement timeout, because building an index takes long.
	if err := configure(cfg, map[string]string{"application_name": "migrate", "lock_timeout": "10s"}); err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()

	schema, err := currentSchema(ctx, db)
	if err != nil {
		return nil, err
	}
	provider, err := newProvider(db, schema, fsys)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	for try := 1; ; try++ {
		results, err := up(ctx, provider)
		for _, r := range results {
			name := path.Base(r.Source.Path)
			applied = append(applied, name)
			log.InfoContext(ctx, "migration applied", "schema", schema, "name", name, "duration", r.Duration)
		}
		if err == nil {
			return applied, nil
		}
		err = fmt.Errorf("migrate schema %s: %w", schema, err)
		if try == migrationTries || !IsLockConflict(err) {
			return applied, err
		}
		log.WarnContext(ctx, "migration aborted, trying again", "schema", schema, "error", err)
		select {
		case <-time.After(migrationPause):
		case <-ctx.Done():
			return applied, errors.Join(err, ctx.Err())
		}
	}
}

// up applies the missing migrations. It returns those applied also if a later one failed.
func up(ctx context.Context, provider *goose.Provider) ([]*goose.MigrationResult, error) {
	results, err := provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		return partial.Applied, fmt.Errorf("migration %s: %w", path.Base(partial.Failed.Source.Path), partial.Err)
	}
	return results, err
}

func currentSchema(ctx context.Context, db *sql.DB) (string, error) {
	var schema sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return "", fmt.Errorf("reach Postgres: %w", err)
	}
	if !schema.Valid {
		return "", errors.New("no schema of the role's search_path exists")
	}
	return schema.String, nil
}

// newProvider takes a lock per schema, so that services which share a database don't wait for each other. The lock is
// polled: a session that blocks in pg_advisory_lock holds a snapshot, for which CREATE INDEX CONCURRENTLY would wait
// forever.
func newProvider(db *sql.DB, schema string, fsys fs.FS) (*goose.Provider, error) {
	id := fnv.New64a()
	id.Write([]byte(migrationTable + " " + schema))
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(int64(id.Sum64())),
		lock.WithLockTimeout(lockPeriodSeconds, lockTries),
	)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, fsys,
		goose.WithTableName(migrationTable),
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
	)
}

// CheckSchema returns an error if the database lacks a migration of fsys; the error names the command to run. A
// database that is ahead is accepted: a new release migrates it while the previous release still serves.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool, fsys fs.FS, service string) error {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	applied, err := appliedVersions(ctx, pool)
	if err != nil {
		return fmt.Errorf("read applied migrations: %w", err)
	}
	var missing []string
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		if !slices.Contains(applied, version) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the database is older than this release, it lacks %s: run `%s migrate`",
			strings.Join(missing, ", "), service)
	}
	return nil
}

func appliedVersions(ctx context.Context, pool *pgxpool.Pool) ([]int64, error) {
	rows, _ := pool.Query(ctx, "SELECT version_id FROM "+migrationTable+" WHERE is_applied") // CollectRows returns the error
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if isUndefinedTable(err) {
		return nil, nil
	}
	return versions, err
}
