package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/postgres/dbsql"
)

// Upkeep deletes data past its retention.
type Upkeep struct{ pool *pgxpool.Pool }

// NewUpkeep returns the upkeep of a database.
func NewUpkeep(pool *pgxpool.Pool) *Upkeep { return &Upkeep{pool} }

// DeleteKeys deletes at most `most` idempotency keys older than age, and returns how many.
func (u *Upkeep) DeleteKeys(ctx context.Context, age time.Duration, most int) (int, error) {
	n, err := dbsql.New(u.pool).DeleteOldKeys(ctx, dbsql.DeleteOldKeysParams{Age: age, Count: int32(most)})
	return int(n), failure("delete old keys", err)
}

// DeleteLogs deletes the logs of ended sends older than age, likewise.
func (u *Upkeep) DeleteLogs(ctx context.Context, age time.Duration, most int) (int, error) {
	n, err := dbsql.New(u.pool).DeleteOldLogs(ctx, dbsql.DeleteOldLogsParams{Age: age, Count: int32(most)})
	return int(n), failure("delete old logs", err)
}

// DeleteEvents deletes changes of inboxes older than age, likewise.
func (u *Upkeep) DeleteEvents(ctx context.Context, age time.Duration, most int) (int, error) {
	n, err := dbsql.New(u.pool).DeleteOldEvents(ctx, dbsql.DeleteOldEventsParams{Age: age, Count: int32(most)})
	return int(n), failure("delete old inbox events", err)
}

// DeletePushHistory deletes push history older than age, likewise.
func (u *Upkeep) DeletePushHistory(ctx context.Context, age time.Duration, most int) (int, error) {
	n, err := dbsql.New(u.pool).DeleteOldPushHistory(ctx, dbsql.DeleteOldPushHistoryParams{Age: age, Count: int32(most)})
	return int(n), failure("delete old push history", err)
}
