package postgres

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/postgres/pgcopy"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/pgdb"
)

// Traces implements trace.Store.
type Traces struct{ pool *pgxpool.Pool }

// NewTraces returns the traces of a database.
func NewTraces(pool *pgxpool.Pool) *Traces { return &Traces{pool} }

// Append's statements: records, and the contents of some of them.
var (
	//go:embed copy/trace.sql
	copyRecords string
	//go:embed copy/trace_content.sql
	copyContents string
)

// Append implements trace.Store. An entry that is stored already counts as stored by this call.
func (t *Traces) Append(ctx context.Context, entries []trace.Entry) error {
	records, contents, err := traceRows(entries)
	if err != nil {
		return fmt.Errorf("%w: %w", trace.ErrRefused, err)
	}
	err = pgdb.InTx(ctx, t.pool, func(tx pgx.Tx) error {
		if err := records.Send(ctx, tx.Conn(), copyRecords); err != nil {
			return err
		}
		return contents.Send(ctx, tx.Conn(), copyContents)
	})
	if of, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pgdb.IsUniqueViolation(of, "") && len(entries) == 1:
			return nil
		case of.Code[:2] == "22", of.Code[:2] == "23": // Data exception, integrity violation.
			return fmt.Errorf("append traces: %w: %w", trace.ErrRefused, err)
		}
	}
	if err != nil {
		return fmt.Errorf("append traces: %w", err)
	}
	return nil
}

// traceRows returns entries in the form of copyRecords and copyContents.
func traceRows(entries []trace.Entry) (records, contents *pgcopy.Rows, err error) {
	const columns, size = 45, 1 << 10
	const contentColumns, contentSize = 7, 96
	sealed := 0
	for i := range entries {
		if c := entries[i].Content; c != nil {
			sealed += contentSize + len(c.Sealed)
		}
	}
	records, contents = pgcopy.New(columns, size*len(entries)), pgcopy.New(contentColumns, sealed)
	for i := range entries {
		e := &entries[i]
		if err := appendRecord(records, &e.Record); err != nil {
			return nil, nil, err
		}
		if e.Content != nil {
			appendContent(contents, e.ID, e.Content)
		}
	}
	return records, contents, nil
}

func appendRecord(rows *pgcopy.Rows, r *trace.Record) error {
	attempts := []byte("[]")
	if len(r.Attempts) > 0 {
		var err error
		if attempts, err = json.Marshal(r.Attempts); err != nil {
			return err
		}
	}
	rows.Row()
	rows.UUID(r.ID)
	rows.Text(r.RequestID, r.Organization, r.Run, r.Key, r.Service, r.Operation)
	rows.Bool(r.Stream)
	rows.Text(r.Status, r.Parent, r.ParentKind, r.W3CTrace, r.RequestedModel, r.RequestedProvider, r.RequestedGoal, r.Provider, r.Model,
		r.Credential, r.Fingerprint, r.Route, r.PolicyVersion, r.PriceVersion, r.Classification, r.ApprovalRef)
	rows.Bool(r.CacheHit, r.Substituted, r.Billed)
	rows.Int64(r.Prompt, r.Completion, int64(r.Cost))
	rows.Bool(r.Estimated)
	rows.Text(r.Error, r.ErrorClass)
	rows.Int16(int16(r.HTTPStatus))
	rows.JSON(attempts)
	rows.Int32(int32(r.Messages), int32(r.Tools), int32(r.RequestBytes), int32(r.ResponseBytes))
	rows.Bytes(r.RequestDigest, r.ResponseDigest)
	rows.Time(r.StartedAt)
	rows.Float64(r.FirstTokenMs, r.DurationMs)
	rows.Time(r.ExpiresAt)
	return nil
}

func appendContent(rows *pgcopy.Rows, id uuid.UUID, c *trace.Content) {
	rows.Row()
	rows.UUID(id)
	rows.Text(c.Key)
	rows.Bytes(c.Sealed)
	rows.Bool(c.Truncated, c.Replayable)
	rows.Time(c.CapturedAt, c.ExpiresAt)
}

