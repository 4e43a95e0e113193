package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// Get implements delivery.Store.
func (s *Store) Get(ctx context.Context, organization, owner string, id delivery.ID, withBody bool) (delivery.Record, error) {
	filter, err := recordParams(delivery.Filter{Organization: organization, Owner: owner})
	if err != nil {
		return delivery.Record{}, err
	}
	records, err := readRecords(ctx, s.sql, filter, []pgtype.UUID{uuidOf(id)}, 1)
	if err != nil {
		return delivery.Record{}, explain("read delivery", err)
	}
	if len(records) == 0 {
		return delivery.Record{}, apierr.NotFound("delivery")
	}
	record := records[0]
	if withBody {
		if record.Body, err = s.sql.GetBody(ctx, dbsql.GetBodyParams{ID: uuidOf(id), CreatedAt: id.Time()}); err != nil {
			return delivery.Record{}, explain("read body", err)
		}
	}
	return record, nil
}

// recordParams returns the query parameters of a filter.
func recordParams(f delivery.Filter) (p dbsql.ReadRecordsParams, err error) {
	p = dbsql.ReadRecordsParams{
		OrganizationID: f.Organization, EveryOrganization: f.Every, OwnerID: f.Owner, EventType: f.EventType, HostPattern: delivery.HostPattern(f.Host),
		Statuses: make([]string, len(f.Statuses)), BlockedUntil: blockedUntil,
	}
	for i, status := range f.Statuses {
		p.Statuses[i] = string(status)
	}
	if p.EndpointID, err = uuidOrNull(f.EndpointID); err == nil {
		p.EventID, err = uuidOrNull(f.EventID)
	}
	return p, err
}

// readRecords returns the deliveries among ids that match p, newest first.
func readRecords(ctx context.Context, q *dbsql.Queries, p dbsql.ReadRecordsParams, ids []pgtype.UUID, limit int) ([]delivery.Record, error) {
	p.Ids, p.CreatedAts, p.Page = ids, timesOf(ids), int32(limit)
	rows, err := q.ReadRecords(ctx, p)
	if err != nil {
		return nil, err
	}
	records := make([]delivery.Record, len(rows))
	for i := range rows {
		records[i] = recordOf(&rows[i])
	}
	return records, nil
}

// timesOf returns the creation times in the ids.
func timesOf(ids []pgtype.UUID) []time.Time {
	times := make([]time.Time, len(ids))
	for i, id := range ids {
		times[i] = delivery.ID(id.Bytes).Time()
	}
	return times
}

func recordOf(row *dbsql.ReadRecordsRow) delivery.Record {
	record := delivery.Record{
		ID: row.ID.Bytes, Organization: row.OrganizationID, Owner: orZero(row.OwnerID),
		EndpointID: optional(row.EndpointID), EventID: optional(row.EventID), URL: row.Url, EventType: row.EventType,
		SigningMode: row.SigningMode, Key: orZero(row.IdempotencyKey), Status: statusOf(row.Status, row.Leased),
		Generation: int(row.Generation), Attempts: int(row.Attempts), MaxAttempts: int(row.MaxAttempts),
		LastResponseCode: int(orZero(row.LastResponseCode)), LastError: orZero(row.LastError),
		Deadline: orZero(row.DeadlineAt), Updated: row.UpdatedAt, Finished: orZero(row.FinishedAt),
		OrderingKey: orZero(row.OrderingKey), FilterError: orZero(row.FilterError),
	}
	if !row.NextAttemptAt.Equal(epoch) {
		record.NextAttempt = row.NextAttemptAt
	}
	switch {
	case row.Blocked:
		record.LastError = string(delivery.FaultOrderingKey)
	case row.ParkedReason != "":
		record.LastError = row.ParkedReason
	}
	return record
}

const (
	// listWindow is how many deliveries are filtered at a time, listWindows how many such windows one page examines.
	listWindow, listWindows = 500, 20
)

// List implements delivery.Store.
func (s *Store) List(ctx context.Context, f delivery.Filter, before delivery.ID, limit int) ([]delivery.Record, delivery.ID, error) {
	filter, err := recordParams(f)
	if err != nil {
		return nil, delivery.ID{}, err
	}
	if end := f.CreatedTo; !end.IsZero() {
		before = lower(before, delivery.FirstID(end))
	}
	var page []delivery.Record
	window := max(limit+1, listWindow)
	if filter.OwnerID == "" && filter.EventType == "" && filter.HostPattern == "" && len(filter.Statuses) == 0 {
		window = limit + 1
	}
	for range listWindows {
		ids, err := s.newest(ctx, f, filter, before, window)
		if err != nil {
			return nil, delivery.ID{}, explain("look for deliveries", err)
		}
		if len(ids) == 0 {
			return page, delivery.ID{}, nil
		}
		found, err := readRecords(ctx, s.sql, filter, ids, limit-len(page))
		if err != nil {
			return nil, delivery.ID{}, explain("read deliveries", err)
		}
		page = append(page, found...)
		last := delivery.ID(ids[len(ids)-1].Bytes)
		switch {
		case len(page) == limit && (page[limit-1].ID != last || len(ids) == window):
			return page, page[limit-1].ID, nil
		case len(ids) < window:
			return page, delivery.ID{}, nil
		}
		before = last
	}
	return page, before, nil
}

