package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Exports implements the stores of package export.
type Exports struct{ pool *pgxpool.Pool }

// NewExports returns the exports of the pool's database.
func NewExports(pool *pgxpool.Pool) *Exports { return &Exports{pool: pool} }

// collectorLease is the name of the lease that Collect needs.
const collectorLease = "collector"

// maxCursors bounds the unfinished cursors of a destination that are read.
const maxCursors = 64

// Lease implements export.Store.
func (x *Exports) Lease(ctx context.Context, name, holder string, duration time.Duration) (fence int64, held bool, err error) {
	fence, err = dbsql.New(x.pool).TakeExportLease(ctx, dbsql.TakeExportLeaseParams{Name: name, Holder: holder, Seconds: duration.Seconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return fence, err == nil, err
}

// held runs do in a transaction during which no other replica can take the lease.
func (x *Exports) held(ctx context.Context, lease string, fence int64, do func(q *dbsql.Queries) error) error {
	return pgdb.InTx(ctx, x.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := fenced(q.HoldExportLease(ctx, dbsql.HoldExportLeaseParams{Name: lease, Fence: fence})); err != nil {
			return err
		}
		return do(q)
	})
}

// fenced returns export.ErrFence if a statement found that its lease has another fence.
func fenced(held bool, err error) error {
	if err == nil && !held {
		return export.ErrFence
	}
	return err
}

// Collect implements export.Store.
func (x *Exports) Collect(ctx context.Context, fence int64, from, to, now time.Time) (added int, err error) {
	err = x.held(ctx, collectorLease, fence, func(q *dbsql.Queries) error {
		n, err := q.CollectCounts(ctx, dbsql.CollectCountsParams{Now: now, Since: from, Before: to})
		added = int(n)
		return err
	})
	return added, err
}

// Growths implements export.Store.
func (x *Exports) Growths(ctx context.Context, after int64, since, until time.Time, limit int) ([]export.Growth, error) {
	rows, err := dbsql.New(x.pool).ListExportCounts(ctx, dbsql.ListExportCountsParams{
		After: after, Since: since, Until: optionalTime(until), Page: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	growths := make([]export.Growth, len(rows))
	for i, row := range rows {
		growths[i] = export.Growth{
			ID: row.ID, Organization: row.OrganizationID, Metric: row.Metric, Hour: row.Hour.UTC(),
			Before: row.CountedBefore, Count: row.Count, CollectedAt: row.CollectedAt.UTC(),
		}
	}
	return growths, nil
}

// Open implements export.Store.
func (x *Exports) Open(ctx context.Context, destination string, source export.Source, since time.Time) error {
	return dbsql.New(x.pool).OpenExportCursor(ctx, dbsql.OpenExportCursorParams{Destination: destination, Source: string(source), Since: since})
}

// Cursors implements export.Store.
func (x *Exports) Cursors(ctx context.Context, destination string) ([]export.Cursor, error) {
	return x.cursors(ctx, destination, false, maxCursors)
}

// List implements export.Archive.
func (x *Exports) List(ctx context.Context, destination string, limit int) ([]export.Cursor, error) {
	return x.cursors(ctx, destination, true, limit+len(export.Sources))
}

func (x *Exports) cursors(ctx context.Context, destination string, all bool, limit int) ([]export.Cursor, error) {
	rows, err := dbsql.New(x.pool).ListExportCursors(ctx, dbsql.ListExportCursorsParams{
		Destination: destination, AllOfThem: all, Page: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	cursors := make([]export.Cursor, len(rows))
	for i, row := range rows {
		cursors[i] = export.Cursor{
			ID: row.ID, Destination: row.Destination, Source: export.Source(row.Source), Since: row.Since.UTC(), Until: moment(row.Until),
			OnlyRefused: row.OnlyRefused, Position: row.Position, Settled: row.Settled, UnsureSince: moment(row.UnsureSince), Sent: row.Sent, Refused: row.Refused, Failure: row.Failure, FailingSince: moment(row.FailingSince),
			UpdatedAt: row.UpdatedAt.UTC(), FinishedAt: moment(row.FinishedAt),
		}
	}
	return cursors, nil
}

// leaseOf returns the name of the lease that writes to a destination's cursors need.
func leaseOf(destination string) string { return "destination/" + destination }

// Begin implements export.Store. It is one statement, hence one transaction and one round trip.
func (x *Exports) Begin(ctx context.Context, fence int64, c export.Cursor, at time.Time) error {
	held, err := dbsql.New(x.pool).BeginExportPage(ctx, dbsql.BeginExportPageParams{
		Lease: leaseOf(c.Destination), Fence: fence, ID: c.ID, At: at,
	})
	return fenced(held, err)
}

// Advance implements export.Store. It is one statement too, unless the page has refusals or belongs to a back-fill.
func (x *Exports) Advance(ctx context.Context, fence int64, p export.Progress) error {
	params := advancement(fence, p)
	if len(p.Refused) == 0 && p.Cursor.Until.IsZero() {
		return fenced(dbsql.New(x.pool).AdvanceExportCursor(ctx, params))
	}
	return pgdb.InTx(ctx, x.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := fenced(q.AdvanceExportCursor(ctx, params)); err != nil {
			return err
		}
		return recordRefusals(ctx, q, p)
	})
}

func advancement(fence int64, p export.Progress) dbsql.AdvanceExportCursorParams {
	c, last := p.Cursor, p.Last
	return dbsql.AdvanceExportCursorParams{
		Lease: leaseOf(c.Destination), Fence: fence, ID: c.ID, Position: p.Page.Next, Sent: int64(len(p.Taken)),
		Refused: int64(len(p.Refused)), Finished: p.Page.End, Destination: c.Destination, Account: last.Account,
		SentAt: optionalTime(last.SentAt), Identifier: last.Event.Identifier, Source: string(last.Event.Source),
		OrganizationID: last.Event.Organization, Metric: last.Event.Metric, Customer: last.Event.Customer,
		Name: last.Event.Name, Value: last.Event.Amount, OccurredAt: last.Event.At,
	}
}

// Fail implements export.Store.
func (x *Exports) Fail(ctx context.Context, fence int64, p export.Progress, failure string) error {
	return x.held(ctx, leaseOf(p.Cursor.Destination), fence, func(q *dbsql.Queries) error {
		err := q.FailExportCursor(ctx, dbsql.FailExportCursorParams{
			ID: p.Cursor.ID, Settled: p.Settled(), UnsureSince: optionalTime(p.Cursor.UnsureSince),
			Sent: int64(len(p.Taken)), Refused: int64(len(p.Refused)), Failure: failure,
		})
		if err != nil {
			return err
		}
		if !p.Last.SentAt.IsZero() {
			if err := q.KeepLastTaken(ctx, lastTaken(p.Cursor.Destination, p.Last)); err != nil {
				return err
			}
		}
		return recordRefusals(ctx, q, p)
	})
}

// recordRefusals adds the refusals, and removes the refusals of events that a back-fill has delivered.
func recordRefusals(ctx context.Context, q *dbsql.Queries, p export.Progress) error {
	c := p.Cursor
	if len(p.Refused) > 0 {
		if err := q.AddExportRefusals(ctx, refusals(c, p.Refused)); err != nil {
			return err
		}
	}
	if c.Until.IsZero() || len(p.Taken) == 0 {
		return nil
	}
	taken := dbsql.DropAcceptedRefusalsParams{Destination: c.Destination}
	for _, e := range p.Taken {
		taken.Identifiers = append(taken.Identifiers, e.Identifier)
	}
	return q.DropAcceptedRefusals(ctx, taken)
}

func refusals(c export.Cursor, refused []export.Refusal) dbsql.AddExportRefusalsParams {
	params := dbsql.AddExportRefusalsParams{Destination: c.Destination, Source: string(c.Source)}
	for _, r := range refused {
		params.Identifiers = append(params.Identifiers, r.Identifier)
		params.Organizations = append(params.Organizations, r.Organization)
		params.Metrics = append(params.Metrics, r.Metric)
		params.Amounts = append(params.Amounts, r.Amount)
		params.Moments = append(params.Moments, r.At)
		params.Reasons = append(params.Reasons, r.Reason)
	}
	return params
}

func lastTaken(destination string, l export.LastTaken) dbsql.KeepLastTakenParams {
	return dbsql.KeepLastTakenParams{
		Destination: destination, Account: l.Account, SentAt: l.SentAt, Identifier: l.Event.Identifier,
		Source: string(l.Event.Source), OrganizationID: l.Event.Organization, Metric: l.Event.Metric,
		Customer: l.Event.Customer, Name: l.Event.Name, Value: l.Event.Amount, OccurredAt: l.Event.At,
	}
}

// LastTaken implements export.Store.
func (x *Exports) LastTaken(ctx context.Context, destination string) (export.LastTaken, error) {
	row, err := dbsql.New(x.pool).GetLastTaken(ctx, destination)
	if errors.Is(err, pgx.ErrNoRows) {
		return export.LastTaken{}, nil
	}
	return export.LastTaken{
		Event: export.Event{
			Identifier: row.Identifier, Source: export.Source(row.Source), Organization: row.OrganizationID, Metric: row.Metric,
			Customer: row.Customer, Name: row.Name, Amount: row.Value, At: row.OccurredAt.UTC(),
		},
		SentAt: row.SentAt.UTC(), Account: row.Account,
	}, err
}

// Refused implements export.Store and export.Archive.
func (x *Exports) Refused(ctx context.Context, destination string, identifiers []string) ([]string, error) {
	return dbsql.New(x.pool).FindExportRefusals(ctx, dbsql.FindExportRefusalsParams{Destination: destination, Identifiers: identifiers})
}

// Drop implements export.Store.
func (x *Exports) Drop(ctx context.Context, growths, others time.Time, limit int) (dropped int, err error) {
	q, page := dbsql.New(x.pool), int32(limit)
	n, err := q.DropExportCounts(ctx, dbsql.DropExportCountsParams{Before: growths, Page: page})
	if err != nil {
		return int(n), err
	}
	refused, err := q.DropExportRefusals(ctx, dbsql.DropExportRefusalsParams{Before: others, Page: page})
	if err != nil {
		return int(n + refused), err
	}
	finished, err := q.DropExportBackfills(ctx, dbsql.DropExportBackfillsParams{Before: others, Page: page})
	return int(n + refused + finished), err
}

// actionBackfill is the action of a back-fill in the audit.
const actionBackfill = "export.backfill"

// Backfill implements export.Archive.
func (x *Exports) Backfill(ctx context.Context, by export.Author, c export.Cursor, sources []export.Source, most int) (added []int64, err error) {
	err = pgdb.InTx(ctx, x.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		for _, source := range sources {
			id, err := q.AddExportBackfill(ctx, dbsql.AddExportBackfillParams{
				Destination: c.Destination, Source: string(source), Since: c.Since, Until: c.Until, OnlyRefused: c.OnlyRefused, Most: int64(most),
			})
			if errors.Is(err, pgx.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			added = append(added, id)
		}
		if len(added) == 0 {
			return nil
		}
		return audit(ctx, q, apikey.Entry{
			At: time.Now(), Actor: apikey.Actor{Name: by.Name, Request: by.Request}, Action: actionBackfill,
			Details: map[string]any{
				"destination": c.Destination, "from": c.Since.UTC(), "to": c.Until.UTC(), "only_refused": c.OnlyRefused, "backfills": added,
			},
		})
	})
	return added, err
}

// Waiting implements export.Backlog.
func (x *Exports) Waiting(ctx context.Context, destination string) (export.Waiting, error) {
	row, err := dbsql.New(x.pool).ExportWaiting(ctx, destination)
	if err != nil {
		return export.Waiting{}, err
	}
	return export.Waiting{Rows: row.Waiting, Oldest: time.Duration(row.Oldest * float64(time.Second)), Refused: row.Refused}, nil
}

// Refusals implements export.Archive.
func (x *Exports) Refusals(ctx context.Context, destination, after string, limit int) ([]export.Refusal, error) {
	rows, err := dbsql.New(x.pool).ListExportRefusals(ctx, dbsql.ListExportRefusalsParams{Destination: destination, After: after, Page: int32(limit)})
	if err != nil {
		return nil, err
	}
	refused := make([]export.Refusal, len(rows))
	for i, row := range rows {
		refused[i] = export.Refusal{
			Event: export.Event{
				Identifier: row.Identifier, Source: export.Source(row.Source), Organization: row.OrganizationID, Metric: row.Metric,
				Amount: row.Value, At: row.OccurredAt.UTC(),
			},
			Reason: row.Reason, RefusedAt: row.RefusedAt.UTC(),
		}
	}
	return refused, nil
}

// optionalTime returns null for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// moment is the inverse of optionalTime.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
