package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// defaultPage is the default size of a page.
const defaultPage = 50

// usageServer serves the feed of billed records and the sums of what is spent.
type usageServer struct {
	gatewayv1.UnimplementedUsageServiceServer

	feed  ledger.Feed
	spend spend.Store
}

// ListUsage returns the records after a cursor. An operator who names no organization gets those of all.
func (s *usageServer) ListUsage(ctx context.Context, m *gatewayv1.ListUsageRequest) (*gatewayv1.ListUsageResponse, error) {
	filter, err := toFilter(ctx, m)
	if err != nil {
		return nil, err
	}
	after, err := filter.Position(m.GetCursor())
	if err != nil {
		return nil, apierr.Invalid("cursor", "must be the next_cursor of a page with the same filters")
	}
	limit := int(m.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	records, err := s.feed.List(ctx, filter, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list usage: %w", err)
	}
	out := &gatewayv1.ListUsageResponse{Records: make([]*gatewayv1.UsageRecord, len(records))}
	for i := range records {
		out.Records[i] = toRecord(&records[i])
		after = records[i].Position
	}
	out.NextCursor = filter.Cursor(after)
	return out, nil
}

func toFilter(ctx context.Context, m *gatewayv1.ListUsageRequest) (ledger.Filter, error) {
	f := ledger.Filter{Run: m.GetRunId(), Provider: m.GetProvider(), Model: m.GetModel()}
	from := caller.From(ctx)
	if from.Role != caller.RoleOperator || from.Organization != "" || m.GetOrganizationId() != "" {
		var err error
		if f.Organization, err = from.OrganizationOf(m.GetOrganizationId()); err != nil {
			return f, err
		}
	}
	var err error
	f.Since, f.Until, err = toInterval(m.GetSince(), m.GetUntil())
	return f, err
}

// toInterval returns the zero time for each moment that was not sent.
func toInterval(from, to *timestamppb.Timestamp) (since, until time.Time, err error) {
	if since, err = toMoment("since", from); err != nil {
		return since, until, err
	}
	if until, err = toMoment("until", to); err != nil {
		return since, until, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, apierr.Invalid("until", "must be after since")
	}
	return since, until, nil
}

// toMoment returns the zero time if none was sent.
func toMoment(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil {
		return time.Time{}, apierr.Invalid(field, "must be a time between the years 1 and 9999")
	}
	return t.AsTime(), nil
}

func toRecord(r *ledger.Record) *gatewayv1.UsageRecord {
	record := &gatewayv1.UsageRecord{
		Id: r.ID.String(), RequestId: r.RequestID, OrganizationId: r.Organization, KeyId: toNullable(r.Key), UserId: toNullable(r.User), Tags: r.Tags,
		Service: r.Service, RunId: toNullable(r.Run), Operation: r.Operation, Provider: r.Provider, Model: r.Model,
		Credential: r.Credential, CredentialFingerprint: r.Fingerprint,
		CostCents: r.Cost.Cents(), CostPicoUsd: strconv.FormatInt(int64(r.Cost), 10), PriceVersion: r.PriceVersion,
		UsageState: string(r.State), Estimated: r.Estimated(), Substituted: r.Substituted, CacheHit: r.CacheHit,
		Outcome: string(r.Outcome), StartedAt: timestamppb.New(r.StartedAt), RecordedAt: timestamppb.New(r.RecordedAt),
	}
	for _, b := range provider.Buckets() {
		record.ProtoReflect().Set(bucketFields[b], protoreflect.ValueOfInt32(clamp(*b.Of(&r.Usage))))
	}
	for column, n := range r.ReportedByColumn() {
		if record.ReportedUsage == nil {
			record.ReportedUsage = make(map[string]float64)
		}
		record.ReportedUsage[column] = float64(n)
	}
	return record
}

// bucketFields are the fields of a usage record that hold the buckets.
var bucketFields = func() (fields [provider.BucketCount]protoreflect.FieldDescriptor) {
	record := (&gatewayv1.UsageRecord{}).ProtoReflect().Descriptor().Fields()
	for _, b := range provider.Buckets() {
		fields[b] = record.ByName(protoreflect.Name(b.Column()))
	}
	return fields
}()

// toNullable is null for empty text.
func toNullable(text string) *wrapperspb.StringValue {
	if text == "" {
		return nil
	}
	return wrapperspb.String(text)
}
