package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Control stores the versions of the settings' topics and the audit log.
type Control struct {
	pool    *pgxpool.Pool
	changed Changed
}

// Changed is called after the commit of each change; its writer is answered when it returns. It notifies the other
// replicas and puts the change in force on this one.
type Changed func(ctx context.Context, topic control.Topic, version int64)

// NewControl returns the control of a database.
func NewControl(pool *pgxpool.Pool, changed Changed) *Control {
	return &Control{pool: pool, changed: changed}
}

// Versions returns the versions of all topics.
func (c *Control) Versions(ctx context.Context) (map[control.Topic]int64, error) {
	rows, err := dbsql.New(c.pool).TopicVersions(ctx)
	if err != nil {
		return nil, fmt.Errorf("topic versions: %w", err)
	}
	versions := make(map[control.Topic]int64, len(rows))
	for _, row := range rows {
		versions[control.Topic(row.Topic)] = row.Version
	}
	return versions, nil
}

// Change changes a topic in one transaction: it takes the topic's next version, calls change, which marks its rows with
// that version, and appends the audit entry. If change returns control.ErrUnchanged, nothing is stored and Change
// returns nil.
func (c *Control) Change(
	ctx context.Context, topic control.Topic, entry *audit.Entry,
	change func(ctx context.Context, q *dbsql.Queries, version int64) error,
) error {
	var version int64
	err := pgdb.InTx(ctx, c.pool, func(tx pgx.Tx) (err error) {
		q := dbsql.New(tx)
		if version, err = q.MoveTopic(ctx, string(topic)); err != nil {
			return fmt.Errorf("move topic %s: %w", topic, err)
		}
		if err := change(ctx, q, version); err != nil {
			return err
		}
		return appendAudit(ctx, q, entry)
	})
	if errors.Is(err, control.ErrUnchanged) {
		return nil
	}
	if err == nil {
		c.changed(ctx, topic, version)
	}
	return err
}

// Follow stores a change that replicas follow, and whose audit entry the database makes.
func (c *Control) Follow(ctx context.Context, topic control.Topic, change func(ctx context.Context, q *dbsql.Queries, version int64) error) error {
	var version int64
	err := pgdb.InTx(ctx, c.pool, func(tx pgx.Tx) (err error) {
		q := dbsql.New(tx)
		if version, err = q.MoveTopic(ctx, string(topic)); err != nil {
			return fmt.Errorf("move topic %s: %w", topic, err)
		}
		return change(ctx, q, version)
	})
	if err == nil {
		c.changed(ctx, topic, version)
	}
	return err
}

// Record stores a change that no replica needs to follow, with its audit entry.
func (c *Control) Record(ctx context.Context, entry *audit.Entry, change func(ctx context.Context, q *dbsql.Queries) error) error {
	err := pgdb.InTx(ctx, c.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := change(ctx, q); err != nil {
			return err
		}
		return appendAudit(ctx, q, entry)
	})
	if errors.Is(err, control.ErrUnchanged) {
		return nil
	}
	return err
}

// appendAudit stores an entry in the change's own transaction and sets the fields that the database generates.
func appendAudit(ctx context.Context, q *dbsql.Queries, e *audit.Entry) error {
	details := []byte(e.Details)
	if len(details) == 0 {
		details = []byte("{}")
	}
	row, err := q.AppendAudit(ctx, dbsql.AppendAuditParams{
		Actor: e.Actor, ActorRole: e.ActorRole, Action: e.Action, OrganizationID: e.Organization,
		SubjectType: e.SubjectType, Subject: e.Subject, RequestID: e.RequestID, Reason: e.Reason, Details: details,
	})
	if err != nil {
		return fmt.Errorf("append audit: %w", err)
	}
	e.ID, e.OccurredAt = row.ID, row.OccurredAt
	return nil
}

// List returns a page of the audit log, newest first.
func (c *Control) List(ctx context.Context, f audit.Filter) ([]audit.Entry, error) {
	rows, err := dbsql.New(c.pool).ListAudit(ctx, dbsql.ListAuditParams{
		Before: f.Before, OrganizationID: f.Organization, Actor: f.Actor, Action: f.Action, Subject: f.Subject,
		Since: optionalTime(f.Since), Until: optionalTime(f.Until), Count: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list audit: %w", err)
	}
	entries := make([]audit.Entry, len(rows))
	for i, r := range rows {
		entries[i] = audit.Entry{
			ID: r.ID, OccurredAt: r.OccurredAt, Actor: r.Actor, ActorRole: r.ActorRole, Action: r.Action,
			Organization: r.OrganizationID, SubjectType: r.SubjectType, Subject: r.Subject,
			RequestID: r.RequestID, Reason: r.Reason, Details: r.Details,
		}
	}
	return entries, nil
}
