package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Trust implements trust.Store.
type Trust struct{ control *Control }

// NewTrust returns the trust records of a database.
func NewTrust(control *Control) *Trust { return &Trust{control} }

// Assign implements trust.Store.
func (s *Trust) Assign(ctx context.Context, a trust.Assignment, now time.Time, entry *audit.Entry) (trust.Record, error) {
	var assigned trust.Record
	err := s.control.Change(ctx, control.Trust, entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		before, err := presentTrust(ctx, q, a.Organization, a.Server)
		switch {
		case errors.Is(err, trust.ErrNotFound):
			assigned = trust.Assign(nil, a, now)
		case err != nil:
			return err
		default:
			assigned = trust.Assign(&before, a, now)
		}
		if err := q.RetireTrust(ctx, dbsql.RetireTrustParams{OrganizationID: a.Organization, ServerID: a.Server}); err != nil {
			return err
		}
		entry.Details = trustDetails(&assigned)
		return q.CreateTrust(ctx, dbsql.CreateTrustParams{
			OrganizationID: a.Organization, ServerID: a.Server, Version: int32(assigned.Version),
			Level: string(assigned.Level), EffectiveLevel: string(assigned.Effective), ReviewStatus: string(assigned.Status),
			AssignedBy: assigned.AssignedBy, AssignedAt: assigned.AssignedAt, AssignReason: assigned.AssignReason,
			ControlVersion: version,
		})
	})
	if err != nil {
		return trust.Record{}, fmt.Errorf("assign trust: %w", err)
	}
	return assigned, nil
}

// Review implements trust.Store.
func (s *Trust) Review(
	ctx context.Context, organization, server string, v trust.Review, now time.Time, entry *audit.Entry,
) (trust.Record, error) {
	var reviewed trust.Record
	err := s.control.Change(ctx, control.Trust, entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		present, err := presentTrust(ctx, q, organization, server)
		if err != nil {
			return err
		}
		if reviewed, err = present.Review(v, now); err != nil {
			return err
		}
		entry.Details = trustDetails(&reviewed)
		return q.ReviewTrust(ctx, dbsql.ReviewTrustParams{
			OrganizationID: organization, ServerID: server, Version: int32(reviewed.Version),
			EffectiveLevel: string(reviewed.Effective), ReviewStatus: string(reviewed.Status),
			ReviewedBy: reviewed.ReviewedBy, ReviewedAt: reviewed.ReviewedAt, ReviewReason: reviewed.ReviewReason,
			ControlVersion: version,
		})
	})
	if err != nil {
		return trust.Record{}, fmt.Errorf("review trust: %w", err)
	}
	return reviewed, nil
}

// presentTrust returns the present record of a server and locks it until the transaction ends.
func presentTrust(ctx context.Context, q *dbsql.Queries, organization, server string) (trust.Record, error) {
	if err := q.LockTrust(ctx, dbsql.LockTrustParams{OrganizationID: organization, ServerID: server}); err != nil {
		return trust.Record{}, err
	}
	row, err := q.GetTrust(ctx, dbsql.GetTrustParams{OrganizationID: organization, ServerID: server})
	if err != nil {
		return trust.Record{}, orMissing(err, trust.ErrNotFound)
	}
	return trustOf(&row), nil
}

// Present implements trust.Store.
func (s *Trust) Present(ctx context.Context, organization string, status trust.Status, after string, limit int) ([]trust.Record, error) {
	rows, err := dbsql.New(s.control.pool).ListTrust(ctx, dbsql.ListTrustParams{
		OrganizationID: organization, ReviewStatus: string(status), After: after, Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list trust: %w", err)
	}
	records := make([]trust.Record, len(rows))
	for i := range rows {
		row := dbsql.GetTrustRow(rows[i])
		records[i] = trustOf(&row)
	}
	return records, nil
}

// History implements trust.Store.
func (s *Trust) History(ctx context.Context, organization, server string, below, limit int) ([]trust.Record, error) {
	rows, err := dbsql.New(s.control.pool).ListTrustHistory(ctx, dbsql.ListTrustHistoryParams{
		OrganizationID: organization, ServerID: server, Below: int32(below), Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list trust history: %w", err)
	}
	records := make([]trust.Record, len(rows))
	for i := range rows {
		row := dbsql.GetTrustRow(rows[i])
		records[i] = trustOf(&row)
	}
	return records, nil
}

// Since implements trust.Source. Of the records it reads who has which level in force.
func (s *Trust) Since(ctx context.Context, since int64) (changed []trust.Record, version int64, err error) {
	rows, err := dbsql.New(s.control.pool).TrustSince(ctx, since)
	if err != nil {
		return nil, 0, fmt.Errorf("levels of trust: %w", err)
	}
	version = since
	for i := range rows {
		changed = append(changed, trust.Record{
			Organization: rows[i].OrganizationID, Server: rows[i].ServerID, Effective: trust.Level(rows[i].EffectiveLevel),
		})
		version = max(version, rows[i].ControlVersion)
	}
	return changed, version, nil
}

func trustDetails(r *trust.Record) json.RawMessage {
	return details(map[string]any{
		"level": r.Level, "effective_level": r.Effective, "review_status": r.Status, "version": r.Version,
		"assigned_by": r.AssignedBy, "reviewed_by": r.ReviewedBy,
	})
}

func trustOf(r *dbsql.GetTrustRow) trust.Record {
	return trust.Record{
		Organization: r.OrganizationID, Server: r.ServerID, Version: int(r.Version),
		Level: trust.Level(r.Level), Effective: trust.Level(r.EffectiveLevel), Status: trust.Status(r.ReviewStatus),
		AssignedBy: r.AssignedBy, AssignedAt: r.AssignedAt, AssignReason: r.AssignReason,
		ReviewedBy: r.ReviewedBy, ReviewedAt: r.ReviewedAt.Time, ReviewReason: r.ReviewReason,
	}
}
