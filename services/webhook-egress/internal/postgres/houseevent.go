package postgres

import (
	"context"
	"errors"
	"fmt"

	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ event.HouseStore = (*Store)(nil)

// errRecorded reports that another transaction has recorded the same event.
var errRecorded = errors.New("postgres: the house event is recorded")

// FanOutHouse implements event.HouseStore.
func (s *Store) FanOutHouse(ctx context.Context, e event.Event) (result event.HouseResult, err error) {
	err = s.inTx(ctx, "fan out house event", func(q *dbsql.Queries) error {
		recorded, err := q.HasHouseEvent(ctx, dbsql.HasHouseEventParams{OrganizationID: e.Organization, EventID: e.Record.ID})
		if err != nil {
			return fmt.Errorf("has house event: %w", err)
		}
		if recorded {
			return errRecorded
		}
		if err := q.ShareOrganization(ctx, e.Organization); err != nil {
			return fmt.Errorf("share organization: %w", err)
		}
		fanned, err := fanOut(ctx, q, e)
		if err != nil {
			return err
		}
		result.Deliveries = len(fanned.Deliveries)
		added, err := addHouseEvents(ctx, q, e)
		if err == nil && added == 0 {
			return errRecorded
		}
		return err
	})
	if errors.Is(err, errRecorded) {
		return event.HouseResult{Deduplicated: true}, nil
	}
	return result, err
}

// addHouseEvents records events and returns how many were not recorded before. It takes the last lock of a transaction.
func addHouseEvents(ctx context.Context, q *dbsql.Queries, events ...event.Event) (added int64, err error) {
	var params dbsql.AddHouseEventsParams
	for _, e := range events {
		params.OrganizationIds = append(params.OrganizationIds, e.Organization)
		params.EventIds = append(params.EventIds, e.Record.ID)
		params.OwnerIds = append(params.OwnerIds, e.Concerned)
		params.CloudEvents = append(params.CloudEvents, e.Record.CloudEvent)
	}
	if len(events) == 0 {
		return 0, nil
	}
	if err := q.LockHouseEvents(ctx); err != nil {
		return 0, fmt.Errorf("lock house events: %w", err)
	}
	if added, err = q.AddHouseEvents(ctx, params); err != nil {
		return 0, fmt.Errorf("add house events: %w", err)
	}
	return added, nil
}

// ListHouse implements event.HouseStore.
func (s *Store) ListHouse(ctx context.Context, organization string, after int64, limit int) ([]event.Recorded, error) {
	rows, err := s.listHouse(ctx, organization, after, int32(limit))
	if err != nil {
		return nil, explain("list house events", err)
	}
	recorded := make([]event.Recorded, len(rows))
	for i, r := range rows {
		recorded[i] = event.Recorded{
			Record: event.Record{CloudEvent: r.CloudEvent}, Sequence: r.Sequence, Organization: r.OrganizationID, Owner: r.OwnerID,
			RecordedAt: r.RecordedAt,
		}
	}
	return recorded, nil
}

func (s *Store) listHouse(ctx context.Context, organization string, after int64, limit int32) ([]dbsql.ListHouseEventsRow, error) {
	if organization == "" {
		return s.sql.ListHouseEvents(ctx, dbsql.ListHouseEventsParams{After: after, Page: limit})
	}
	of, err := s.sql.ListHouseEventsOf(ctx, dbsql.ListHouseEventsOfParams{OrganizationID: organization, After: after, Page: limit})
	rows := make([]dbsql.ListHouseEventsRow, len(of))
	for i, r := range of {
		rows[i] = dbsql.ListHouseEventsRow(r)
	}
	return rows, err
}
