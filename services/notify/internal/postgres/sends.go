package postgres

import (
	"context"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/send"
)

const (
	// listWindow is how many notifications are filtered at a time, listWindows how many such windows one page examines.
	listWindow, listWindows = 500, 20
)

// List returns the notifications that q selects, newest first and without attempts, and the place below which the next
// page begins; the zero Position on the last page. It examines a bounded number of notifications, so a page may be
// shorter than its limit. It does not read recipients: a channel that has not ended has no DueAt, and is never sending.
func (s *Outbox) List(ctx context.Context, q send.ListQuery) (page []send.Log, next send.Position, err error) {
	err = read(ctx, s.pool, "list sends", func(db *dbsql.Queries) error {
		if page, next, err = search(ctx, db, q); err != nil {
			return err
		}
		return addHeads(ctx, db, page)
	})
	return page, next, err
}

// search finds the notifications of a page with their channels.
func search(ctx context.Context, db *dbsql.Queries, q send.ListQuery) (page []send.Log, next send.Position, err error) {
	window := max(q.Limit+1, listWindow)
	if q.All() {
		window = q.Limit + 1
	}
	before := q.Begin()
	for range listWindows {
		places, err := newest(ctx, db, q, before, window)
		if err != nil || len(places) == 0 {
			return page, send.Position{}, err
		}
		channels, err := channelsOf(ctx, db, places)
		if err != nil {
			return nil, send.Position{}, err
		}
		for i, place := range places {
			if !q.Matches(channels[place.ID]) {
				continue
			}
			page = append(page, send.Log{ID: place.ID, CreatedAt: place.At, Channels: channels[place.ID]})
			if len(page) < q.Limit {
				continue
			}
			if i == len(places)-1 && len(places) < window {
				place = send.Position{}
			}
			return page, place, nil
		}
		if len(places) < window {
			return page, send.Position{}, nil
		}
		before = places[len(places)-1]
	}
	return page, before, nil
}

// newest returns the next notifications to examine, those with failures alone if the query selects no others.
func newest(ctx context.Context, db *dbsql.Queries, q send.ListQuery, before send.Position, window int) (found []send.Position, err error) {
	of := dbsql.NewestSendsOfOrganizationParams{
		OrganizationID: q.Organization, FromTime: q.From, BeforeTime: before.At, BeforeID: before.ID, Count: int32(window),
	}
	all := dbsql.NewestSendsParams{FromTime: of.FromTime, BeforeTime: of.BeforeTime, BeforeID: of.BeforeID, Count: of.Count}
	switch {
	case q.Every && q.OnlyFailures():
		rows, err := db.NewestFailures(ctx, dbsql.NewestFailuresParams(all))
		return positions(rows), err
	case q.Every:
		rows, err := db.NewestSends(ctx, all)
		return positions(rows), err
	case q.OnlyFailures():
		rows, err := db.NewestFailuresOfOrganization(ctx, dbsql.NewestFailuresOfOrganizationParams(of))
		return positions(rows), err
	}
	rows, err := db.NewestSendsOfOrganization(ctx, of)
	return positions(rows), err
}

// found is a row of the Newest queries.
type found interface {
	dbsql.NewestSendsRow | dbsql.NewestSendsOfOrganizationRow | dbsql.NewestFailuresRow | dbsql.NewestFailuresOfOrganizationRow
}

func positions[R found](rows []R) []send.Position {
	places := make([]send.Position, len(rows))
	for i, r := range rows {
		row := dbsql.NewestSendsRow(r)
		places[i] = send.Position{At: row.CreatedAt, ID: row.ID}
	}
	return places
}

// channelsOf returns the channels of notifications, by id.
func channelsOf(ctx context.Context, db *dbsql.Queries, places []send.Position) (map[uuid.UUID][]send.ChannelLog, error) {
	ids := make([]uuid.UUID, len(places))
	for i, place := range places {
		ids[i] = place.ID
	}
	rows, err := db.ChannelSends(ctx, ids)
	if err != nil {
		return nil, err
	}
	channels := make(map[uuid.UUID][]send.ChannelLog, len(places))
	for _, row := range rows {
		channels[row.NotificationID] = append(channels[row.NotificationID], channelLog(row))
	}
	return channels, nil
}

// addHeads reads whose the notifications are, and when they changed last.
func addHeads(ctx context.Context, db *dbsql.Queries, page []send.Log) error {
	ids := make([]uuid.UUID, len(page))
	places := make(map[uuid.UUID]int, len(page))
	for i, log := range page {
		ids[i], places[log.ID] = log.ID, i
	}
	rows, err := db.Notifications(ctx, ids)
	if err != nil {
		return err
	}
	for _, row := range rows {
		log := &page[places[row.ID]]
		log.Organization, log.UpdatedAt, log.Of = row.OrganizationID, row.UpdatedAt, row.UpdatesID
	}
	return nil
}
