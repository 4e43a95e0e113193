package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// Kinds of idempotency keys other than those of deliveries, which have no kind.
const kindEvent, kindResend, kindReplay = "event", "resend", "replay"

// use is a request's use of an idempotency key: by an owner, for the event, delivery or replay with an id.
type use struct {
	kind, organization, owner, key string
	fingerprint                    [32]byte
	id                             delivery.ID
}

// claimKey claims a key and returns the id of its first use. won reports whether u is the first use. If the first use
// was for another request, claimKey returns its id together with delivery.ErrKeyReused.
func (s *Store) claimKey(ctx context.Context, q *dbsql.Queries, u use) (first delivery.ID, won bool, err error) {
	hash := hashKey(u.kind, u.owner, u.key)
	ids, err := q.ClaimKeys(ctx, dbsql.ClaimKeysParams{
		Lifetime: s.keyLifetime, Organizations: []string{u.organization}, KeyHashes: [][]byte{hash[:]},
		Fingerprints: [][]byte{u.fingerprint[:]}, DeliveryIds: []pgtype.UUID{uuidOf(u.id)},
	})
	if err != nil {
		return first, false, fmt.Errorf("claim key: %w", err)
	}
	if len(ids) == 1 {
		return u.id, true, nil
	}
	rows, err := q.ReadKeys(ctx, dbsql.ReadKeysParams{Organizations: []string{u.organization}, KeyHashes: [][]byte{hash[:]}})
	switch {
	case err != nil:
		return first, false, fmt.Errorf("read key: %w", err)
	case len(rows) != 1:
		return first, false, errors.New("read key: the key was removed between two statements")
	case [32]byte(rows[0].Fingerprint) != u.fingerprint:
		return rows[0].DeliveryID.Bytes, false, delivery.ErrKeyReused
	}
	return rows[0].DeliveryID.Bytes, false, nil
}

// Resend implements delivery.Store.
func (s *Store) Resend(ctx context.Context, r delivery.Resend) (resent delivery.Resent, err error) {
	err = s.inTx(ctx, "resend", func(q *dbsql.Queries) error {
		if r.Key != "" {
			_, won, err := s.claimKey(ctx, q, use{kindResend, r.Organization, r.Owner, r.Key, r.Fingerprint, r.ID})
			if err != nil || !won {
				resent.Deduplicated = err == nil
				return err
			}
		}
		done, err := requeue(ctx, q, r.Organization, []pgtype.UUID{uuidOf(r.ID)}, r.MaxAttempts, r.Deadline)
		switch {
		case err != nil:
			return err
		case done.deleted > 0:
			return apierr.New(apierr.KindConflict, delivery.ReasonEndpointDeleted, "the endpoint of the delivery was deleted")
		case done.count == 0:
			return apierr.New(apierr.KindConflict, delivery.ReasonInFlight, "the delivery has not ended yet")
		}
		return nil
	})
	return resent, err
}

// requeued counts deliveries that were to be resent: count of them are queued again; deleted of them are not, because
// their endpoint was deleted. The rest has not ended.
type requeued struct{ count, deleted int }

// requeue starts a new series of attempts of the deliveries that have ended.
func requeue(
	ctx context.Context, q *dbsql.Queries, organization string, ids []pgtype.UUID, maxAttempts int, deadline time.Time,
) (requeued, error) {
	var done requeued
	flows, err := flowsOf(ctx, q, ids)
	if err != nil {
		return done, err
	}
	ended, err := q.LockEnded(ctx, dbsql.LockEndedParams{Ids: ids, CreatedAts: timesOf(ids)})
	if err != nil {
		return done, fmt.Errorf("lock ended: %w", err)
	}
	ended = slices.DeleteFunc(ended, func(d dbsql.LockEndedRow) bool {
		if d.EndpointDeleted {
			done.deleted++
		}
		return d.EndpointDeleted
	})
	added := make(map[orderKey]int64)
	for _, d := range ended {
		if d.OrderingKey != nil {
			added[orderKey{flows[d.ID].id, *d.OrderingKey}]++
		}
	}
	places, err := joinOrder(ctx, q, added)
	if err != nil {
		return done, err
	}
	p := dbsql.RequeueParams{
		OrganizationID: organization, MaxAttempts: int32(maxAttempts), Deadline: orEpoch(deadline), BlockedUntil: blockedUntil,
	}
	var advance dbsql.AdvanceFlowsParams
	for _, d := range ended {
		flow, key := flows[d.ID], orZero(d.OrderingKey)
		position, blocked := places.place(orderKey{flow.id, key})
		p.Ids, p.CreatedAts = append(p.Ids, d.ID), append(p.CreatedAts, d.CreatedAt)
		p.FlowIds, p.Paths = append(p.FlowIds, flow.id), append(p.Paths, flow.shared)
		p.LeaseSeqs, p.BodyBytes = append(p.LeaseSeqs, d.LeaseSeq), append(p.BodyBytes, d.BodyBytes)
		p.OrderingKeys, p.Positions = append(p.OrderingKeys, key), append(p.Positions, position)
		if !blocked {
			advance.FlowIds, advance.Delays = append(advance.FlowIds, flow.id), append(advance.Delays, 0)
		}
	}
	if done.count = len(p.Ids); done.count == 0 {
		return done, nil
	}
	p.Oldest, p.Newest = slices.MinFunc(p.CreatedAts, time.Time.Compare), slices.MaxFunc(p.CreatedAts, time.Time.Compare)
	if err := q.Requeue(ctx, p); err != nil {
		return done, fmt.Errorf("requeue: %w", err)
	}
	if len(advance.FlowIds) == 0 {
		return done, nil
	}
	if err := q.AdvanceFlows(ctx, advance); err != nil {
		return done, fmt.Errorf("advance flows: %w", err)
	}
	return done, nil
}

