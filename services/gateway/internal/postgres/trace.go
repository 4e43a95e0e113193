package postgres

import (
	"context"
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
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/pgdb"
)

// Traces implements trace.Store.
type Traces struct{ pool *pgxpool.Pool }

// NewTraces returns the traces of a database.
func NewTraces(pool *pgxpool.Pool) *Traces { return &Traces{pool} }

// Append implements trace.Store. An entry that is stored already counts as stored by this call.
func (t *Traces) Append(ctx context.Context, entries []trace.Entry) error {
	records, contents, err := traceRows(entries)
	if err != nil {
		return fmt.Errorf("%w: %w", trace.ErrRefused, err)
	}
	err = pgdb.InTx(ctx, t.pool, func(tx pgx.Tx) error {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"trace"}, recordColumns, pgx.CopyFromRows(records)); err != nil {
			return err
		}
		if len(contents) == 0 {
			return nil
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"trace_content"}, contentColumns, pgx.CopyFromRows(contents))
		return err
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

// traceRows returns the rows of entries: of recordColumns, and of contentColumns for those with a content.
func traceRows(entries []trace.Entry) (records, contents [][]any, err error) {
	records = make([][]any, len(entries))
	for i := range entries {
		e := &entries[i]
		if records[i], err = recordRow(&e.Record); err != nil {
			return nil, nil, err
		}
		if e.Content != nil {
			contents = append(contents, contentRow(e.ID, e.Content))
		}
	}
	return records, contents, nil
}

// recordColumns are the columns of a recordRow.
var recordColumns = []string{
	"id", "request_id", "organization_id", "run_id", "key_id", "service", "operation",
	"stream", "status", "parent_request_id", "parent_kind", "w3c_trace_id",
	"requested_model", "requested_provider", "requested_goal", "provider", "model",
	"credential", "credential_fingerprint", "route", "policy_version", "price_version",
	"data_classification", "approval_ref", "cache_hit", "substituted", "billed",
	"prompt_tokens", "completion_tokens", "cost_pico_usd", "estimated",
	"error", "error_class", "http_status", "attempts",
	"message_count", "tool_count", "request_bytes", "response_bytes", "request_digest", "response_digest",
	"started_at", "first_token_ms", "duration_ms", "expires_at",
}

// recordRow returns the values of recordColumns.
func recordRow(r *trace.Record) ([]any, error) {
	attempts := []byte("[]")
	if len(r.Attempts) > 0 {
		var err error
		if attempts, err = json.Marshal(r.Attempts); err != nil {
			return nil, err
		}
	}
	return []any{
		r.ID, r.RequestID, r.Organization, r.Run, r.Key, r.Service, r.Operation,
		r.Stream, r.Status, r.Parent, r.ParentKind, r.W3CTrace,
		r.RequestedModel, r.RequestedProvider, r.RequestedGoal, r.Provider, r.Model,
		r.Credential, r.Fingerprint, r.Route, r.PolicyVersion, r.PriceVersion,
		r.Classification, r.ApprovalRef, r.CacheHit, r.Substituted, r.Billed,
		r.Prompt, r.Completion, int64(r.Cost), r.Estimated,
		r.Error, r.ErrorClass, int16(r.HTTPStatus), attempts,
		int32(r.Messages), int32(r.Tools), int32(r.RequestBytes), int32(r.ResponseBytes), notNull(r.RequestDigest), notNull(r.ResponseDigest),
		r.StartedAt, r.FirstTokenMs, r.DurationMs, r.ExpiresAt,
	}, nil
}

// contentColumns are the columns of a contentRow.
var contentColumns = []string{"id", "key_id", "sealed", "truncated", "replayable", "captured_at", "expires_at"}

// contentRow returns the values of contentColumns.
func contentRow(id uuid.UUID, c *trace.Content) []any {
	return []any{id, c.Key, notNull(c.Sealed), c.Truncated, c.Replayable, c.CapturedAt, c.ExpiresAt}
}

// notNull returns bytes that are stored as an empty bytea if they are nil, which the driver would store as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
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
