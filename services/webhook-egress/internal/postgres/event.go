package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var (
	_ event.Store = (*Store)(nil)
	_ event.Notes = (*Store)(nil)
)

// FanOut implements event.Store.
func (s *Store) FanOut(ctx context.Context, e event.Event) (result event.Result, err error) {
	err = s.inTx(ctx, "fan out", func(q *dbsql.Queries) error {
		if err := q.ShareOrganization(ctx, e.Organization); err != nil {
			return fmt.Errorf("share organization: %w", err)
		}
		if e.Key != "" {
			key, err := s.claimKey(ctx, q, kindEvent, e.Organization, e.Key, e.Fingerprint, e.ID)
			if err != nil {
				return err
			}
			if !key.won {
				result, err = readEvent(ctx, q, key.first, e.Owner)
				result.Deduplicated, result.Mismatch = true, key.mismatch
				return err
			}
		}
		result, err = fanOut(ctx, q, e)
		return err
	})
	return result, err
}

// readEvent returns the part of an earlier event that an owner may see.
func readEvent(ctx context.Context, q *dbsql.Queries, id delivery.ID, owner string) (event.Result, error) {
	result := event.Result{ID: id}
	row, err := q.GetEvent(ctx, dbsql.GetEventParams{ID: uuidOf(id), CreatedAt: id.Time()})
	if errors.Is(err, pgx.ErrNoRows) {
		return result, nil // Its day was dropped.
	}
	if err != nil {
		return result, fmt.Errorf("read event: %w", err)
	}
	result.SkippedPaused = int(row.SkippedPaused)
	fanned, err := q.ListFanned(ctx, dbsql.ListFannedParams{EventID: uuidOf(id), CreatedAt: id.Time(), OwnerID: owner})
	if err != nil {
		return result, fmt.Errorf("list fanned: %w", err)
	}
	result.Deliveries = make([]event.Fanned, len(fanned))
	for i, f := range fanned {
		result.Deliveries[i] = event.Fanned{Delivery: f.DeliveryID.Bytes, Endpoint: f.EndpointID.Bytes}
	}
	return result, nil
}

// fanOut creates an event's deliveries. The caller holds the lock on the organization's endpoints.
func fanOut(ctx context.Context, q *dbsql.Queries, e event.Event) (event.Result, error) {
	result := event.Result{ID: e.ID}
	headers, err := headerText(e.Headers)
	if err != nil {
		return result, err
	}
	_, err = q.LockSubscribers(ctx, dbsql.LockSubscribersParams{
		OrganizationID: e.Organization, OwnerID: e.Owner, Patterns: e.Patterns, ExceptEndpoint: uuidOf(e.Except),
		Own: e.Own, Concerned: e.Concerned,
	})
	if err != nil {
		return result, fmt.Errorf("lock subscribers: %w", err)
	}
	rows, err := q.FanOut(ctx, dbsql.FanOutParams{
		ID: uuidOf(e.ID), CreatedAt: e.ID.Time(), OrganizationID: e.Organization, OwnerID: e.Owner, EventType: e.EventType,
		Patterns: e.Patterns, ExceptEndpoint: uuidOf(e.Except), IdempotencyKey: e.Key, Body: e.Body, Headers: headers,
		Own: e.Own, Concerned: e.Concerned, SealedHeaders: e.Sealed, Traceparent: e.Traceparent, MaxAttempts: int32(e.MaxAttempts), Deadline: orEpoch(e.Deadline),
	})
	if err != nil {
		return result, err
	}
	var advance dbsql.AdvanceFlowsParams
	result.Deliveries = make([]event.Fanned, 0, len(rows))
	for _, r := range rows {
		if !r.Active {
			result.SkippedPaused++
			continue
		}
		result.Deliveries = append(result.Deliveries, event.Fanned{Delivery: r.DeliveryID.Bytes, Endpoint: r.EndpointID.Bytes})
		advance.FlowIds, advance.Delays = append(advance.FlowIds, r.FlowID), append(advance.Delays, time.Duration(0))
	}
	if len(advance.FlowIds) == 0 {
		return result, nil
	}
	if err := q.AdvanceFlows(ctx, advance); err != nil {
		return result, fmt.Errorf("advance flows: %w", err)
	}
	return result, nil
}

// Relay implements event.Notes.
func (s *Store) Relay(ctx context.Context, limit int, made func(event.Operational) (event.Event, error)) (taken, deliveries int, err error) {
	err = s.inTx(ctx, "relay", func(q *dbsql.Queries) error {
		rows, err := q.TakeOperational(ctx, int32(limit))
		if err != nil {
			return fmt.Errorf("take operational: %w", err)
		}
		taken = len(rows)
		var events []event.Event
		for _, r := range rows {
			e, err := made(event.Operational{
				Organization: r.OrganizationID, Type: r.Type, Endpoint: r.EndpointID.Bytes, Delivery: r.DeliveryID.Bytes,
				Owner: r.OwnerID, Occurred: r.OccurredAt,
			})
			if errors.Is(err, event.ErrDropped) {
				continue
			}
			if err != nil {
				return err
			}
			if err := q.ShareOrganization(ctx, e.Organization); err != nil {
				return fmt.Errorf("share organization: %w", err)
			}
			result, err := fanOut(ctx, q, e)
			if err != nil {
				return err
			}
			deliveries += len(result.Deliveries)
			events = append(events, e)
		}
		_, err = addHouseEvents(ctx, q, events...)
		return err
	})
	return taken, deliveries, err
}
