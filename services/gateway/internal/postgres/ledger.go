package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/pgdb"
)

// Ledger stores ledger entries and counts of calls.
type Ledger struct {
	pool     *pgxpool.Pool
	patience time.Duration // bounds the wait of List for transactions in progress
	counts   *countfeed.Feed
}

// NewLedger returns the ledger of a database.
func NewLedger(pool *pgxpool.Pool) *Ledger {
	return &Ledger{pool: pool, patience: 250 * time.Millisecond, counts: NewCounts(pool)}
}

// NewCounts returns the feed of call counts in a database. Ledger entries add to it.
func NewCounts(pool *pgxpool.Pool) *countfeed.Feed {
	return countfeed.New(pool, func(ctx context.Context) error { return awaitEntries(ctx, pool) })
}

// entryWrites names the appends of entries that writers announce.
const entryWrites = "ledger entries"

// NewAnnouncer returns the announcer of a writer of entries.
func NewAnnouncer(pool *pgxpool.Pool) (*pgdb.Announcer, error) {
	return pgdb.NewAnnouncer(pool, entryWrites)
}

// awaitEntries waits for the entries of calls that have been answered already. Whatever reads entries, or what was spent,
// begins with it.
func awaitEntries(ctx context.Context, pool *pgxpool.Pool) error {
	return pgdb.AwaitAnnounced(ctx, pool, entryWrites)
}

// Append commits entries. One that is stored already is skipped. Without entries it only checks whether the database
// would accept some.
func (l *Ledger) Append(ctx context.Context, entries []ledger.Entry) error {
	if err := l.copy(ctx, entries); err != nil {
		return fmt.Errorf("append %d ledger entries: %w", len(entries), classify(err))
	}
	return nil
}

// Count implements ledger.Store.
func (l *Ledger) Count(ctx context.Context, counts []callcount.Count) error {
	if err := l.counts.Record(ctx, counts); err != nil {
		return classify(err)
	}
	return nil
}

// copy commits entries together, in halves if some are stored already.
func (l *Ledger) copy(ctx context.Context, entries []ledger.Entry) error {
	err := l.commitEntries(ctx, entries)
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

// commitEntries commits entries and their counts. It fails if an entry is already stored.
func (l *Ledger) commitEntries(ctx context.Context, entries []ledger.Entry) error {
	if len(entries) == 0 {
		return copyEntries(ctx, l.pool, entries)
	}
	counts, err := countEntries(entries)
	if err != nil {
		return err
	}
	if len(entries) <= maxAdded {
		return addEntries(ctx, l.pool, entries, counts)
	}
	return pgdb.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		if err := copyEntries(ctx, tx, entries); err != nil {
			return err
		}
		return counts.add(ctx, tx)
	})
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

// copier is a pool or a transaction.
type copier interface {
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
}

// copyEntries adds entries without their counts, which the caller adds. It fails if an entry is already stored.
func copyEntries(ctx context.Context, to copier, entries []ledger.Entry) error {
	columns := slices.Clip(entryColumns)
	withReport := slices.ContainsFunc(entries, func(e ledger.Entry) bool { return e.Reported != nil })
	if withReport {
		columns = append(columns, columnReported)
	}
	withMetric := slices.ContainsFunc(entries, func(e ledger.Entry) bool { return e.CountMetric != "" })
	if withMetric {
		columns = append(columns, columnMetric)
	}
	_, err := to.CopyFrom(ctx, pgx.Identifier{"ledger_entry"}, columns, pgx.CopyFromSlice(len(entries), func(i int) ([]any, error) {
		row := entryRow(&entries[i])
		if withReport {
			row = append(row, entries[i].ReportedByColumn())
		}
		if withMetric {
			row = append(row, entries[i].CountMetric)
		}
		return row, nil
	}))
	return err
}

// noTags is the tags column of an entry without tags.
const noTags = "{}"

// tagsJSON returns the value of the tags column.
func tagsJSON(tags map[string]string) any {
	if len(tags) == 0 {
		return noTags
	}
	return tags
}

// The columns that are copied only for batches with an entry that needs them: one whose vendor reported more than is
// billed, and one whose call counts for a customer.
const (
	columnReported = "reported_usage"
	columnMetric   = "count_metric"
)

// entryColumns are the columns of an entryRow.
var entryColumns = func() []string {
	columns := []string{
		"id", "request_id", "organization_id", "key_id", "key_origin", "user_id", "tags", "service", "run_id", "operation", "requested_provider",
		"requested_model", "requested_goal", "provider", "model", "credential", "credential_fingerprint",
		"substituted", "cache_hit", "attempts", "usage_state", "cost_pico_usd", "price_version", "outcome",
		"started_at", "ended_at", "counted",
	}
	for _, b := range provider.Buckets() {
		columns = append(columns, b.Column())
	}
	return columns
}()

// entryRow returns the values of entryColumns.
func entryRow(e *ledger.Entry) []any {
	row := make([]any, 0, len(entryColumns))
	row = append(row,
		e.ID, e.RequestID, e.Organization, e.Key, e.KeyOrigin, e.User, tagsJSON(e.Tags), e.Service, e.Run, e.Operation, e.RequestedProvider,
		e.RequestedModel, e.RequestedGoal, e.Provider, e.Model, e.Credential, e.Fingerprint,
		e.Substituted, e.CacheHit, int16(e.Attempts), string(e.State), int64(e.Cost), e.PriceVersion, string(e.Outcome),
		e.StartedAt, e.EndedAt, true,
	)
	for _, b := range provider.Buckets() {
		row = append(row, *b.Of(&e.Usage))
	}
	return row
}