// List implements trace.Store.
func (t *Traces) List(ctx context.Context, f trace.Filter, now time.Time) ([]trace.Record, error) {
	rows, err := dbsql.New(t.pool).ListTraces(ctx, dbsql.ListTracesParams{
		OrganizationID: f.Organization, Now: now, RequestID: f.Request, RunID: f.Run, Operation: f.Operation,
		Provider: f.Provider, Model: f.Model, Status: f.Status, Since: optionalTime(f.Since), Until: optionalTime(f.Until),
		BeforeAt: optionalTime(f.Before.StartedAt), BeforeID: f.Before.ID, PageSize: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list traces: %w", err)
	}
	records := make([]trace.Record, len(rows))
	for i := range rows {
		if records[i], err = traceOf(&rows[i].Trace, rows[i].Captured); err != nil {
			return nil, fmt.Errorf("list traces: %w", err)
		}
	}
	return records, nil
}

// Latest implements trace.Store.
func (t *Traces) Latest(ctx context.Context, organization, request string, limit int, now time.Time) ([]trace.Record, error) {
	rows, err := dbsql.New(t.pool).LatestTraces(ctx, dbsql.LatestTracesParams{
		Now: now, RequestID: request, OrganizationID: organization, PageSize: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("latest traces: %w", err)
	}
	records := make([]trace.Record, len(rows))
	for i := range rows {
		if records[i], err = traceOf(&rows[i].Trace, rows[i].Captured); err != nil {
			return nil, fmt.Errorf("latest traces: %w", err)
		}
	}
	return records, nil
}

// Get implements trace.Store.
func (t *Traces) Get(ctx context.Context, organization, request string, now time.Time) (trace.Record, error) {
	row, err := dbsql.New(t.pool).GetTrace(ctx, dbsql.GetTraceParams{Now: now, RequestID: request, OrganizationID: organization})
	if err != nil {
		return trace.Record{}, fmt.Errorf("get trace: %w", orMissing(err, trace.ErrNotFound))
	}
	return traceOf(&row.Trace, row.Captured)
}

func traceOf(r *dbsql.Trace, captured bool) (trace.Record, error) {
	record := trace.Record{
		ID: r.ID, RequestID: r.RequestID, Organization: r.OrganizationID, Run: r.RunID, Key: r.KeyID, Service: r.Service,
		Operation: r.Operation, Stream: r.Stream, Status: r.Status, Parent: r.ParentRequestID, ParentKind: r.ParentKind, W3CTrace: r.W3cTraceID,
		RequestedModel: r.RequestedModel, RequestedProvider: r.RequestedProvider, RequestedGoal: r.RequestedGoal,
		Provider: r.Provider, Model: r.Model, Credential: r.Credential, Fingerprint: r.CredentialFingerprint,
		Route: r.Route, PolicyVersion: r.PolicyVersion, PriceVersion: r.PriceVersion,
		Classification: r.DataClassification, ApprovalRef: r.ApprovalRef, CacheHit: r.CacheHit, Substituted: r.Substituted,
		Billed: r.Billed, Prompt: r.PromptTokens, Completion: r.CompletionTokens, Cost: price.Pico(r.CostPicoUsd), Estimated: r.Estimated,
		Error: r.Error, ErrorClass: r.ErrorClass, HTTPStatus: int(r.HttpStatus),
		Messages: int(r.MessageCount), Tools: int(r.ToolCount), RequestBytes: int(r.RequestBytes), ResponseBytes: int(r.ResponseBytes),
		RequestDigest: r.RequestDigest, ResponseDigest: r.ResponseDigest,
		StartedAt: r.StartedAt, FirstTokenMs: r.FirstTokenMs, DurationMs: r.DurationMs, ExpiresAt: r.ExpiresAt, Captured: captured,
	}
	if err := json.Unmarshal(r.Attempts, &record.Attempts); err != nil {
		return trace.Record{}, fmt.Errorf("attempts of a trace: %w", err)
	}
	return record, nil
}

// Sizes implements trace.Store.
func (t *Traces) Sizes(ctx context.Context, ids []uuid.UUID, now time.Time) (map[uuid.UUID]int, error) {
	rows, err := dbsql.New(t.pool).TraceSizes(ctx, dbsql.TraceSizesParams{Ids: ids, Now: now})
	if err != nil {
		return nil, fmt.Errorf("trace sizes: %w", err)
	}
	sizes := make(map[uuid.UUID]int, len(rows))
	for _, row := range rows {
		sizes[row.ID] = int(row.Size)
	}
	return sizes, nil
}

// Contents implements trace.Store.
func (t *Traces) Contents(ctx context.Context, ids []uuid.UUID, now time.Time) (map[uuid.UUID]trace.Content, error) {
	rows, err := dbsql.New(t.pool).TraceContents(ctx, dbsql.TraceContentsParams{Ids: ids, Now: now})
	if err != nil {
		return nil, fmt.Errorf("trace contents: %w", err)
	}
	contents := make(map[uuid.UUID]trace.Content, len(rows))
	for _, row := range rows {
		contents[row.ID] = trace.Content{
			Key: row.KeyID, Sealed: row.Sealed, Truncated: row.Truncated, Replayable: row.Replayable,
			CapturedAt: row.CapturedAt, ExpiresAt: row.ExpiresAt,
		}
	}
	return contents, nil
}

// Replays implements trace.Store.
func (t *Traces) Replays(ctx context.Context, organization, request string, limit int, now time.Time) ([]string, error) {
	found, err := dbsql.New(t.pool).TraceReplays(ctx, dbsql.TraceReplaysParams{
		RequestID: request, OrganizationID: organization, Now: now, PageSize: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("replays of a trace: %w", err)
	}
	return found, nil
}

// Drop implements trace.Store. Contents are deleted with their records, or before them.
func (t *Traces) Drop(ctx context.Context, now time.Time, limit int) (int, error) {
	q := dbsql.New(t.pool)
	contents, err := q.DropTraceContents(ctx, dbsql.DropTraceContentsParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop trace contents: %w", err)
	}
	records, err := q.DropTraces(ctx, dbsql.DropTracesParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop traces: %w", err)
	}
	return int(max(contents, records)), nil
}

// Erase implements trace.Store.
func (t *Traces) Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error) {
	n, err := dbsql.New(t.pool).EraseTraceContents(ctx, dbsql.EraseTraceContentsParams{OrganizationID: organization, Before: until, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("erase trace contents: %w", err)
	}
	return int(n), nil
}
