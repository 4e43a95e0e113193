package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// Get implements delivery.Store.
func (s *Store) Get(ctx context.Context, organization, owner string, id delivery.ID, withBody bool) (delivery.Record, error) {
	row, err := s.sql.GetDelivery(ctx, dbsql.GetDeliveryParams{
		ID: uuidOf(id), CreatedAt: id.Time(), OrganizationID: organization, OwnerID: owner,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return delivery.Record{}, apierr.NotFound("delivery")
	}
	if err != nil {
		return delivery.Record{}, explain("read delivery", err)
	}
	record := recordOf(row)
	if withBody {
		if record.Body, err = s.sql.GetBody(ctx, dbsql.GetBodyParams{ID: uuidOf(id), CreatedAt: id.Time()}); err != nil {
			return delivery.Record{}, explain("read body", err)
		}
	}
	return record, nil
}

func recordOf(row dbsql.GetDeliveryRow) delivery.Record {
	record := delivery.Record{
		ID: row.ID.Bytes, Organization: row.OrganizationID, Owner: orZero(row.OwnerID),
		EndpointID: optional(row.EndpointID), EventID: optional(row.EventID), URL: row.Url, EventType: row.EventType,
		SigningMode: row.SigningMode, Key: orZero(row.IdempotencyKey), Status: statusOf(row.Status, row.Leased),
		Generation: int(row.Generation), Attempts: int(row.Attempts), MaxAttempts: int(row.MaxAttempts),
		LastResponseCode: int(orZero(row.LastResponseCode)), LastError: orZero(row.LastError),
		Deadline: orZero(row.DeadlineAt), Updated: row.UpdatedAt, Finished: orZero(row.FinishedAt),
	}
	if !row.NextAttemptAt.Equal(epoch) {
		record.NextAttempt = row.NextAttemptAt
	}
	if row.ParkedReason != "" {
		record.LastError = row.ParkedReason
	}
	return record
}

// Attempts implements delivery.Store. The position is the lease's number, which
// grows over the life of a delivery.
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
