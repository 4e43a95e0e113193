package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/houseevent"
)

var _ houseevent.Outbox = (*HouseEvents)(nil)

// HouseEvents implements houseevent.Outbox.
type HouseEvents struct{ pool *pgxpool.Pool }

// NewHouseEvents returns the outbox of the pool's database.
func NewHouseEvents(pool *pgxpool.Pool) *HouseEvents { return &HouseEvents{pool} }

// Take implements houseevent.Outbox.
func (h *HouseEvents) Take(ctx context.Context, limit int, lease time.Duration) ([]houseevent.Event, error) {
	rows, err := dbsql.New(h.pool).TakeHouseEvents(ctx, dbsql.TakeHouseEventsParams{Count: int32(limit), LeaseSeconds: lease.Seconds()})
	if err != nil {
		return nil, fmt.Errorf("take house events: %w", err)
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
	if err := dbsql.New(h.pool).MarkHouseEventsSent(ctx, ids); err != nil {
		return fmt.Errorf("mark house events sent: %w", err)
	}
	return nil
}

// Postpone implements houseevent.Outbox.
func (h *HouseEvents) Postpone(ctx context.Context, delays map[string]time.Duration) error {
	var params dbsql.PostponeHouseEventsParams
	for id, delay := range delays {
		params.EventIds, params.Seconds = append(params.EventIds, id), append(params.Seconds, delay.Seconds())
	}
	if err := dbsql.New(h.pool).PostponeHouseEvents(ctx, params); err != nil {
		return fmt.Errorf("postpone house events: %w", err)
	}
	return nil
}

// GiveUp implements houseevent.Outbox.
func (h *HouseEvents) GiveUp(ctx context.Context, age time.Duration) (int, error) {
	n, err := dbsql.New(h.pool).GiveUpHouseEvents(ctx, age.Seconds())
	if err != nil {
		return 0, fmt.Errorf("give up house events: %w", err)
	}
	return int(n), nil
}

// Purge implements houseevent.Outbox.
func (h *HouseEvents) Purge(ctx context.Context, limit int) (int, error) {
	n, err := dbsql.New(h.pool).PurgeHouseEvents(ctx, int32(limit))
	if err != nil {
		return 0, fmt.Errorf("purge house events: %w", err)
	}
	return int(n), nil
}

// Waiting returns how many events are not sent, and the age of the oldest.
func (h *HouseEvents) Waiting(ctx context.Context) (events int64, oldest time.Duration, err error) {
	row, err := dbsql.New(h.pool).HouseEventsWaiting(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("house events waiting: %w", err)
	}
	return row.Waiting, time.Duration(row.Oldest * float64(time.Second)), nil
}
