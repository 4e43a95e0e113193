package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Archive returns what was recorded of requests; see trace.Archive.
type Archive interface {
	List(ctx context.Context, f trace.Filter) (page []trace.Shown, more bool, err error)
	Lineage(ctx context.Context, f trace.Filter) (page []trace.Record, more bool, err error)
	Get(ctx context.Context, organization, request string) (trace.Record, error)
	Latest(ctx context.Context, organization, request string) ([]trace.Record, error)
	Execution(ctx context.Context, organization, request string) (*trace.Execution, error)
	Replays(ctx context.Context, organization, request string, limit int) ([]string, error)
}

// traceServer serves the records of requests.
type traceServer struct {
	gatewayv1.UnimplementedTraceServiceServer

	archive    Archive
	inferences *inferenceServer
}

var errNoTrace = apierr.NotFound("request_id: trace")

// ListTraces returns a page of an organization's requests, redacted.
func (s *traceServer) ListTraces(ctx context.Context, m *gatewayv1.ListTracesRequest) (*gatewayv1.ListTracesResponse, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	f := trace.Filter{
		Request: m.GetRequestId(), Run: m.GetRunId(), Operation: m.GetOperation(), Provider: m.GetProvider(), Model: m.GetModel(), Status: m.GetStatus(),
	}
	page, err := traceFilter(ctx, m, &f)
	if err != nil {
		return nil, err
	}
	found, more, err := s.archive.List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	out := &gatewayv1.ListTracesResponse{}
	for i := range found {
		out.Traces = append(out.Traces, fromTrace(&found[i]))
	}
	if more {
		out.NextCursor = traceCursor(page, &found[len(found)-1].Record)
	}
	return out, nil
}

// ListLineage returns a page of an organization's lineage events.
func (s *traceServer) ListLineage(ctx context.Context, m *gatewayv1.ListLineageRequest) (*gatewayv1.ListLineageResponse, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	f := trace.Filter{Run: m.GetRunId(), Provider: m.GetProvider()}
	page, err := traceFilter(ctx, m, &f)
	if err != nil {
		return nil, err
	}
	found, more, err := s.archive.Lineage(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("lineage: %w", err)
	}
	out := &gatewayv1.ListLineageResponse{}
	for i := range found {
		out.Events = append(out.Events, fromLineage(&found[i]))
	}
	if more {
		out.NextCursor = traceCursor(page, &found[len(found)-1])
	}
	return out, nil
}

// traceList is what the requests of both lists have in common.
type traceList interface {
	GetOrganizationId() string
	GetSince() *timestamppb.Timestamp
	GetUntil() *timestamppb.Timestamp
	GetLimit() int32
	GetCursor() string
}

// traceFilter sets the filters that both lists have.
func traceFilter(ctx context.Context, m traceList, f *trace.Filter) (keyset, error) {
	var err error
	if f.Organization, err = organizationOf(ctx, m.GetOrganizationId()); err != nil {
		return keyset{}, err
	}
	if f.Since, f.Until, err = toWindow(m.GetSince(), m.GetUntil()); err != nil {
		return keyset{}, err
	}
	f.Limit = pageSize(m.GetLimit())
	page := newKeyset("traces", f.Organization, f.Request, f.Run, f.Operation, f.Provider, f.Model, f.Status, f.Since.String(), f.Until.String())
	last, err := page.read(m.GetCursor(), 2)
	if err != nil || last[0] == "" {
		return page, err
	}
	micros, errAt := strconv.ParseInt(last[0], 10, 64)
	id, errID := uuid.Parse(last[1])
	if errAt != nil || errID != nil {
		return page, apierr.Invalid("cursor", "must be the next_cursor of a page with the same filters")
	}
	f.Before = trace.Position{StartedAt: time.UnixMicro(micros), ID: id}
	return page, nil
}

// traceCursor returns the cursor behind a record; the store's times have microseconds.
func traceCursor(page keyset, r *trace.Record) string {
	return page.cursor(strconv.FormatInt(r.StartedAt.UnixMicro(), 10), r.ID.String())
}

// GetLineage returns the origin of one answer of an organization.
func (s *traceServer) GetLineage(ctx context.Context, m *gatewayv1.GetLineageRequest) (*gatewayv1.LineageEvent, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	record, err := s.get(ctx, organization, m.GetRequestId())
	if err != nil {
		return nil, err
	}
	return fromLineage(&record), nil
}

// GetSupportTrace returns one request of any organization. If several organizations used its id, it says so and names
// the others' requests.
func (s *traceServer) GetSupportTrace(ctx context.Context, m *gatewayv1.GetSupportTraceRequest) (*gatewayv1.SupportTrace, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	var organization string
	if from := caller.From(ctx); from.Organization != "" || m.GetOrganizationId() != "" {
		var err error
		if organization, err = from.OrganizationOf(m.GetOrganizationId()); err != nil {
			return nil, err
		}
	}
	found, err := s.archive.Latest(ctx, organization, m.GetRequestId())
	if err != nil {
		return nil, traceError(err)
	}
	out := fromSupported(&found[0])
	for i := range found[1:] {
		out.Ambiguous, out.Others = true, append(out.Others, fromSupported(&found[1+i]))
	}
	return out, nil
}

