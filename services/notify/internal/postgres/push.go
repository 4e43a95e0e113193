package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/postgres/dbsql"
	"switchyard.dev/services/notify/internal/push"
)

// Devices stores the devices of web push.
type Devices struct{ pool *pgxpool.Pool }

// NewDevices returns the devices of a database.
func NewDevices(pool *pgxpool.Pool) *Devices { return &Devices{pool: pool} }

// Register stores a device, or renews the one with the same digest.
func (s *Devices) Register(ctx context.Context, r push.Registration) (push.Device, bool, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return push.Device{}, false, fmt.Errorf("make id: %w", err)
	}
	var verified string
	if r.ByUser {
		verified = r.User
	}
	row, err := dbsql.New(s.pool).UpsertSubscription(ctx, dbsql.UpsertSubscriptionParams{
		SubID: id, OrganizationID: r.Organization, UserID: r.User, SiteID: r.Site, Origin: r.Origin,
		EndpointDigest: r.Digest, Sealed: r.Sealed, VapidKeyID: r.KeyID, ExpiresAt: r.ExpiresAt, VerifiedUser: verified,
	})
	if err != nil {
		return push.Device{}, false, failure("register device", err)
	}
	device := device(dbsql.SubscriptionsRow{
		SubID: row.SubID, OrganizationID: row.OrganizationID, UserID: row.UserID, SiteID: row.SiteID, Platform: row.Platform, Origin: row.Origin,
		VapidKeyID: row.VapidKeyID, Status: row.Status, ExpiresAt: row.ExpiresAt, LastDeliveredAt: row.LastDeliveredAt,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, RegisteredByUser: row.RegisteredByUser,
	})
	return device, row.Revision == 1, nil
}

// lastID is above every id.
var lastID = uuid.Max

// Devices returns a page, and whether more follow.
func (s *Devices) Devices(ctx context.Context, q push.DeviceQuery) ([]push.Device, bool, error) {
	before := q.Before
	if before == uuid.Nil {
		before = lastID
	}
	rows, err := s.subscriptions(ctx, dbsql.SubscriptionsParams{
		OrganizationID: q.Organization, Before: before, UserID: given(q.User), SiteID: given(q.Site), Count: int32(q.Limit + 1),
	}, q.Every)
	if err != nil {
		return nil, false, failure("list devices", err)
	}
	more := len(rows) > q.Limit
	if more {
		rows = rows[:q.Limit]
	}
	page := make([]push.Device, len(rows))
	for i, row := range rows {
		page[i] = device(row)
	}
	return page, more, nil
}

func (s *Devices) subscriptions(ctx context.Context, p dbsql.SubscriptionsParams, every bool) ([]dbsql.SubscriptionsRow, error) {
	q := dbsql.New(s.pool)
	if !every {
		return q.Subscriptions(ctx, p)
	}
	rows, err := q.EverySubscription(ctx, dbsql.EverySubscriptionParams{
		Before: p.Before, UserID: p.UserID, SiteID: p.SiteID, Count: p.Count,
	})
	found := make([]dbsql.SubscriptionsRow, len(rows))
	for i, row := range rows {
		found[i] = dbsql.SubscriptionsRow(row)
	}
	return found, err
}

// Delete removes a device, or returns push.ErrNotFound.
func (s *Devices) Delete(ctx context.Context, t push.Target) error {
	deleted, err := dbsql.New(s.pool).DeleteSubscription(ctx, dbsql.DeleteSubscriptionParams{
		SubID: t.ID, OrganizationID: t.Organization, UserID: given(t.User),
	})
	if err == nil && deleted == 0 {
		return push.ErrNotFound
	}
	return failure("delete device", err)
}

// Device returns the data needed to push to a device, or push.ErrNotFound.
func (s *Devices) Device(ctx context.Context, id uuid.UUID) (push.Sealed, error) {
	row, err := dbsql.New(s.pool).Device(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return push.Sealed{}, push.ErrNotFound
	}
	return push.Sealed{
		ID: row.SubID, Organization: row.OrganizationID, Digest: row.EndpointDigest, Text: row.Sealed,
		KeyID: row.VapidKeyID, Status: push.Status(row.Status), User: row.UserID, ByUser: row.RegisteredByUser, Revision: row.Revision,
	}, failure("read device", err)
}

// Remove deletes a device, unless it has registered again.
func (s *Devices) Remove(ctx context.Context, id uuid.UUID, revision int64) error {
	_, err := dbsql.New(s.pool).RemoveDevice(ctx, dbsql.RemoveDeviceParams{SubID: id, Revision: revision})
	return failure("remove device", err)
}

// Quarantine marks a device as unusable, unless it has registered again.
func (s *Devices) Quarantine(ctx context.Context, id uuid.UUID, revision int64) error {
	_, err := dbsql.New(s.pool).QuarantineDevice(ctx, dbsql.QuarantineDeviceParams{SubID: id, Revision: revision})
	return failure("quarantine device", err)
}

// History returns a page of the history, and whether more follows.
func (s *Devices) History(ctx context.Context, q push.HistoryQuery) ([]push.Shown, bool, error) {
	rows, err := dbsql.New(s.pool).PushHistory(ctx, dbsql.PushHistoryParams{
		OrganizationID: q.Organization, Before: beforeOrNewest(q.Before),
		UserID: given(q.User), SiteID: given(q.Site), Count: int32(q.Limit + 1),
	})
	if err != nil {
		return nil, false, failure("list push history", err)
	}
	more := len(rows) > q.Limit
	if more {
		rows = rows[:q.Limit]
	}
	page := make([]push.Shown, len(rows))
	for i, row := range rows {
		page[i] = push.Shown{
			Seq: row.ID, Send: row.NotificationID, User: row.UserID, Site: row.SiteID, Title: row.Title, Body: row.Body, URL: row.Url,
			Status: row.Status, Delivered: int(row.DeliveredCount), CreatedAt: row.CreatedAt,
		}
		if row.Data != nil {
			page[i].Data = []byte(*row.Data)
		}
	}
	return page, more, nil
}

// given returns a filter; nil for none.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func device(row dbsql.SubscriptionsRow) push.Device {
	return push.Device{
		ID: row.SubID, Organization: row.OrganizationID, User: row.UserID, Site: row.SiteID, Platform: row.Platform, Origin: row.Origin,
		KeyID: row.VapidKeyID, Status: push.Status(row.Status), ExpiresAt: row.ExpiresAt, ByUser: row.RegisteredByUser, LastDeliveredAt: row.LastDeliveredAt,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}
