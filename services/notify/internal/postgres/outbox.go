package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/send"
)

// Outbox stores accepted notifications and their delivery logs.
type Outbox struct{ pool *pgxpool.Pool }

// NewOutbox returns the outbox of a database.
func NewOutbox(pool *pgxpool.Pool) *Outbox { return &Outbox{pool: pool} }

// Accept commits a notification, its idempotency key and the work of its channels in one transaction. It locks the
// key first, then the inbox.
func (s *Outbox) Accept(ctx context.Context, a send.Accepted) (receipt send.Receipt, err error) {
	err = changeCounted(ctx, s.pool, "store notification", a.Count, func(db *dbsql.Queries) error {
		err := db.InsertNotification(ctx, dbsql.InsertNotificationParams{
			ID: a.ID, OrganizationID: a.Message.Organization, Target: a.Kept,
		})
		if err != nil {
			return fmt.Errorf("insert notification: %w", err)
		}
		claimed, err := claimKey(ctx, db, a)
		if err != nil {
			return err
		}
		if !claimed {
			return errKeyTaken
		}
		return store(ctx, db, a)
	})
	if errors.Is(err, errKeyTaken) {
		return s.replay(ctx, a)
	}
	return send.Receipt{ID: a.ID}, err
}

// store stores the work of each channel. That of in_app is done with the commit, the others' is queued.
func store(ctx context.Context, db *dbsql.Queries, a send.Accepted) error {
	for i, work := range a.Works {
		var err error
		if work.Channel == channel.InApp {
			err = deliver(ctx, db, a.ID, i, work)
		} else {
			err = queue(ctx, db, a, i, work)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queue stores a channel's work and its recipients.
func queue(ctx context.Context, db *dbsql.Queries, a send.Accepted, position int, work channel.Work) error {
	err := db.InsertChannel(ctx, dbsql.InsertChannelParams{
		NotificationID: a.ID, Channel: string(work.Channel), Position: int16(position),
		Work: work.Body, Lifetime: a.Lifetime, Truncated: work.Truncated,
		Expanding: work.Audience != nil && work.Audience.Broadcast, ActionsShown: int16(work.ActionsShown),
	})
	if err != nil {
		return fmt.Errorf("insert channel: %w", err)
	}
	if work.Channel == channel.WebPush {
		if err := addDevices(ctx, db, a, work.Audience); err != nil {
			return err
		}
	}
	if work.Audience != nil {
		return endChannels(ctx, db, []uuid.UUID{a.ID}) // The user may have no devices.
	}
	recipient := dbsql.InsertRecipientParams{NotificationID: a.ID, Channel: string(work.Channel), Destination: work.Destination}
	if work.Lane != "" {
		recipient.Lane = &work.Lane
	}
	if err := db.InsertRecipient(ctx, recipient); err != nil {
		return fmt.Errorf("insert recipient: %w", err)
	}
	return nil
}

// errKeyTaken rolls back a notification whose key was used before.
var errKeyTaken = errors.New("idempotency key taken")

// claimKey claims the idempotency key, if there is one. It waits for another transaction that is claiming it.
func claimKey(ctx context.Context, db *dbsql.Queries, a send.Accepted) (bool, error) {
	if a.IdempotencyKey == "" {
		return true, nil
	}
	rows, err := db.ClaimIdempotencyKey(ctx, dbsql.ClaimIdempotencyKeyParams{
		OrganizationID: a.Message.Organization, Key: a.IdempotencyKey,
		Fingerprint: a.Fingerprint[:], NotificationID: a.ID,
	})
	if err != nil {
		return false, fmt.Errorf("claim idempotency key: %w", err)
	}
	return rows > 0, nil
}

// replay returns the receipt of the request that used the key first. It adds the count of the repeat, whose own
// transaction was rolled back.
func (s *Outbox) replay(ctx context.Context, a send.Accepted) (send.Receipt, error) {
	first, err := dbsql.New(s.pool).IdempotencyKey(ctx, dbsql.IdempotencyKeyParams{
		OrganizationID: a.Message.Organization, Key: a.IdempotencyKey,
	})
	switch {
	case err != nil:
		return send.Receipt{}, failure("read idempotency key", err)
	case !bytes.Equal(first.Fingerprint, a.Fingerprint[:]):
		return send.Receipt{}, send.ErrKeyReused
	}
	receipt := send.Receipt{ID: first.NotificationID, Replayed: true}
	row, err := dbsql.New(s.pool).UpdateNumber(ctx, receipt.ID)
	if err != nil {
		return send.Receipt{}, failure("read update", err)
	}
	if row.UpdateNumber != nil {
		receipt.Number = int(*row.UpdateNumber)
	}
	return receipt, failure("count repeat", addCount(ctx, s.pool, a.Count))
}

// deliver stores an in-app record, counts it, and logs the channel as delivered.
func deliver(ctx context.Context, db *dbsql.Queries, notification uuid.UUID, position int, work channel.Work) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make id: %w", err)
	}
	err = db.InsertDelivered(ctx, dbsql.InsertDeliveredParams{
		NotificationID: notification, Channel: string(work.Channel), Position: int16(position),
		Reference: new(id.String()), ActionsShown: int16(work.ActionsShown),
	})
	if err != nil {
		return fmt.Errorf("insert channel: %w", err)
	}
	at := work.Record.Inbox
	seq, err := db.CountNew(ctx, dbsql.CountNewParams{OrganizationID: at.Organization, UserID: at.User})
	if err != nil {
		return fmt.Errorf("count record: %w", err)
	}
	return insertRecord(ctx, db, id, notification, seq, work.Record)
}

func insertRecord(ctx context.Context, db *dbsql.Queries, id, notification uuid.UUID, seq int64, draft inbox.Draft) error {
	params := dbsql.InsertRecordParams{
		ID: id, OrganizationID: draft.Inbox.Organization, UserID: draft.Inbox.User, Seq: seq, NotificationID: notification,
		Subject: draft.Subject, Message: draft.Message, Url: draft.URL,
		Actions: actionsColumn(draft.Actions),
	}
	if len(draft.Data) > 0 {
		params.Data = new(string(draft.Data))
	}
	if err := db.InsertRecord(ctx, params); err != nil {
		return fmt.Errorf("insert record: %w", err)
	}
	return nil
}

// Log returns the log of a notification. It returns send.ErrNotFound if the organization has none with that id.
func (s *Outbox) Log(ctx context.Context, q send.LogQuery) (log send.Log, err error) {
	err = read(ctx, s.pool, "read send", func(db *dbsql.Queries) error {
		row, err := db.Notification(ctx, dbsql.NotificationParams{ID: q.ID, OrganizationID: q.Organization})
		if errors.Is(err, pgx.ErrNoRows) {
			return send.ErrNotFound
		}
		if err != nil {
			return err
		}
		log = send.Log{ID: row.ID, Organization: row.OrganizationID, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, Of: row.UpdatesID}
		channels, err := db.ChannelSends(ctx, []uuid.UUID{q.ID})
		if err != nil {
			return err
		}
		for _, c := range channels {
			log.Channels = append(log.Channels, channelLog(c))
		}
		open, err := db.OpenRecipients(ctx, q.ID)
		if err != nil {
			return err
		}
		for _, r := range open {
			setState(log.Channels, r)
		}
		attempts, err := db.Attempts(ctx, dbsql.AttemptsParams{NotificationID: q.ID, After: q.After, Count: int32(q.Limit + 1)})
		if err != nil {
			return err
		}
		if log.More = len(attempts) > q.Limit; log.More {
			attempts = attempts[:q.Limit]
		}
		for _, a := range attempts {
			log.Attempts = append(log.Attempts, attempt(a))
		}
		log.Updates, err = updatesOf(ctx, db, q.ID)
		return err
	})
	return log, err
}

// updatesOf returns the logs of the updates of a notification, in order.
func updatesOf(ctx context.Context, db *dbsql.Queries, id uuid.UUID) ([]send.UpdateLog, error) {
	rows, err := db.UpdatesOf(ctx, id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	places := make([]send.Position, len(rows))
	for i, row := range rows {
		places[i].ID = row.ID
	}
	channels, err := channelsOf(ctx, db, places)
	if err != nil {
		return nil, err
	}
	updates := make([]send.UpdateLog, len(rows))
	for i, row := range rows {
		updates[i] = send.UpdateLog{Number: int(*row.UpdateNumber), Log: send.Log{
			ID: row.ID, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, Channels: channels[row.ID],
		}}
	}
	return updates, nil
}

// isSuperseded reports whether a channel ended without a recipient because of a newer update.
func isSuperseded(row dbsql.ChannelSendsRow) bool {
	return send.State(row.Status) == send.StateFailed && orEmpty(row.LastError) == string(channel.ClassSuperseded) &&
		row.SupersededCount == row.FailedCount
}

func channelLog(row dbsql.ChannelSendsRow) send.ChannelLog {
	if isSuperseded(row) {
		row.Status = string(send.StateSuperseded)
	}
	return send.ChannelLog{
		Channel: channel.Name(row.Channel), State: send.State(row.Status), Outcome: row.Outcome,
		Attempts: int(row.Attempts), LastError: row.LastError,
		Targeted: int(row.TargetedCount), Delivered: int(row.DeliveredCount),
		Failed: int(row.FailedCount - row.SupersededCount), Removed: int(row.RemovedCount), Superseded: int(row.SupersededCount),
		ActionsShown: int(row.ActionsShown), Replaced: row.Replaced,
		Truncated: row.Truncated, PossiblyDuplicated: row.PossiblyDuplicated, DeliveryID: row.DeliveryID, FinishedAt: row.FinishedAt,
	}
}

// setState sets the state of a channel from its recipients that have not ended.
func setState(channels []send.ChannelLog, open dbsql.OpenRecipientsRow) {
	for i := range channels {
		if channels[i].Channel == channel.Name(open.Channel) {
			channels[i].DueAt = &open.DueAt
			if open.Sending {
				channels[i].State = send.StateSending
			}
		}
	}
}

func attempt(row dbsql.AttemptsRow) send.Attempt {
	return send.Attempt{
		Seq: row.ID, Channel: channel.Name(row.Channel), Subscription: row.SubID, Number: int(row.Number),
		Outcome: row.Outcome, Code: row.ResponseCode, Error: row.Error, Detail: row.Detail, RetryAfter: row.RetryAfterSeconds,
		StartedAt: row.StartedAt, Milliseconds: row.DurationMs,
	}
}