// flowOf is the flow of a delivery.
type flowOf struct {
	id int64
	// shared is the delivery's URL if several paths share the flow, else empty.
	shared string
}

// flowsOf finds or creates the flows of deliveries and keeps them awake.
func flowsOf(ctx context.Context, q *dbsql.Queries, ids []pgtype.UUID) (map[pgtype.UUID]flowOf, error) {
	rows, err := q.ReadFlowsOf(ctx, dbsql.ReadFlowsOfParams{Ids: ids, CreatedAts: timesOf(ids)})
	if err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	flows, awake := make(map[pgtype.UUID]flowOf, len(rows)), make(map[int64]bool)
	direct, wanted := make(map[delivery.Target][]dbsql.ReadFlowsOfRow), make(map[delivery.Target]bool)
	for _, r := range rows {
		if !r.Direct {
			flows[r.ID], awake[r.FlowID] = flowOf{id: r.FlowID}, true
			continue
		}
		target, err := targetOf(r.OrganizationID, r.Url)
		if err != nil {
			return nil, err
		}
		if r.OrderingKey != nil {
			target = target.Ordered()
		}
		direct[target], wanted[target] = append(direct[target], r), true
	}
	if len(awake) > 0 {
		if err := q.KeepFlowsAwake(ctx, slices.Collect(maps.Keys(awake))); err != nil {
			return nil, fmt.Errorf("lock flows: %w", err)
		}
	}
	if len(wanted) > 0 {
		found, err := lockFlows(ctx, q, wanted)
		if err != nil {
			return nil, err
		}
		for target, rows := range direct {
			for _, r := range rows {
				flows[r.ID] = flowOf{id: found[target].ID}
				if found[target].ManyPaths || r.OrderingKey != nil {
					flows[r.ID] = flowOf{found[target].ID, r.Url}
				}
			}
		}
	}
	return flows, nil
}

// targetOf returns the target of a stored URL.
func targetOf(organization, text string) (delivery.Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return delivery.Target{}, errors.New("a stored URL cannot be read") // The parser's error would quote the URL.
	}
	return delivery.TargetOf(organization, u), nil
}

// Cancel implements delivery.Store.
func (s *Store) Cancel(ctx context.Context, id delivery.ID) (cancelled bool, err error) {
	err = s.inTx(ctx, "cancel", func(q *dbsql.Queries) error {
		locked, err := orderOf(ctx, q, []pgtype.UUID{uuidOf(id)})
		if err != nil {
			return err
		}
		rows, err := q.TakeQueued(ctx, uuidOf(id))
		if err != nil {
			return fmt.Errorf("take queued: %w", err)
		}
		if cancelled = len(rows) > 0; !cancelled {
			return nil
		}
		if err := cancel(ctx, q, rows); err != nil {
			return err
		}
		return releaseTaken(ctx, q, rows, locked)
	})
	return cancelled, err
}

// cancel ends deliveries whose queue rows were removed.
func cancel(ctx context.Context, q *dbsql.Queries, rows []dbsql.TakeQueuedRow) error {
	p := dbsql.CancelDeliveriesParams{Oldest: rows[0].CreatedAt, Newest: rows[0].CreatedAt}
	for _, r := range rows {
		p.Ids, p.CreatedAts = append(p.Ids, r.DeliveryID), append(p.CreatedAts, r.CreatedAt)
		p.LeaseSeqs = append(p.LeaseSeqs, r.LeaseSeq)
		if r.CreatedAt.Before(p.Oldest) {
			p.Oldest = r.CreatedAt
		}
		if r.CreatedAt.After(p.Newest) {
			p.Newest = r.CreatedAt
		}
	}
	if err := q.CancelDeliveries(ctx, p); err != nil {
		return fmt.Errorf("cancel deliveries: %w", err)
	}
	return nil
}
