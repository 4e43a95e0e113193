package postgres

import (
	"context"
	"fmt"
	"time"

	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
	"switchyard.dev/services/webhook-egress/internal/replica"
)

var _ replica.Store = (*Store)(nil)

// takeoverDelays are how long a row waits after its replica has ended, by how often in a row that has happened; the
// last one repeats.
var takeoverDelays = []time.Duration{
	0, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// Join implements replica.Store.
func (s *Store) Join(ctx context.Context, name string) (int64, error) {
	id, err := s.sql.JoinReplicas(ctx, name)
	return id, explain("join replicas", err)
}

// Heartbeat implements replica.Store.
func (s *Store) Heartbeat(ctx context.Context, id int64) (bool, error) {
	n, err := s.sql.RecordHeartbeat(ctx, id)
	return n > 0, explain("heartbeat", err)
}

// RemoveSilent implements replica.Store.
func (s *Store) RemoveSilent(ctx context.Context, self int64, silence time.Duration) (int, error) {
	var freed int
	err := s.inTx(ctx, "remove silent replicas", func(q *dbsql.Queries) (err error) {
		if _, err = q.RemoveSilentReplicas(ctx, dbsql.RemoveSilentReplicasParams{Silence: silence, Self: self}); err != nil {
			return fmt.Errorf("remove silent replicas: %w", err)
		}
		freed, err = freeOrphans(ctx, q)
		return err
	})
	return freed, err
}

// Leave implements replica.Store.
func (s *Store) Leave(ctx context.Context, id int64) error {
	return s.inTx(ctx, "leave", func(q *dbsql.Queries) error {
		if err := q.LeaveReplicas(ctx, id); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		_, err := freeOrphans(ctx, q)
		return err
	})
}

// freeOrphans makes the rows due whose replica is no longer registered.
func freeOrphans(ctx context.Context, q *dbsql.Queries) (int, error) {
	flows, err := q.ListOrphanFlows(ctx)
	if err != nil {
		return 0, fmt.Errorf("list orphans: %w", err)
	}
	if len(flows) == 0 {
		return 0, nil
	}
	if err := q.KeepFlowsAwake(ctx, flows); err != nil {
		return 0, fmt.Errorf("lock flows: %w", err)
	}
	freed, err := q.FreeOrphans(ctx, dbsql.FreeOrphansParams{FlowIds: flows, Delays: takeoverDelays})
	if err != nil {
		return 0, fmt.Errorf("free orphans: %w", err)
	}
	at := dbsql.AdvanceFlowsParams{FlowIds: flows, Delays: make([]time.Duration, len(flows))}
	if err := q.AdvanceFlows(ctx, at); err != nil {
		return 0, fmt.Errorf("advance flows: %w", err)
	}
	return int(freed), nil
}