// fromSupported returns a record without what only its organization may see.
func fromSupported(r *trace.Record) *gatewayv1.SupportTrace {
	return &gatewayv1.SupportTrace{
		RequestId: r.RequestID, OrganizationId: r.Organization, RunId: toNullable(r.Run), KeyId: toNullable(r.Key), Service: r.Service,
		Operation: r.Operation, Stream: r.Stream, Status: r.Status, RequestedModel: r.RequestedModel,
		Usage: usageOf(r), Error: errorOf(r), Attempts: fromAttempts(r.Attempts),
		MessageCount: int32(r.Messages), ToolCount: int32(r.Tools), RequestBytes: int32(r.RequestBytes), ResponseBytes: int32(r.ResponseBytes),
		StartedAt: timestamppb.New(r.StartedAt), FirstTokenMs: optionalMilliseconds(r.FirstTokenMs), DurationMs: r.DurationMs, Captured: r.Replayable(),
	}
}

func (s *traceServer) get(ctx context.Context, organization, request string) (trace.Record, error) {
	record, err := s.archive.Get(ctx, organization, request)
	if err != nil {
		return record, traceError(err)
	}
	return record, nil
}

func traceError(err error) error {
	if errors.Is(err, trace.ErrNotFound) {
		return errNoTrace
	}
	return fmt.Errorf("trace: %w", err)
}

func fromTrace(t *trace.Shown) *gatewayv1.Trace {
	r := &t.Record
	out := &gatewayv1.Trace{
		RequestId: r.RequestID, OrganizationId: r.Organization, RunId: toNullable(r.Run), KeyId: toNullable(r.Key), Service: r.Service,
		Operation: r.Operation, Stream: r.Stream, Status: r.Status, Request: t.Request, Response: t.Response,
		Redactions: t.Redactions, Truncated: t.Truncated, Usage: usageOf(r), Error: errorOf(r), Attempts: fromAttempts(r.Attempts),
		Metadata: t.Metadata, StartedAt: timestamppb.New(r.StartedAt), FirstTokenMs: optionalMilliseconds(r.FirstTokenMs), DurationMs: r.DurationMs,
	}
	if r.ParentKind == trace.ParentReplay {
		out.ReplayOf = toNullable(r.Parent)
	}
	return out
}

func fromLineage(r *trace.Record) *gatewayv1.LineageEvent {
	return &gatewayv1.LineageEvent{
		RequestId: r.RequestID, OrganizationId: r.Organization, RunId: toNullable(r.Run),
		ParentRequestId: toNullable(r.Parent), ParentKind: toNullable(r.ParentKind), TraceId: r.W3CTrace, Service: r.Service, KeyId: toNullable(r.Key),
		Operation: r.Operation, Status: r.Status, RequestedModel: r.RequestedModel,
		RequestedProvider: toNullable(r.RequestedProvider), RequestedGoal: toNullable(r.RequestedGoal),
		Provider: toNullable(r.Provider), Model: toNullable(r.Model), Credential: toNullable(r.Credential), CredentialFingerprint: toNullable(r.Fingerprint),
		Attempts: fromAttempts(r.Attempts), Route: r.Route, PolicyVersion: r.PolicyVersion, PriceVersion: toNullable(r.PriceVersion),
		DataClassification: toNullable(r.Classification), ApprovalRef: toNullable(r.ApprovalRef), CacheHit: r.CacheHit, Substituted: r.Substituted,
		RequestDigest: hex.EncodeToString(r.RequestDigest), ResponseDigest: toNullable(hex.EncodeToString(r.ResponseDigest)),
		OccurredAt: timestamppb.New(r.StartedAt),
	}
}

func fromAttempts(attempts []trace.Attempt) []*gatewayv1.Attempt {
	out := make([]*gatewayv1.Attempt, len(attempts))
	for i, a := range attempts {
		out[i] = &gatewayv1.Attempt{
			Number: int32(i + 1), Provider: a.Provider, Model: a.Model, Credential: a.Credential, Outcome: a.Outcome,
			ErrorClass: toNullable(a.Class), Error: toNullable(a.Error), ProviderRequestId: toNullable(a.VendorID),
			StartedAt: timestamppb.New(a.StartedAt), FirstTokenMs: optionalMilliseconds(a.FirstTokenMs), DurationMs: a.DurationMs,
		}
		if a.HTTPStatus > 0 {
			out[i].HttpStatus = wrapperspb.Int32(int32(a.HTTPStatus))
		}
	}
	return out
}

// usageOf returns the usage that the caller received; nil if nothing was billed.
func usageOf(r *trace.Record) *gatewayv1.Usage {
	if !r.Billed {
		return nil
	}
	u := &gatewayv1.Usage{
		PromptTokens: clamp(r.Prompt), CompletionTokens: clamp(r.Completion), ProviderUsed: r.Provider, CostCents: r.Cost.Cents(),
		Estimated: r.Estimated, RequestedGoal: optional(r.RequestedGoal), Substituted: r.Substituted, CacheHit: r.CacheHit, ModelUsed: r.Model,
	}
	if r.Substituted {
		u.RequestedProvider = optional(r.RequestedProvider)
	}
	return u
}

func errorOf(r *trace.Record) *gatewayv1.TraceError {
	if r.Error == "" {
		return nil
	}
	return &gatewayv1.TraceError{Error: r.Error, ErrorClass: r.ErrorClass, HttpStatus: int32(r.HTTPStatus)}
}

// optionalMilliseconds returns null for 0.
func optionalMilliseconds(ms float64) *wrapperspb.DoubleValue {
	if ms == 0 {
		return nil
	}
	return wrapperspb.Double(ms)
}
