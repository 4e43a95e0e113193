package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/send"
)

// Kept implements send.Updates.
func (s *Outbox) Kept(ctx context.Context, organization string, id uuid.UUID) (kept send.Kept, err error) {
	err = read(ctx, s.pool, "read target of send", func(db *dbsql.Queries) error {
		kept.Sealed, err = db.Kept(ctx, dbsql.KeptParams{ID: id, OrganizationID: organization})
		if errors.Is(err, pgx.ErrNoRows) {
			return send.ErrNotFound
		}
		if err != nil {
			return err
		}
		channels, err := db.ChannelSends(ctx, []uuid.UUID{id})
		for _, c := range channels {
			kept.Channels = append(kept.Channels, channel.Name(c.Channel))
		}
		return err
	})
	return kept, err
}

// Update implements send.Updates. It locks the notification first, which brings its updates in order, then the updates,
// so that no result of them is settled meanwhile.
func (s *Outbox) Update(ctx context.Context, a send.Accepted) (receipt send.Receipt, err error) {
	receipt.ID = a.ID
	err = changeCounted(ctx, s.pool, "store update", a.Count, func(db *dbsql.Queries) error {
		earlier, err := lockUpdated(ctx, db, a.Message)
		if err != nil {
			return err
		}
		receipt.Number = len(earlier)
		err = db.InsertUpdate(ctx, dbsql.InsertUpdateParams{
			ID: a.ID, OrganizationID: a.Message.Organization, UpdatesID: a.Message.Updates, UpdateNumber: int32(receipt.Number),
		})
		if err != nil {
			return fmt.Errorf("insert update: %w", err)
		}
		claimed, err := claimKey(ctx, db, a)
		if err != nil {
			return err
		}
		if !claimed {
			return errKeyTaken
		}
		if receipt.Number > send.MaxUpdates {
			return send.ErrTooManyUpdates
		}
		if err := supersede(ctx, db, earlier); err != nil {
			return err
		}
		receipt.Changed, err = storeUpdate(ctx, db, a, earlier)
		return err
	})
	if errors.Is(err, errKeyTaken) {
		return s.replay(ctx, a)
	}
	return receipt, err
}

// lockUpdated locks the notification that an update is for and its updates. It returns all of them, oldest first.
func lockUpdated(ctx context.Context, db *dbsql.Queries, m channel.Message) ([]uuid.UUID, error) {
	found, err := db.LockUpdated(ctx, dbsql.LockUpdatedParams{ID: m.Updates, OrganizationID: m.Organization})
	if err != nil {
		return nil, fmt.Errorf("lock send: %w", err)
	}
	if found == 0 {
		return nil, send.ErrNotFound
	}
	updates, err := db.LockUpdates(ctx, m.Updates)
	if err != nil {
		return nil, fmt.Errorf("lock updates: %w", err)
	}
	return append([]uuid.UUID{m.Updates}, updates...), nil
}

// supersede ends what waits to be sent of earlier messages.
func supersede(ctx context.Context, db *dbsql.Queries, earlier []uuid.UUID) error {
	if err := db.SupersedeExpansions(ctx, earlier); err != nil {
		return fmt.Errorf("supersede broadcasts: %w", err)
	}
	if err := db.SupersedeWaiting(ctx, earlier); err != nil {
		return fmt.Errorf("supersede recipients: %w", err)
	}
	if err := endChannels(ctx, db, earlier); err != nil {
		return err
	}
	if err := db.TouchNotifications(ctx, earlier); err != nil {
		return fmt.Errorf("touch sends: %w", err)
	}
	return nil
}

// storeUpdate stores the work of each channel of an update. It returns the inbox that it has changed.
func storeUpdate(ctx context.Context, db *dbsql.Queries, a send.Accepted, earlier []uuid.UUID) (changed *inbox.Address, err error) {
	for i, work := range a.Works {
		if work.Channel != channel.InApp {
			err = queue(ctx, db, a, i, work)
		} else if changed, err = changeRecord(ctx, db, a, i, work); err != nil {
			err = fmt.Errorf("change record: %w", err)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := db.LinkRecipients(ctx, dbsql.LinkRecipientsParams{ID: a.ID, Earlier: earlier}); err != nil {
		return nil, fmt.Errorf("link recipients: %w", err)
	}
	err = db.DoubtRecipients(ctx, dbsql.DoubtRecipientsParams{ID: a.ID, Earlier: earlier, First: a.Message.Updates})
	if err != nil {
		return nil, fmt.Errorf("mark doubt: %w", err)
	}
	return changed, nil
}

// changeRecord changes the in-app record of the notification; read or unread, it stays so. It returns the record's inbox;
// nil if the record is gone.
func changeRecord(ctx context.Context, db *dbsql.Queries, a send.Accepted, position int, work channel.Work) (*inbox.Address, error) {
	id, err := recordOf(ctx, db, a.Message.Updates)
	if err != nil {
		return nil, err
	}
	at, _, err := lockInboxOf(ctx, db, inbox.Target{ID: id, Organization: a.Message.Organization})
	var rows int64
	if err == nil {
		rows, err = db.ChangeRecord(ctx, dbsql.ChangeRecordParams{
			ID: id, Subject: work.Record.Subject, Message: work.Record.Message, Actions: actionsColumn(work.Record.Actions),
		})
	}
	switch {
	case err == nil && rows == 0, errors.Is(err, inbox.ErrNotFound):
		return nil, db.InsertGone(ctx, dbsql.InsertGoneParams{NotificationID: a.ID, Position: int16(position)})
	case err != nil:
		return nil, err
	}
	if _, err := countOut(ctx, db, at, 0, inbox.EventUpdated, &id); err != nil {
		return nil, err
	}
	return &at, db.InsertDelivered(ctx, dbsql.InsertDeliveredParams{
		NotificationID: a.ID, Channel: string(channel.InApp), Position: int16(position), Replaced: true, ActionsShown: int16(work.ActionsShown),
	})
}

// recordOf returns the id of the in-app record that a notification has stored.
func recordOf(ctx context.Context, db *dbsql.Queries, notification uuid.UUID) (uuid.UUID, error) {
	reference, err := db.RecordOfSend(ctx, notification)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.Parse(orEmpty(reference))
	if err != nil { // The release before kept none.
		return uuid.Nil, send.ErrNotUpdatable
	}
	return id, nil
}
