package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/pgdb"
)

// Traces implements trace.Store.
type Traces struct {
	pool *pgxpool.Pool
	q    *dbsql.Queries
	rows traceRows
}

// NewTraces returns the traces of a database.
func NewTraces(pool *pgxpool.Pool) *Traces {
	q := dbsql.New(pool)
	return &Traces{pool, q, traceRows{q}}
}

// segmentColumns are the columns of a trace.Segment.
var segmentColumns = []string{"id", "kind", "organization_id", "first_at", "last_at", "expires_at", "names", "facets", "body"}

// Append implements trace.Store. It stores all segments in one COPY, so a unique violation means that an earlier attempt
// stored the whole batch.
func (t *Traces) Append(ctx context.Context, records []trace.Record) error {
	segments, err := trace.Segments(records)
	if err != nil {
		return fmt.Errorf("%w: %w", trace.ErrRefused, err)
	}
	_, err = t.pool.CopyFrom(ctx, pgx.Identifier{"trace_segment"}, segmentColumns, pgx.CopyFromSlice(len(segments), func(i int) ([]any, error) {
		s := &segments[i]
		return []any{s.ID, s.Kind, s.Organization, s.First, s.Last, s.ExpiresAt, s.Names, s.Facets, s.Body}, nil
	}))
	if of, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pgdb.IsUniqueViolation(of, ""):
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

// List implements trace.Store.
func (t *Traces) List(ctx context.Context, f trace.Filter, now time.Time) ([]trace.Record, error) {
	page := trace.NewPage(f, now)
	records, err := t.rows.list(ctx, &f, now)
	if err != nil {
		return nil, fmt.Errorf("list traces: %w", err)
	}
	page.Add(records)
	if err := t.addSegments(ctx, page, &f, now); err != nil {
		return nil, fmt.Errorf("list traces: %w", err)
	}
	return page.Records(), nil
}

const (
	// fewSegments are read for a page at first, and four times as many each time that they don't fill it, up to
	// manySegments: a busy organization's segment may fill a page, a quiet one's has a record or two.
	fewSegments  = 4
	manySegments = 64
)

// listTime bounds the reading of segments for a page: a filter that few records match reads many.
const listTime = 10 * time.Second

// addSegments adds records to a page, from the newest segments on, until it is complete.
func (t *Traces) addSegments(ctx context.Context, page *trace.Page, f *trace.Filter, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	p := dbsql.ListTraceSegmentsParams{
		OrganizationID: f.Organization, Now: now, Facets: f.Facets(), Since: optionalTime(f.Since), Until: optionalTime(f.End()),
		BeforeAt: now.AddDate(1, 0, 0), PageSize: fewSegments,
	}
	if end := f.End(); !end.IsZero() {
		p.BeforeAt = end.Add(trace.Span)
	}
	for {
		segments, err := t.segments(ctx, p, f.Names())
		if err != nil {
			return err
		}
		for i := range segments {
			s := &segments[i]
			if page.Complete(s.LastAt) {
				return nil
			}
			records, err := trace.Unpack(s.ID, s.Body, s.HasContents, now)
			if err != nil {
				return fmt.Errorf("segment %s: %w", s.ID, err)
			}
			page.Add(records)
		}
		if len(segments) < int(p.PageSize) {
			return nil
		}
		last := &segments[len(segments)-1]
		p.BeforeAt, p.BeforeID, p.PageSize = last.LastAt, last.ID, min(4*p.PageSize, manySegments)
	}
}

// segments returns segments whose records have all names.
func (t *Traces) segments(ctx context.Context, p dbsql.ListTraceSegmentsParams, names []int64) ([]dbsql.ListTraceSegmentsRow, error) {
	if len(names) == 0 {
		return t.q.ListTraceSegments(ctx, p)
	}
	found, err := t.q.FindTraceSegments(ctx, dbsql.FindTraceSegmentsParams{
		Names: names, OrganizationID: p.OrganizationID, Now: p.Now, Facets: p.Facets, Since: p.Since, Until: p.Until,
		BeforeAt: p.BeforeAt, BeforeID: p.BeforeID, PageSize: p.PageSize,
	})
	segments := make([]dbsql.ListTraceSegmentsRow, len(found))
	for i := range found {
		segments[i] = dbsql.ListTraceSegmentsRow(found[i])
	}
	return segments, err
}

// Latest implements trace.Store.
func (t *Traces) Latest(ctx context.Context, organization, request string, limit int, now time.Time) ([]trace.Record, error) {
	found, err := t.rows.latest(ctx, organization, request, limit, now)
	if err != nil {
		return nil, fmt.Errorf("latest traces: %w", err)
	}
	f := trace.Filter{Organization: organization, Request: request, Limit: 1}
	organizations := []string{organization}
	if organization == "" {
		if organizations, err = t.q.TraceOrganizations(ctx, dbsql.TraceOrganizationsParams{Names: f.Names(), Now: now, PageSize: int32(limit)}); err != nil {
			return nil, fmt.Errorf("latest traces: %w", err)
		}
	}
	for _, f.Organization = range organizations {
		page := trace.NewPage(f, now)
		if err := t.addSegments(ctx, page, &f, now); err != nil {
			return nil, fmt.Errorf("latest traces: %w", err)
		}
		found = append(found, page.Records()...)
	}
	return trace.LatestOfEach(found, limit), nil
}

// Sealed implements trace.Store.
func (t *Traces) Sealed(ctx context.Context, records []trace.Record) (map[uuid.UUID][]byte, error) {
	var (
		p           dbsql.TraceSegmentContentsParams
		ids, rowIDs []uuid.UUID
		sealed      = make(map[uuid.UUID][]byte)
	)
	for i := range records {
		switch c := records[i].Content; {
		case c == nil:
		case c.Segment == uuid.Nil:
			rowIDs = append(rowIDs, records[i].ID)
		default:
			ids = append(ids, records[i].ID)
			p.Segments, p.Starts, p.Sizes = append(p.Segments, c.Segment), append(p.Starts, int32(c.Offset)), append(p.Sizes, int32(c.Size))
		}
	}
	if err := t.rows.sealed(ctx, rowIDs, sealed); err != nil {
		return nil, fmt.Errorf("trace contents: %w", err)
	}
	if len(ids) == 0 {
		return sealed, nil
	}
	pieces, err := t.q.TraceSegmentContents(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("trace contents: %w", err)
	}
	for _, piece := range pieces {
		sealed[ids[piece.Number-1]] = piece.Sealed
	}
	return sealed, nil
}

// Drop implements trace.Store.
func (t *Traces) Drop(ctx context.Context, now time.Time, limit int) (int, error) {
	rows, err := t.rows.drop(ctx, now, limit)
	if err != nil {
		return 0, fmt.Errorf("drop traces: %w", err)
	}
	segments, err := t.q.DropTraceSegments(ctx, dbsql.DropTraceSegmentsParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop traces: %w", err)
	}
	return max(rows, int(segments)), nil
}

// Erase implements trace.Store.
func (t *Traces) Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error) {
	rows, err := t.q.EraseTraceContents(ctx, dbsql.EraseTraceContentsParams{OrganizationID: organization, Before: until, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("erase trace contents: %w", err)
	}
	segments, err := t.q.EraseTraceSegments(ctx, dbsql.EraseTraceSegmentsParams{OrganizationID: organization, Until: until, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("erase trace contents: %w", err)
	}
	return int(max(rows, segments)), nil
}
