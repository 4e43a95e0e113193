package postgres

import (
	"context"
	"fmt"
	"time"

	"switchyard.dev/services/platform/pgdb"
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
		ids, err := q.ListExpired(ctx, int32(limit))
		if err != nil || len(ids) == 0 {
			return err
		}
		locked, err := orderOf(ctx, q, ids)
		if err != nil {
			return err
		}
		rows, err := q.TakeExpired(ctx, ids)
		if err != nil {
			return fmt.Errorf("take expired: %w", err)
		}
		if n = len(rows); n == 0 {
			return nil
		}
		p := dbsql.ExpireDeliveriesParams{Oldest: rows[0].CreatedAt, Newest: rows[0].CreatedAt}
		taken := make([]dbsql.TakeQueuedRow, n)
		for i, r := range rows {
			taken[i] = dbsql.TakeQueuedRow(r)
			p.Ids, p.CreatedAts = append(p.Ids, r.DeliveryID), append(p.CreatedAts, r.CreatedAt)
			p.LeaseSeqs = append(p.LeaseSeqs, r.LeaseSeq)
			if r.CreatedAt.Before(p.Oldest) {
				p.Oldest = r.CreatedAt
			}
			if r.CreatedAt.After(p.Newest) {
				p.Newest = r.CreatedAt
			}
		}
		if err := expire(ctx, q, p); err != nil {
			return err
		}
		return releaseTaken(ctx, q, taken, locked)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func expire(ctx context.Context, q *dbsql.Queries, p dbsql.ExpireDeliveriesParams) error {
	ended, err := q.ExpireDeliveries(ctx, p)
	if err != nil {
		return fmt.Errorf("expire deliveries: %w", err)
	}
	var dead dbsql.AddDeadLettersParams
	for _, d := range ended {
		dead.Organizations, dead.Ids = append(dead.Organizations, d.OrganizationID), append(dead.Ids, d.ID)
		dead.CreatedAts = append(dead.CreatedAts, d.CreatedAt)
	}
	if err := q.AddDeadLetters(ctx, dead); err != nil {
		return fmt.Errorf("add dead letters: %w", err)
	}
	return nil
}

// dropLockTimeout bounds how long other transactions queue behind a drop that waits for its lock.
const dropLockTimeout = "100ms"

// DropOldestDay implements upkeep.Store.
func (s *Store) DropOldestDay(ctx context.Context, retention time.Duration) (time.Time, error) {
	var day time.Time
	err := s.inTx(ctx, "drop day", func(q *dbsql.Queries) error {
		if err := q.SetLockTimeout(ctx, dropLockTimeout); err != nil {
			return fmt.Errorf("set lock timeout: %w", err)
		}
		dropped, err := q.DropOldestDay(ctx, retention)
		if err == nil && !dropped.Time.Equal(epoch) {
			day = dropped.Time
		}
		return err
	})
	if pgdb.IsLockConflict(err) {
		return time.Time{}, upkeep.ErrBusy
	}
	return day, err
}

// RemoveIdleFlows implements upkeep.Store.
func (s *Store) RemoveIdleFlows(ctx context.Context, idle time.Duration, limit int) (int, error) {
	var found int
	err := s.inTx(ctx, "remove flows", func(q *dbsql.Queries) error {
		flows, err := q.ListIdleFlows(ctx, dbsql.ListIdleFlowsParams{Idle: idle, Page: int32(limit)})
		if err != nil {
			return err
		}
		paths, err := q.ListIdlePathFlows(ctx, dbsql.ListIdlePathFlowsParams{Idle: idle, Page: int32(limit - len(flows))})
		if flows = append(flows, paths...); err != nil || len(flows) == 0 {
			return err
		}
		removed, err := q.RemoveFlows(ctx, flows)
		found = int(removed)
		return err
	})
	return found, err
}

// CloseForgottenTargets implements upkeep.Store.
func (s *Store) CloseForgottenTargets(ctx context.Context, idle time.Duration, limit int) (int, error) {
	n, err := s.sql.CloseForgottenTargets(ctx, dbsql.CloseForgottenTargetsParams{Idle: idle, Page: int32(limit)})
	return int(n), explain("close forgotten targets", err)
}

// PurgeKeys implements upkeep.Store.
func (s *Store) PurgeKeys(ctx context.Context, limit int) (int, error) {
	n, err := s.sql.PurgeKeys(ctx, int32(limit))
	return int(n), explain("purge keys", err)
}

// PurgeHouseEvents implements upkeep.Store.
func (s *Store) PurgeHouseEvents(ctx context.Context, retention time.Duration, limit int) (int, error) {
	n, err := s.sql.PurgeHouseEvents(ctx, dbsql.PurgeHouseEventsParams{Retention: retention, Page: int32(limit)})
	return int(n), explain("purge house events", err)
}
