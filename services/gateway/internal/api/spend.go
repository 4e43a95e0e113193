package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/tag"
)

// spendPage is the default size of a page of spend, exportPage that of the reads of an export.
const spendPage, exportPage = 1000, 5000

// Formats of spend.
const (
	formatJSON  = "json"
	formatCSV   = "csv"
	formatFOCUS = "focus"
)

// mountSpend registers the path of spend, whose exports transcoding can't serve.
func mountSpend(server *rpc.Server, store spend.Store) {
	s := &usageServer{spend: store}
	server.Handle("GET", "/v1/spend", gatewayv1.UsageService_GetSpend_FullMethodName, func(w http.ResponseWriter, r *http.Request) error {
		m := new(gatewayv1.GetSpendRequest)
		if err := server.DecodeQuery(r, m); err != nil {
			return err
		}
		switch format := cmp.Or(m.GetFormat(), acceptedFormat(r.Header.Get("Accept"))); format {
		case formatCSV, formatFOCUS:
			return s.exportSpend(w, r, m, format)
		}
		answer, err := s.GetSpend(r.Context(), m)
		if err != nil {
			return err
		}
		text, err := server.Encode(answer)
		if err != nil {
			return apierr.Internal(err)
		}
		writeText(w, text)
		return nil
	})
}

// acceptedFormat returns the format that an Accept header asks for.
func acceptedFormat(accept string) string {
	for item := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/csv") {
			return formatCSV
		}
	}
	return formatJSON
}

// GetSpend returns a page of the sums.
func (s *usageServer) GetSpend(ctx context.Context, m *gatewayv1.GetSpendRequest) (*gatewayv1.Spend, error) {
	if f := m.GetFormat(); f != "" && f != formatJSON {
		return nil, apierr.Invalid("format", "csv and focus are answered over HTTP only")
	}
	q, err := toSpendQuery(ctx, m, time.Now())
	if err != nil {
		return nil, err
	}
	cursors := spendCursors(&q)
	last, err := cursors.read(m.GetCursor(), 1+len(q.Grouping))
	if err != nil {
		return nil, err
	}
	if m.GetCursor() != "" {
		if q.After.Start, err = time.Parse(time.RFC3339, last[0]); err != nil {
			return nil, apierr.Invalid("cursor", "must be the next_cursor of a page with the same filters")
		}
		q.After.Values = last[1:]
	}
	q.Limit = cmp.Or(int(m.GetLimit()), spendPage)
	report, err := s.spend.Report(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("spend: %w", err)
	}
	out := &gatewayv1.Spend{
		OrganizationId: q.Organization, Interval: string(q.Interval), From: timestamppb.New(q.Since), To: timestamppb.New(q.Until),
		Rows: make([]*gatewayv1.SpendRow, len(report.Rows)), Total: toSums(&report.Total),
	}
	for i := range report.Rows {
		out.Rows[i] = toSpendRow(q.Grouping, &report.Rows[i])
	}
	if n := len(report.Rows); n == q.Limit {
		row := &report.Rows[n-1]
		out.NextCursor = cursors.cursor(append([]string{row.Start.Format(time.RFC3339)}, row.Values...)...)
	}
	return out, nil
}

// spendCursors returns the cursors of a report.
func spendCursors(q *spend.Query) keyset {
	filters := []string{
		"spend", q.Organization, string(q.Interval), q.Since.String(), q.Until.String(), q.Filter.Provider, q.Filter.Model, q.Filter.Key, q.Filter.User,
	}
	for _, d := range q.Grouping {
		filters = append(filters, string(d))
	}
	for _, name := range slices.Sorted(maps.Keys(q.Filter.Tags)) {
		filters = append(filters, name+"="+q.Filter.Tags[name])
	}
	return newKeyset(filters...)
}

// toSpendQuery returns the query of a request without its page.
func toSpendQuery(ctx context.Context, m *gatewayv1.GetSpendRequest, now time.Time) (q spend.Query, err error) {
	if q.Organization, err = organizationOf(ctx, m.GetOrganizationId()); err != nil {
		return q, err
	}
	from, err := toMoment("from", m.GetFrom())
	if err != nil {
		return q, err
	}
	to, err := toMoment("to", m.GetTo())
	if err != nil {
		return q, err
	}
	q.Interval = cmp.Or(spend.Interval(m.GetInterval()), spend.IntervalDay)
	if q.Since, q.Until, err = q.Interval.Window(from, to, now); err != nil {
		return q, err
	}
	if q.Grouping, err = spend.ParseGrouping(m.GetGroupBy()); err != nil {
		return q, err
	}
	q.Filter = spend.Filter{Provider: m.GetProvider(), Model: m.GetModel(), Key: m.GetKeyId(), User: m.GetUserId()}
	q.Filter.Tags, err = toTagFilter(m.GetTag())
	return q, err
}

// toTagFilter returns the tags of texts in the form name=value.
func toTagFilter(texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	tags := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found || !tag.Name(name) || value == "" {
			return nil, apierr.Invalid("tag", "must be name=value")
		}
		if _, twice := tags[name]; twice {
			return nil, apierr.Invalid("tag", "a name appears twice")
		}
		tags[name] = value
	}
	return tags, nil
}

func toSpendRow(g spend.Grouping, r *spend.Row) *gatewayv1.SpendRow {
	row := &gatewayv1.SpendRow{Start: timestamppb.New(r.Start), Groups: make(map[string]string, len(g)), Sums: toSums(&r.Sums)}
	for i, d := range g {
		row.Groups[string(d)] = r.Values[i]
	}
	return row
}

func toSums(s *spend.Sums) *gatewayv1.SpendSums {
	sums := &gatewayv1.SpendSums{Calls: float64(s.Calls), CostCents: s.Cents(), CostPicoUsd: s.Pico.String()}
	for _, b := range provider.Buckets() {
		sums.ProtoReflect().Set(sumFields[b], protoreflect.ValueOfFloat64(float64(*b.Of(&s.Usage))))
	}
	return sums
}

// sumFields are the fields of sums that hold the buckets.
var sumFields = func() (fields [provider.BucketCount]protoreflect.FieldDescriptor) {
	sums := (&gatewayv1.SpendSums{}).ProtoReflect().Descriptor().Fields()
	for _, b := range provider.Buckets() {
		fields[b] = sums.ByName(protoreflect.Name(b.Column()))
	}
	return fields
}()
