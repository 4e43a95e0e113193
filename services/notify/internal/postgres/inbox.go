package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres/dbsql"
)

// Inboxes stores records and their unread counts. Every change locks its inbox first; see migrations.
type Inboxes struct {
	pool    *pgxpool.Pool
	changed func(inbox.Address)
}

// NewInboxes returns the inboxes of a database.
func NewInboxes(pool *pgxpool.Pool) *Inboxes {
	return &Inboxes{pool: pool, changed: func(inbox.Address) {}}
}

// Announce sets changed, which is called with each changed inbox after the commit.
func (s *Inboxes) Announce(changed func(inbox.Address)) *Inboxes {
	s.changed = changed
	return s
}

// List returns a page and the unread count of one snapshot.
func (s *Inboxes) List(ctx context.Context, q inbox.Query) (page inbox.Page, err error) {
	err = read(ctx, s.pool, "list inbox", func(db *dbsql.Queries) error {
		rows, err := records(ctx, db, q)
		if err != nil {
			return err
		}
		if page.More = len(rows) > q.Limit; page.More {
			rows = rows[:q.Limit]
		}
		page.Records = make([]inbox.Record, len(rows))
		for i, row := range rows {
			page.Records[i] = record(row)
		}
		page.Unread, err = unread(ctx, db, q.Inbox)
		return err
	})
	return page, err
}

// records reads one row more than the page holds, to find out whether more follow.
func records(ctx context.Context, db *dbsql.Queries, q inbox.Query) ([]dbsql.InboxRecord, error) {
	params := dbsql.RecordsParams{
		OrganizationID: q.Inbox.Organization, UserID: q.Inbox.User, Before: beforeOrNewest(q.Before), Count: int32(q.Limit + 1),
	}
	if q.UnreadOnly {
		return db.UnreadRecords(ctx, dbsql.UnreadRecordsParams(params))
	}
	return db.Records(ctx, params)
}

// beforeOrNewest returns the position that a page is below; for zero, one above the newest.
func beforeOrNewest(seq int64) int64 {
	if seq == 0 {
		return math.MaxInt64
	}
	return seq
}

// Unread returns the unread count of an inbox.
func (s *Inboxes) Unread(ctx context.Context, at inbox.Address) (int, error) {
	n, err := unread(ctx, dbsql.New(s.pool), at)
	return n, failure("read unread count", err)
}

func unread(ctx context.Context, db *dbsql.Queries, at inbox.Address) (int, error) {
	n, err := db.Unread(ctx, dbsql.UnreadParams{OrganizationID: at.Organization, UserID: at.User})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return int(n), err
}

// MarkRead marks a record read, if it is unread, and returns it with its inbox's unread count. It returns
// inbox.ErrNotFound if there is none.
func (s *Inboxes) MarkRead(ctx context.Context, target inbox.Target) (marked inbox.Record, left int, err error) {
	err = change(ctx, s.pool, "mark read", func(db *dbsql.Queries) error {
		at, unread, err := lockInboxOf(ctx, db, target)
		if err != nil {
			return err
		}
		changed, err := db.MarkRead(ctx, target.ID)
		if err != nil {
			return err
		}
		row, err := db.Record(ctx, target.ID)
		if err != nil {
			return orNotFound(err)
		}
		marked, left = record(row), unread
		if changed > 0 {
			left, err = countOut(ctx, db, at, changed, inbox.EventRead, &target.ID)
		}
		return err
	})
	if err == nil {
		s.changed(marked.Inbox)
	}
	return marked, left, err
}

// MarkAllRead marks all records of an inbox read. It returns how many were unread, and the unread count afterwards.
func (s *Inboxes) MarkAllRead(ctx context.Context, at inbox.Address) (marked, left int, err error) {
	err = change(ctx, s.pool, "mark all read", func(db *dbsql.Queries) error {
		_, err := db.LockInbox(ctx, dbsql.LockInboxParams{OrganizationID: at.Organization, UserID: at.User})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		changed, err := db.MarkAllRead(ctx, dbsql.MarkAllReadParams{OrganizationID: at.Organization, UserID: at.User})
		if err != nil || changed == 0 {
			return err
		}
		marked = int(changed)
		left, err = countOut(ctx, db, at, changed, inbox.EventReadAll, nil)
		return err
	})
	if err == nil && marked > 0 {
		s.changed(at)
	}
	return marked, left, err
}

// Delete removes a record. It returns inbox.ErrNotFound if there is none.
func (s *Inboxes) Delete(ctx context.Context, target inbox.Target) error {
	var at inbox.Address
	err := change(ctx, s.pool, "delete record", func(db *dbsql.Queries) (err error) {
		if at, _, err = lockInboxOf(ctx, db, target); err != nil {
			return err
		}
		readAt, err := db.DeleteRecord(ctx, target.ID)
		if err != nil {
			return orNotFound(err)
		}
		fewer := int64(1)
		if readAt != nil {
			fewer = 0
		}
		_, err = countOut(ctx, db, at, fewer, inbox.EventDeleted, &target.ID)
		return err
	})
	if err == nil {
		s.changed(at)
	}
	return err
}

// lockInboxOf locks a record's inbox and returns its unread count. The record may be deleted while it waits for the
// lock.
func lockInboxOf(ctx context.Context, db *dbsql.Queries, target inbox.Target) (inbox.Address, int, error) {
	params := dbsql.LockInboxOfParams{ID: target.ID, OrganizationID: target.Organization}
	if target.User != "" {
		params.UserID = &target.User
	}
	row, err := db.LockInboxOf(ctx, params)
	if err != nil {
		return inbox.Address{}, 0, orNotFound(err)
	}
	return inbox.Address{Organization: row.OrganizationID, User: row.UserID}, int(row.Unread), nil
}

// countOut subtracts records from the count of a locked inbox and stores the event.
func countOut(ctx context.Context, db *dbsql.Queries, at inbox.Address, fewer int64, kind inbox.EventKind, id *uuid.UUID) (int, error) {
	left, err := db.CountOut(ctx, dbsql.CountOutParams{
		Fewer: int32(fewer), OrganizationID: at.Organization, UserID: at.User, Event: string(kind), RecordID: id,
	})
	if err != nil {
		return 0, fmt.Errorf("count out: %w", err)
	}
	return int(left), nil
}

func orNotFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return inbox.ErrNotFound
	}
	return err
}

func record(row dbsql.InboxRecord) inbox.Record {
	r := inbox.Record{
		Draft: inbox.Draft{
			Inbox:   inbox.Address{Organization: row.OrganizationID, User: row.UserID},
			Subject: row.Subject, Message: row.Message, URL: row.Url,
		},
		ID: row.ID, Send: row.NotificationID, Seq: row.Seq, CreatedAt: row.CreatedAt, ReadAt: row.ReadAt, UpdatedAt: row.UpdatedAt,
	}
	if row.Data != nil {
		r.Data = []byte(*row.Data)
	}
	if row.Actions != nil {
		_ = json.Unmarshal([]byte(*row.Actions), &r.Actions) // Written by actionsColumn.
	}
	return r
}

// actionsColumn returns the stored form of actions; nil for none.
func actionsColumn(actions []inbox.Action) *string {
	if len(actions) == 0 {
		return nil
	}
	text, err := json.Marshal(actions)
	if err != nil {
		panic(err) // No field can fail.
	}
	return new(string(text))
}
