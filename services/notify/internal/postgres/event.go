package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres/dbsql"
)

// Place returns the position of an inbox.
func (s *Inboxes) Place(ctx context.Context, at inbox.Address) (inbox.Place, error) {
	row, err := dbsql.New(s.pool).Place(ctx, dbsql.PlaceParams{OrganizationID: at.Organization, UserID: at.User})
	if errors.Is(err, pgx.ErrNoRows) {
		return inbox.Place{}, nil
	}
	return inbox.Place{Seq: row.Version, Unread: int(row.Unread)}, failure("read place of inbox", err)
}

// Events returns the changes of an inbox after a position, in order.
func (s *Inboxes) Events(ctx context.Context, at inbox.Address, after int64, limit int) ([]inbox.Event, error) {
	db := dbsql.New(s.pool)
	rows, err := db.Events(ctx, dbsql.EventsParams{OrganizationID: at.Organization, UserID: at.User, After: after, Count: int32(limit)})
	if err != nil || len(rows) == 0 {
		return nil, failure("read events", err)
	}
	var ids []uuid.UUID
	for _, row := range rows {
		if row.RecordID != nil && inbox.EventKind(row.Event) != inbox.EventDeleted {
			ids = append(ids, *row.RecordID)
		}
	}
	records, err := recordsOf(ctx, db, ids)
	if err != nil {
		return nil, failure("read records of events", err)
	}
	events := make([]inbox.Event, len(rows))
	for i, row := range rows {
		events[i] = event(row, records)
	}
	return events, nil
}

func recordsOf(ctx context.Context, db *dbsql.Queries, ids []uuid.UUID) (map[uuid.UUID]inbox.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := db.RecordsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	records := make(map[uuid.UUID]inbox.Record, len(rows))
	for _, row := range rows {
		records[row.ID] = record(row)
	}
	return records, nil
}

// event returns the event of a row with the record as it was after the change: a record never becomes unread again,
// and it was unread when it was created.
func event(row dbsql.EventsRow, records map[uuid.UUID]inbox.Record) inbox.Event {
	e := inbox.Event{Seq: row.Seq, Kind: inbox.EventKind(row.Event), Unread: int(row.Unread), At: row.OccurredAt}
	if row.RecordID == nil {
		return e
	}
	e.RecordID = *row.RecordID
	if e.Kind == inbox.EventDeleted {
		return e
	}
	if r, there := records[e.RecordID]; there {
		if e.Kind == inbox.EventCreated {
			r.ReadAt = nil
		}
		e.Record = &r
	}
	return e
}

// Changed returns the inboxes whose position differs from the known one.
func (s *Inboxes) Changed(ctx context.Context, known map[inbox.Address]int64) (map[inbox.Address]int64, error) {
	var params dbsql.VersionsParams
	for at, seq := range known {
		params.Organizations = append(params.Organizations, at.Organization)
		params.Users = append(params.Users, at.User)
		params.Versions = append(params.Versions, seq)
	}
	rows, err := dbsql.New(s.pool).Versions(ctx, params)
	if err != nil {
		return nil, failure("look for changed inboxes", err)
	}
	changed := make(map[inbox.Address]int64, len(rows))
	for _, row := range rows {
		changed[inbox.Address{Organization: row.OrganizationID, User: row.UserID}] = row.Version
	}
	return changed, nil
}
