package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Epochs implements cache.Epochs.
type Epochs struct{ pool *pgxpool.Pool }

// NewEpochs returns the epochs of a database.
func NewEpochs(pool *pgxpool.Pool) *Epochs { return &Epochs{pool: pool} }

// Epoch returns an organization's epoch: 0 if it was never purged.
func (e *Epochs) Epoch(ctx context.Context, organization string) (int64, error) {
	epoch, err := dbsql.New(e.pool).CacheEpoch(ctx, organization)
	if err != nil {
		return 0, fmt.Errorf("read cache epoch: %w", err)
	}
	return epoch, nil
}

// Bump begins the organization's next epoch.
func (e *Epochs) Bump(ctx context.Context, organization string) (int64, time.Time, error) {
	row, err := dbsql.New(e.pool).BumpCacheEpoch(ctx, organization)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("bump cache epoch: %w", err)
	}
	return row.Epoch, row.PurgedAt, nil
}
