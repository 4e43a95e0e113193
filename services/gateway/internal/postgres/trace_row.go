package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/serving/trace"
)

// traceRows reads traces of releases before migration 00145, which stored a row for each. It can be removed once they
// have all expired.
type traceRows struct{ q *dbsql.Queries }

// list returns the records that a filter selects, in no order.
func (t traceRows) list(ctx context.Context, f *trace.Filter, now time.Time) ([]trace.Record, error) {
	var (
		ids []uuid.UUID
		err error
	)
	if f.ReplayOf != "" {
		ids, err = t.q.ListTraceReplays(ctx, dbsql.ListTraceReplaysParams{
			RequestID: f.ReplayOf, OrganizationID: f.Organization, Now: now,
			BeforeAt: optionalTime(f.Before.StartedAt), BeforeID: f.Before.ID, PageSize: int32(f.Limit),
		})
	} else {
		ids, err = t.q.ListTraces(ctx, dbsql.ListTracesParams{
			OrganizationID: f.Organization, Now: now, RequestID: f.Request, RunID: f.Run, Operation: f.Operation,
			Provider: f.Provider, Model: f.Model, Status: f.Status, Since: optionalTime(f.Since), Until: optionalTime(f.Until),
			BeforeAt: optionalTime(f.Before.StartedAt), BeforeID: f.Before.ID, PageSize: int32(f.Limit),
		})
	}
	if err != nil {
		return nil, err
	}
	return t.get(ctx, ids, now)
}

// latest returns the latest record of a request of each organization, in no order.
func (t traceRows) latest(ctx context.Context, organization, request string, limit int, now time.Time) ([]trace.Record, error) {
	ids, err := t.q.LatestTraces(ctx, dbsql.LatestTracesParams{
		RequestID: request, OrganizationID: organization, Now: now, PageSize: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	return t.get(ctx, ids, now)
}

func (t traceRows) get(ctx context.Context, ids []uuid.UUID, now time.Time) ([]trace.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := t.q.GetTraces(ctx, dbsql.GetTracesParams{Now: now, Ids: ids})
	if err != nil {
		return nil, err
	}
	records := make([]trace.Record, len(rows))
	for i := range rows {
		if records[i], err = recordOf(&rows[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func recordOf(row *dbsql.GetTracesRow) (trace.Record, error) {
	r := &row.Trace
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
		StartedAt: r.StartedAt, FirstTokenMs: r.FirstTokenMs, DurationMs: r.DurationMs, ExpiresAt: r.ExpiresAt,
	}
	if row.Captured {
		record.Content = &trace.Content{
			Key: row.ContentKey, Size: int(row.ContentSize), Truncated: row.ContentTruncated, Replayable: row.ContentReplayable,
			CapturedAt: row.ContentCapturedAt, ExpiresAt: row.ContentExpiresAt,
		}
	}
	if err := json.Unmarshal(r.Attempts, &record.Attempts); err != nil {
		return trace.Record{}, fmt.Errorf("attempts: %w", err)
	}
	return record, nil
}

// sealed adds the contents of records to a map.
func (t traceRows) sealed(ctx context.Context, ids []uuid.UUID, to map[uuid.UUID][]byte) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := t.q.TraceContents(ctx, ids)
	if err != nil {
		return err
	}
	for _, row := range rows {
		to[row.ID] = row.Sealed
	}
	return nil
}

// drop deletes expired rows, contents with their records or before them.
func (t traceRows) drop(ctx context.Context, now time.Time, limit int) (int, error) {
	contents, err := t.q.DropTraceContents(ctx, dbsql.DropTraceContentsParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, err
	}
	records, err := t.q.DropTraces(ctx, dbsql.DropTracesParams{Now: now, Count: int32(limit)})
	return int(max(contents, records)), err
}
