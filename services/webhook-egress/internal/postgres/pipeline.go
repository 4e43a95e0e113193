package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// pipeline is a transaction that sends its statements together: a statement without a result waits for the next one
// with a result, or for the commit, and its error appears only there. Under load the round trips of a transaction
// take longer than its statements. Exec refuses :execrows queries: their count of rows would be missing.
type pipeline struct {
	conn  *pgxpool.Conn
	batch *pgx.Batch
}

var _ dbsql.DBTX = (*pipeline)(nil)

// pipelined runs fn in a pipelined transaction, adds counts to it unless fn fails, and converts the error.
func (s *Store) pipelined(
	ctx context.Context, operation string, counts []callcount.Count, fn func(*dbsql.Queries) error,
) error {
	return explain(operation, s.pipe(ctx, counts, fn))
}

func (s *Store) pipe(ctx context.Context, counts []callcount.Count, fn func(*dbsql.Queries) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	// Releasing a connection that is still in its transaction closes it, which rolls the transaction back.
	defer conn.Release()
	p := &pipeline{conn, &pgx.Batch{}}
	p.batch.Queue("begin")
	if err := fn(dbsql.New(p)); err != nil {
		return err
	}
	if err := countfeed.Add(ctx, p, counts); err != nil {
		return err
	}
	return p.commit(ctx)
}

// Exec implements dbsql.DBTX: the statement is sent with the next one. The command tag is empty, so a query whose tag is
// read is refused.
func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if readsTag(sql) {
		return pgconn.CommandTag{}, fmt.Errorf("%s: the pipeline doesn't count rows; use inTx, or a RETURNING query", nameOf(sql))
	}
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query implements dbsql.DBTX.
func (p *pipeline) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	p.batch.Queue(sql, args...)
	results, err := p.send(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return &lastRows{rows, results}, nil
}

// QueryRow implements dbsql.DBTX.
func (p *pipeline) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return oneRow{rows, err}
}

// send sends the queued statements and reads the results of all but the last.
func (p *pipeline) send(ctx context.Context) (pgx.BatchResults, error) {
	batch := p.batch
	p.batch = &pgx.Batch{}
	results := p.conn.SendBatch(ctx, batch)
	for _, query := range batch.QueuedQueries[:batch.Len()-1] {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // the first error is the cause
			return nil, fmt.Errorf("%s: %w", nameOf(query.SQL), err)
		}
	}
	return results, nil
}

func (p *pipeline) commit(ctx context.Context) error {
	p.batch.Queue("commit")
	results, err := p.send(ctx)
	if err != nil {
		return err
	}
	tag, err := results.Exec()
	err = errors.Join(err, results.Close())
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// readsTag reports whether the code that sqlc makes of a statement reads its command tag. The first line of a statement
// is "-- name: <name> :<command>".
func readsTag(sql string) bool {
	line, _, _ := strings.Cut(sql, "\n")
	return strings.HasSuffix(line, ":execrows") || strings.HasSuffix(line, ":execresult")
}

// nameOf returns the name that sqlc gave a statement.
func nameOf(sql string) string {
	line, _, _ := strings.Cut(sql, "\n")
	name, _, _ := strings.Cut(strings.TrimPrefix(line, "-- name: "), " ")
	return name
}

// lastRows closes the batch with its last result.
type lastRows struct {
	pgx.Rows

	results pgx.BatchResults
}

// Close implements pgx.Rows. An error here appears with the next statement.
func (r *lastRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}

// oneRow implements pgx.Row.
type oneRow struct {
	rows pgx.Rows
	err  error
}

// Scan implements pgx.Row.
func (r oneRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	return r.rows.Err()
}