// newest returns the next deliveries to filter, through the most selective index that the filter allows.
func (s *Store) newest(
	ctx context.Context, f delivery.Filter, by dbsql.ReadRecordsParams, before delivery.ID, window int,
) ([]pgtype.UUID, error) {
	first := delivery.ID{}
	if !f.CreatedFrom.IsZero() {
		first = delivery.FirstID(f.CreatedFrom)
	}
	p := dbsql.NewestOfOrganizationParams{
		OrganizationID: f.Organization, First: uuidOf(first), Before: uuidOf(before),
		FromTime: first.Time(), ToTime: before.Time().Add(time.Millisecond), Page: int32(window),
	}
	all := dbsql.NewestOfAllParams{First: p.First, Before: p.Before, FromTime: p.FromTime, ToTime: p.ToTime, Page: p.Page}
	switch {
	case by.EventID.Valid:
		return s.sql.NewestOfEvent(ctx, dbsql.NewestOfEventParams{
			EventID: by.EventID, First: p.First, Before: p.Before, FromTime: p.FromTime, ToTime: p.ToTime, Page: p.Page,
		})
	case by.EndpointID.Valid:
		return s.sql.NewestOfEndpoint(ctx, dbsql.NewestOfEndpointParams{
			EndpointID: by.EndpointID, First: p.First, Before: p.Before, FromTime: p.FromTime, ToTime: p.ToTime, Page: p.Page,
		})
	case f.Every && onlyDead(f.Statuses):
		return s.sql.NewestDeadLettersOfAll(ctx, dbsql.NewestDeadLettersOfAllParams(all))
	case f.Every:
		return s.sql.NewestOfAll(ctx, all)
	case onlyDead(f.Statuses):
		return s.sql.NewestDeadLetters(ctx, dbsql.NewestDeadLettersParams(p))
	}
	return s.sql.NewestOfOrganization(ctx, p)
}

// onlyDead reports whether all deliveries with one of the statuses are dead letters.
func onlyDead(statuses []delivery.Status) bool {
	for _, s := range statuses {
		if s != delivery.StatusFailed && s != delivery.StatusExpired {
			return false
		}
	}
	return len(statuses) > 0
}

func lower(a, b delivery.ID) delivery.ID {
	if string(b[:]) < string(a[:]) {
		return b
	}
	return a
}

// Attempts implements delivery.Store. The position is the lease's number, which increases over the life of a
// delivery.
func (s *Store) Attempts(ctx context.Context, id delivery.ID, after int64, limit int) ([]delivery.Attempt, int64, error) {
	rows, err := s.sql.ListAttempts(ctx, dbsql.ListAttemptsParams{
		ID: uuidOf(id), CreatedAt: id.Time(), After: after, Page: int32(limit) + 1,
	})
	if err != nil {
		return nil, 0, explain("list attempts", err)
	}
	var next int64
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].LeaseSeq
	}
	page := make([]delivery.Attempt, len(rows))
	for i, r := range rows {
		page[i] = delivery.Attempt{
			Generation: int(r.Generation), Number: int(r.Number), Outcome: delivery.Outcome(r.Outcome), URL: r.Url,
			RemoteIP: orZero(r.RemoteIp), ResponseCode: int(orZero(r.ResponseCode)), ResponseBody: r.ResponseBody,
			Truncated: r.ResponseTruncated, Error: delivery.Fault(orZero(r.Error)), RetryAfter: orZero(r.RetryAfter),
			Started: r.StartedAt, Next: orZero(r.NextAttemptAt),
			Timing: delivery.Timing{
				DNS: fromMs(r.DnsMs), Connect: fromMs(r.ConnectMs), TLS: fromMs(r.TlsMs),
				FirstByte: fromMs(r.FirstByteMs), Total: fromMs(r.TotalMs),
			},
		}
	}
	return page, next, nil
}

func fromMs(ms float32) time.Duration { return time.Duration(float64(ms) * float64(time.Millisecond)) }
