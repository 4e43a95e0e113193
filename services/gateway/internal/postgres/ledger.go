package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres/pgcopy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/pgdb"
)

// Ledger stores ledger entries.
type Ledger struct{ pool *pgxpool.Pool }

// NewLedger returns the ledger of a database.
func NewLedger(pool *pgxpool.Pool) *Ledger { return &Ledger{pool: pool} }

// copyEntries adds a group of entries, none of which is stored already.
//
//go:embed copy/ledger_entry.sql
var copyEntries string

// Append commits entries. One that is stored already is skipped. Without entries it only checks whether the database
// would accept some.
func (l *Ledger) Append(ctx context.Context, entries []ledger.Entry) error {
	if err := l.copy(ctx, entries); err != nil {
		return fmt.Errorf("append %d ledger entries: %w", len(entries), classify(err))
	}
	return nil
}

// copy commits entries together, in halves if some are stored already.
func (l *Ledger) copy(ctx context.Context, entries []ledger.Entry) error {
	err := l.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return entryRows(entries).Send(ctx, conn.Conn(), copyEntries)
	})
	switch {
	case !pgdb.IsUniqueViolation(err, "ledger_entry_pkey"):
		return err
	case len(entries) == 1:
		return nil
	}
	half := len(entries) / 2
	if err := l.copy(ctx, entries[:half]); err != nil {
		return err
	}
	return l.copy(ctx, entries[half:])
}

// classify treats every failure as temporary, except those of the data: a row is given up only if it can never be
// stored.
func classify(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:2] {
		case "22", "23": // Data exception, integrity violation: Postgres manual, appendix A.
			return err
		}
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// entryRows returns entries in the form of copyEntries.
func entryRows(entries []ledger.Entry) *pgcopy.Rows {
	const columns, size = 23 + provider.BucketCount, 640
	rows := pgcopy.New(uint16(columns), size*len(entries))
	for i := range entries {
		appendEntry(rows, &entries[i])
	}
	return rows
}

func appendEntry(rows *pgcopy.Rows, e *ledger.Entry) {
	rows.Row()
	rows.UUID(e.ID)
	rows.Text(e.RequestID, e.Organization, e.Key, e.Service, e.Run, e.Operation, e.RequestedProvider,
		e.RequestedModel, e.RequestedGoal, e.Provider, e.Model, e.Credential, e.Fingerprint)
	rows.Bool(e.Substituted, e.CacheHit)
	rows.Int16(int16(e.Attempts))
	for _, b := range provider.Buckets() {
		rows.Int64(*b.Of(&e.Usage))
	}
	rows.Text(string(e.State))
	rows.Int64(int64(e.Cost))
	rows.Text(e.PriceVersion, string(e.Outcome))
	rows.Time(e.StartedAt, e.EndedAt)
}
