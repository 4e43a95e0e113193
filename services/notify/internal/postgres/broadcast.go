package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/send"
)

// maxUserDevices bounds how many devices the accepting transaction adds: the newest ones of a user with more.
const maxUserDevices = 1000

// addDevices stores the recipients of a web push and the row of its history. The channel's row must exist. The
// devices of a user are added at once, those of a broadcast later, page by page (AddPage); a one-off device is an
// ordinary recipient.
func addDevices(ctx context.Context, db *dbsql.Queries, a send.Accepted, audience *channel.Audience) error {
	if err := insertHistory(ctx, db, a, audience); err != nil {
		return err
	}
	switch {
	case audience == nil:
		return nil
	case audience.Broadcast:
		err := db.InsertExpansion(ctx, dbsql.InsertExpansionParams{
			NotificationID: a.ID, OrganizationID: a.Message.Organization, SiteID: audience.Site,
		})
		if err != nil {
			return fmt.Errorf("insert broadcast: %w", err)
		}
		return nil
	}
	_, err := db.AddUserRecipients(ctx, dbsql.AddUserRecipientsParams{
		NotificationID: a.ID, OrganizationID: a.Message.Organization, UserID: audience.User, SiteID: audience.Site, Count: maxUserDevices,
	})
	if err != nil {
		return fmt.Errorf("add devices: %w", err)
	}
	return nil
}

func insertHistory(ctx context.Context, db *dbsql.Queries, a send.Accepted, audience *channel.Audience) error {
	m := a.Message
	params := dbsql.InsertPushHistoryParams{
		NotificationID: a.ID, OrganizationID: m.Organization, SiteID: m.Target.Site,
		Title: m.Subject, Body: m.Text, Url: m.Target.URL,
	}
	if audience != nil {
		params.UserID, params.Broadcast = audience.User, audience.Broadcast
	}
	if len(m.Target.Data) > 0 {
		params.Data = new(string(m.Target.Data))
	}
	if err := db.InsertPushHistory(ctx, params); err != nil {
		return fmt.Errorf("insert push history: %w", err)
	}
	return nil
}

// AddPage adds the next devices, at most size, of a broadcast of which fewer than waiting are queued, and advances
// its position. It reports whether there was one.
func (s *Devices) AddPage(ctx context.Context, size, waiting int) (found bool, err error) {
	var broadcast uuid.UUID
	err = change(ctx, s.pool, "add page of broadcast", func(db *dbsql.Queries) error {
		e, err := db.TakeExpansion(ctx, int32(waiting))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		found, broadcast = true, e.NotificationID
		page, err := db.AddPage(ctx, dbsql.AddPageParams{
			OrganizationID: e.OrganizationID, After: e.AfterSub, Until: e.CreatedAt, Count: int32(size),
			NotificationID: e.NotificationID, SiteID: e.SiteID,
		})
		if err != nil {
			return err
		}
		if err := linkPage(ctx, db, e.NotificationID, page); err != nil {
			return err
		}
		return settlePage(ctx, db, e.NotificationID, page, len(page) < size)
	})
	if found && isRejected(err) {
		err = errors.Join(fmt.Errorf("broadcast %s ends here: %w", broadcast, err), s.endBroadcast(ctx, broadcast))
	}
	return found && err == nil, err
}

// endBroadcast ends a broadcast whose next page cannot be stored: it comes before all others and would block them for
// ever.
func (s *Devices) endBroadcast(ctx context.Context, id uuid.UUID) error {
	return change(ctx, s.pool, "end broadcast", func(db *dbsql.Queries) error {
		if err := errors.Join(db.EndExpansion(ctx, id), db.EndExpanding(ctx, id)); err != nil {
			return fmt.Errorf("end broadcast: %w", err)
		}
		return endChannels(ctx, db, []uuid.UUID{id})
	})
}

// linkPage makes the devices of a page of an update wait for earlier messages that are being sent to them.
func linkPage(ctx context.Context, db *dbsql.Queries, id uuid.UUID, page []dbsql.AddPageRow) error {
	devices := make([]uuid.UUID, len(page))
	for i, row := range page {
		devices[i] = row.SubID
	}
	if err := db.LinkPage(ctx, dbsql.LinkPageParams{ID: id, SubIds: devices}); err != nil {
		return fmt.Errorf("link devices: %w", err)
	}
	return nil
}

// settlePage counts the recipients of a page and advances the broadcast, or ends it.
func settlePage(ctx context.Context, db *dbsql.Queries, id uuid.UUID, page []dbsql.AddPageRow, last bool) error {
	added := int32(0)
	for _, row := range page {
		if row.Added {
			added++
		}
	}
	if err := db.AddTargets(ctx, dbsql.AddTargetsParams{Count: added, NotificationID: id}); err != nil {
		return fmt.Errorf("count devices: %w", err)
	}
	if !last {
		return db.MoveExpansion(ctx, dbsql.MoveExpansionParams{AfterSub: page[len(page)-1].SubID, NotificationID: id})
	}
	if err := errors.Join(db.EndExpansion(ctx, id), db.EndExpanding(ctx, id)); err != nil {
		return fmt.Errorf("end broadcast: %w", err)
	}
	return endChannels(ctx, db, []uuid.UUID{id})
}

// endChannels ends the channels of sends whose recipients have all ended, and closes their push history.
func endChannels(ctx context.Context, db *dbsql.Queries, ids []uuid.UUID) error {
	if err := db.EndChannels(ctx, ids); err != nil {
		return fmt.Errorf("end channels: %w", err)
	}
	if err := db.EndPushHistory(ctx, ids); err != nil {
		return fmt.Errorf("end push history: %w", err)
	}
	return nil
}
