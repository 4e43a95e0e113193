package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/platform/houseevent"
)

var (
	_ houseevent.Outbox   = (*HouseEvents)(nil)
	_ push.RejectionStore = (*HouseEvents)(nil)
)

// HouseEvents is the outbox of the events that operators are told of.
type HouseEvents struct{ pool *pgxpool.Pool }

// NewHouseEvents returns the outbox of a database.
func NewHouseEvents(pool *pgxpool.Pool) *HouseEvents { return &HouseEvents{pool} }

// Reject implements push.RejectionStore.
func (h *HouseEvents) Reject(ctx context.Context, rejected []push.Rejection) error {
	var p dbsql.AddRejectedKeysParams
	for _, r := range rejected {
		p.PushServices, p.KeyIds = append(p.PushServices, r.Service), append(p.KeyIds, r.KeyID)
		p.Statuses = append(p.Statuses, int32(r.Status))
	}
	return failure("add rejected keys", dbsql.New(h.pool).AddRejectedKeys(ctx, p))
}

// Take implements houseevent.Outbox.
func (h *HouseEvents) Take(ctx context.Context, limit int, lease time.Duration) ([]houseevent.Event, error) {
	rows, err := dbsql.New(h.pool).TakeHouseEvents(ctx, dbsql.TakeHouseEventsParams{Count: int32(limit), Lease: lease})
	if err != nil {
		return nil, failure("take house events", err)
	}
	events := make([]houseevent.Event, len(rows))
	for i, r := range rows {
		events[i] = houseevent.Event{
			ID: r.EventID, Organization: r.OrganizationID, Type: r.Type, Subject: r.Subject, OccurredAt: r.OccurredAt, Data: r.Data,
			Attempts: int(r.Attempts),
		}
	}
	return events, nil
}

// Sent implements houseevent.Outbox.
func (h *HouseEvents) Sent(ctx context.Context, ids []string) error {
	return failure("mark house events sent", dbsql.New(h.pool).MarkHouseEventsSent(ctx, ids))
}

// Postpone implements houseevent.Outbox.
func (h *HouseEvents) Postpone(ctx context.Context, delays map[string]time.Duration) error {
	var p dbsql.PostponeHouseEventsParams
	for id, delay := range delays {
		p.EventIds, p.Delays = append(p.EventIds, id), append(p.Delays, delay)
	}
	return failure("postpone house events", dbsql.New(h.pool).PostponeHouseEvents(ctx, p))
}

// GiveUp implements houseevent.Outbox.
func (h *HouseEvents) GiveUp(ctx context.Context, age time.Duration) (int, error) {
	n, err := dbsql.New(h.pool).GiveUpHouseEvents(ctx, age)
	return int(n), failure("give up house events", err)
}

// Purge implements houseevent.Outbox.
func (h *HouseEvents) Purge(ctx context.Context, limit int) (int, error) {
	n, err := dbsql.New(h.pool).PurgeHouseEvents(ctx, int32(limit))
	return int(n), failure("purge house events", err)
}

// Waiting returns how many events are not sent, and the age of the oldest.
func (h *HouseEvents) Waiting(ctx context.Context) (events int64, oldest time.Duration, err error) {
	row, err := dbsql.New(h.pool).HouseEventsWaiting(ctx)
	return row.Waiting, time.Duration(row.Oldest * float64(time.Second)), failure("house events waiting", err)
}
