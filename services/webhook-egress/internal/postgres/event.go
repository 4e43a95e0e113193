package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/filter"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var (
	_ event.Store = (*Store)(nil)
	_ event.Notes = (*Store)(nil)
)

// FanOut implements event.Store.
func (s *Store) FanOut(ctx context.Context, e event.Event) (result event.Result, err error) {
	err = s.transact(ctx, "fan out", countsOf(e.Count), func(q *dbsql.Queries) error {
		if err := q.ShareOrganization(ctx, e.Organization); err != nil {
			return fmt.Errorf("share organization: %w", err)
		}
		if e.Key != "" {
			first, won, err := s.claimKey(ctx, q, use{kindEvent, e.Organization, e.Owner, e.Key, e.Fingerprint, e.ID})
			mismatch := errors.Is(err, delivery.ErrKeyReused)
			if err != nil && !mismatch {
				return err
			}
			if !won {
				result, err = readEvent(ctx, q, first, e.Owner)
				result.Deduplicated, result.Mismatch = true, mismatch
				return err
			}
		}
		if e.Rejected != nil {
			return e.Rejected
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
	result.SkippedPaused, result.SkippedFiltered = int(row.SkippedPaused), int(row.SkippedFiltered)
	fanned, err := q.ListFanned(ctx, dbsql.ListFannedParams{EventID: uuidOf(id), CreatedAt: id.Time(), OwnerID: owner})
	if err != nil {
		return result, fmt.Errorf("list fanned: %w", err)
	}
	result.Deliveries = make([]event.Fanned, len(fanned))
	for i, f := range fanned {
		result.Deliveries[i] = event.Fanned{
			Delivery: f.DeliveryID.Bytes, Endpoint: f.EndpointID.Bytes, FilterError: orZero(f.FilterError),
		}
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
	matched, err := q.MatchEndpoints(ctx, dbsql.MatchEndpointsParams{
		OrganizationID: e.Organization, OwnerID: e.Owner, Patterns: e.Patterns, ExceptEndpoint: uuidOf(e.Except),
		Own: e.Own, Concerned: e.Concerned,
	})
	if err != nil {
		return result, fmt.Errorf("match endpoints: %w", err)
	}
	admitted, verdicts := judge(e, matched, &result)
	p := dbsql.FanOutParams{
		ID: uuidOf(e.ID), CreatedAt: e.ID.Time(), OrganizationID: e.Organization, OwnerID: e.Owner, EventType: e.EventType,
		IdempotencyKey: e.Key, Body: e.Body, Headers: headers, SealedHeaders: e.Sealed, Traceparent: e.Traceparent,
		MaxAttempts: int32(e.MaxAttempts), Deadline: orEpoch(e.Deadline), Matched: int32(len(admitted)),
		SkippedPaused: int32(result.SkippedPaused), SkippedFiltered: int32(result.SkippedFiltered), FilterErrors: verdicts,
		OrderingKey: e.OrderingKey, BlockedUntil: blockedUntil,
	}
	advance, err := fanTo(ctx, q, e, admitted, &p)
	if err != nil {
		return result, err
	}
	if err := q.FanOut(ctx, p); err != nil {
		return result, err
	}
	result.Deliveries = make([]event.Fanned, len(admitted))
	for i, id := range p.DeliveryIds {
		result.Deliveries[i] = event.Fanned{Delivery: id.Bytes, Endpoint: admitted[i].ID.Bytes, FilterError: verdicts[i]}
	}
	if len(advance.FlowIds) == 0 {
		return result, nil
	}
	if err := q.AdvanceFlows(ctx, advance); err != nil {
		return result, fmt.Errorf("advance flows: %w", err)
	}
	return result, nil
}

// judge returns the endpoints that receive an event, with the error of each one's filter, and counts the others.
func judge(e event.Event, matched []dbsql.MatchEndpointsRow, result *event.Result) (admitted []dbsql.MatchEndpointsRow, filterErrors []string) {
	for _, m := range matched {
		verdict := filter.Matched
		if m.Filter != "" {
			verdict = e.Judge.Evaluate(m.Filter)
		}
		switch {
		case verdict == filter.Unmatched:
			result.SkippedFiltered++
		case !m.Active:
			result.SkippedPaused++
		default:
			admitted, filterErrors = append(admitted, m), append(filterErrors, string(verdict))
		}
	}
	return admitted, filterErrors
}

// fanTo locks the flows of endpoints and adds a delivery for each to p. It returns the flows that the deliveries make
// due.
func fanTo(
	ctx context.Context, q *dbsql.Queries, e event.Event, to []dbsql.MatchEndpointsRow, p *dbsql.FanOutParams,
) (advance dbsql.AdvanceFlowsParams, err error) {
	if len(to) == 0 {
		return advance, nil
	}
	added := make(map[orderKey]int64)
	for _, m := range to {
		p.DeliveryIds, p.EndpointIds = append(p.DeliveryIds, uuidOf(e.ID.Sibling())), append(p.EndpointIds, m.ID)
		p.Owners, p.FlowIds = append(p.Owners, orZero(m.OwnerID)), append(p.FlowIds, m.FlowID)
		p.Urls, p.SigningModes = append(p.Urls, m.Url), append(p.SigningModes, m.SigningMode)
		p.Moves = append(p.Moves, m.Moves)
		if e.OrderingKey != "" {
			added[orderKey{m.FlowID, e.OrderingKey}] = 1
		}
	}
	if err := q.KeepFlowsAwake(ctx, p.FlowIds); err != nil {
		return advance, fmt.Errorf("lock flows: %w", err)
	}
	places, err := joinOrder(ctx, q, added)
	if err != nil {
		return advance, err
	}
	for _, flow := range p.FlowIds {
		position, blocked := places.place(orderKey{flow, e.OrderingKey})
		p.Positions = append(p.Positions, position)
		if !blocked {
			advance.FlowIds, advance.Delays = append(advance.FlowIds, flow), append(advance.Delays, 0)
		}
	}
	return advance, nil
}

// Relay implements event.Notes.
func (s *Store) Relay(ctx context.Context, limit int, made func(event.Operational) (event.Event, error)) (taken, deliveries int, err error) {
	err = s.inTx(ctx, "relay", func(q *dbsql.Queries) error {
		notes, err := takeNotes(ctx, q, limit)
		if err != nil {
			return err
		}
		taken = len(notes)
		var events []event.Event
		for _, note := range notes {
			e, err := made(note)
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

// takeNotes removes at most limit notes, those of endpoints and deliveries first.
func takeNotes(ctx context.Context, q *dbsql.Queries, limit int) ([]event.Operational, error) {
	rows, err := q.TakeOperational(ctx, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("take operational: %w", err)
	}
	notes := make([]event.Operational, len(rows), limit)
	for i, r := range rows {
		notes[i] = event.Operational{
			Organization: r.OrganizationID, Type: r.Type, Endpoint: r.EndpointID.Bytes, Delivery: r.DeliveryID.Bytes,
			Owner: r.OwnerID, Occurred: r.OccurredAt,
		}
	}
	if len(notes) == limit {
		return notes, nil
	}
	targets, err := q.TakeTargetEvents(ctx, int32(limit-len(notes)))
	if err != nil {
		return nil, fmt.Errorf("take target events: %w", err)
	}
	for _, t := range targets {
		notes = append(notes, event.Operational{
			Organization: t.OrganizationID, Type: t.Type, Occurred: t.OccurredAt,
			Target: event.Target{Host: t.Host, Port: int(t.Port), Opened: t.OpenedAt},
		})
	}
	return notes, nil
}
