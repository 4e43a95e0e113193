package postgres

import (
	"context"
	"fmt"

	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
)

var _ upkeep.Store = (*Store)(nil)

// EnsurePartitions implements upkeep.Store.
func (s *Store) EnsurePartitions(ctx context.Context, days int) (int, error) {
	made, err := s.sql.EnsurePartitions(ctx, int32(days))
	return int(made), explain("ensure partitions", err)
}

// ExpireDue implements upkeep.Store.
func (s *Store) ExpireDue(ctx context.Context, limit int) (int, error) {
	var n int
	err := s.inTx(ctx, "expire", func(q *dbsql.Queries) error {
		rows, err := q.TakeExpired(ctx, int32(limit))
		if err != nil {
			return fmt.Errorf("take expired: %w", err)
		}
		n = len(rows)
		if n == 0 {
			return nil
		}
		p := dbsql.ExpireDeliveriesParams{Oldest: rows[0].CreatedAt, Newest: rows[0].CreatedAt}
		for _, r := range rows {
			p.Ids, p.CreatedAts = append(p.Ids, r.DeliveryID), append(p.CreatedAts, r.CreatedAt)
			if r.CreatedAt.Before(p.Oldest) {
				p.Oldest = r.CreatedAt
			}
			if r.CreatedAt.After(p.Newest) {
				p.Newest = r.CreatedAt
			}
		}
		if err := q.ExpireDeliveries(ctx, p); err != nil {
			return fmt.Errorf("expire deliveries: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// PurgeKeys implements upkeep.Store.
func (s *Store) PurgeKeys(ctx context.Context, limit int) (int, error) {
	n, err := s.sql.PurgeKeys(ctx, int32(limit))
	return int(n), explain("purge keys", err)
}
