package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
)

// blockedUntil is the due time of a delivery behind another one with its ordering key; see migration 00011.
var blockedUntil = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)

// orderKey is an ordering key of a flow.
type orderKey struct {
	flow int64
	key  string
}

// order gives the positions of deliveries that are added to ordering keys.
type order map[orderKey]int64

// joinOrder reserves positions for numbers of deliveries, and locks their keys. No key, no statement.
func joinOrder(ctx context.Context, q *dbsql.Queries, added map[orderKey]int64) (order, error) {
	if len(added) == 0 {
		return nil, nil //nolint:nilnil // No positions are no error.
	}
	var p dbsql.JoinOrderParams
	for k, n := range added {
		p.FlowIds, p.Keys, p.Added = append(p.FlowIds, k.flow), append(p.Keys, k.key), append(p.Added, n)
	}
	rows, err := q.JoinOrder(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("join order: %w", err)
	}
	next := make(order, len(rows))
	for _, r := range rows {
		k := orderKey{r.FlowID, r.Key}
		next[k] = r.LastPosition - added[k] + 1
	}
	return next, nil
}

// place returns the next position of a key, 0 for no key. The delivery is blocked unless it is the first: the row of a
// key is removed with its last delivery, so that positions begin again.
func (o order) place(k orderKey) (position int64, blocked bool) {
	if k.key == "" {
		return 0, false
	}
	position = o[k]
	o[k]++
	return position, position > 1
}

// orderOf returns the ordering keys of queued deliveries, and locks them and their flows. They have to be locked before
// the rows of the queue.
func orderOf(ctx context.Context, q *dbsql.Queries, ids []pgtype.UUID) (map[orderKey]bool, error) {
	rows, err := q.ReadOrder(ctx, ids)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	locked := make(map[orderKey]bool, len(rows))
	for _, r := range rows {
		locked[orderKey{r.FlowID, r.Key}] = true
	}
	return locked, lockOrder(ctx, q, locked)
}

func lockOrder(ctx context.Context, q *dbsql.Queries, keys map[orderKey]bool) error {
	var flows []int64
	var p dbsql.LockOrderParams
	for k := range keys {
		flows = append(flows, k.flow)
		p.FlowIds, p.Keys = append(p.FlowIds, k.flow), append(p.Keys, k.key)
	}
	if err := q.KeepFlowsAwake(ctx, flows); err != nil {
		return fmt.Errorf("lock flows: %w", err)
	}
	if err := q.LockOrder(ctx, p); err != nil {
		return fmt.Errorf("lock order: %w", err)
	}
	return nil
}

// releaseTaken releases the successors of rows that were removed from the queue.
func releaseTaken(ctx context.Context, q *dbsql.Queries, rows []dbsql.TakeQueuedRow, locked map[orderKey]bool) error {
	var p dbsql.ReleaseOrderParams
	for _, r := range rows {
		if r.OrderingKey == nil || r.DueAt.Equal(blockedUntil) {
			continue // It has no successor, or another one is before both.
		}
		k := orderKey{r.FlowID, *r.OrderingKey}
		if !locked[k] {
			return fmt.Errorf("%w: delivery %s was queued again", delivery.ErrConflict, delivery.ID(r.DeliveryID.Bytes))
		}
		p.FlowIds, p.Keys, p.Positions = append(p.FlowIds, k.flow), append(p.Keys, k.key), append(p.Positions, *r.Position)
	}
	released, err := releaseOrder(ctx, q, p)
	if err != nil || len(released) == 0 {
		return err
	}
	advance := dbsql.AdvanceFlowsParams{FlowIds: released, Delays: make([]time.Duration, len(released))}
	if err := q.AdvanceFlows(ctx, advance); err != nil {
		return fmt.Errorf("advance flows: %w", err)
	}
	return nil
}

// releaseNext releases the deliveries behind those that end.
func (w *settlement) releaseNext(ctx context.Context, q *dbsql.Queries) error {
	released, err := releaseOrder(ctx, q, w.ordered)
	w.advance.FlowIds = append(w.advance.FlowIds, released...)
	w.advance.Delays = append(w.advance.Delays, make([]time.Duration, len(released))...)
	return err
}

// releaseOrder releases the next deliveries of locked keys and returns their flows.
func releaseOrder(ctx context.Context, q *dbsql.Queries, p dbsql.ReleaseOrderParams) ([]int64, error) {
	if len(p.Keys) == 0 {
		return nil, nil
	}
	p.BlockedUntil = blockedUntil
	released, err := q.ReleaseOrder(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("release order: %w", err)
	}
	return released, nil
}

// ReleaseStranded implements upkeep.Store.
func (s *Store) ReleaseStranded(ctx context.Context, after upkeep.OrderCursor, limit int) (next upkeep.OrderCursor, released int, err error) {
	keys, err := s.sql.ListOrder(ctx, dbsql.ListOrderParams{
		AfterFlow: after.Flow, AfterKey: after.Key, Page: int32(limit), BlockedUntil: blockedUntil,
	})
	if err != nil {
		return next, 0, explain("list order", err)
	}
	if len(keys) == limit {
		next = upkeep.OrderCursor{Flow: keys[limit-1].FlowID, Key: keys[limit-1].Key}
	}
	stranded := make(map[orderKey]bool)
	for _, k := range keys {
		if k.Stranded {
			stranded[orderKey{k.FlowID, k.Key}] = true
		}
	}
	if len(stranded) == 0 {
		return next, 0, nil
	}
	err = s.inTx(ctx, "release stranded", func(q *dbsql.Queries) error {
		if err := lockOrder(ctx, q, stranded); err != nil {
			return err
		}
		var p dbsql.ReleaseOrderParams
		for k := range stranded {
			p.FlowIds, p.Keys, p.Positions = append(p.FlowIds, k.flow), append(p.Keys, k.key), append(p.Positions, 0)
		}
		flows, err := releaseOrder(ctx, q, p)
		if released = len(flows); err != nil || released == 0 {
			return err
		}
		return q.AdvanceFlows(ctx, dbsql.AdvanceFlowsParams{FlowIds: flows, Delays: make([]time.Duration, released)})
	})
	return next, released, err
}
