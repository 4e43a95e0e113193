package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

var (
	_ alert.RuleStore = (*Alerts)(nil)
	_ alert.Store     = (*Alerts)(nil)
)

// Alerts implements the stores of package alert.
type Alerts struct{ pool *pgxpool.Pool }

// NewAlerts returns the alert rules of the pool's database.
func NewAlerts(pool *pgxpool.Pool) *Alerts { return &Alerts{pool: pool} }

// Get implements alert.RuleStore.
func (a *Alerts) Get(ctx context.Context, organization string) ([]byte, error) {
	return alertRules(ctx, dbsql.New(a.pool), organization)
}

func alertRules(ctx context.Context, q *dbsql.Queries, organization string) ([]byte, error) {
	text, err := q.GetAlertRules(ctx, organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get alert rules: %w", err)
	}
	return text, nil
}

// The actions of alert rules in the audit.
const (
	actionSetAlerts    = "organization.alert_rules"
	actionRemoveAlerts = "organization.remove_alert_rules"
)

// Put implements alert.RuleStore.
func (a *Alerts) Put(ctx context.Context, organization string, rules []byte, names []string, by alert.Author) error {
	err := pgdb.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.PutAlertRules(ctx, dbsql.PutAlertRulesParams{OrganizationID: organization, Rules: rules}); err != nil {
			return err
		}
		return audit(ctx, q, alertEntry(actionSetAlerts, organization, by, map[string]any{"rules": names}))
	})
	if err != nil {
		return fmt.Errorf("put alert rules: %w", err)
	}
	return nil
}

// Delete implements alert.RuleStore.
func (a *Alerts) Delete(ctx context.Context, organization string, by alert.Author) error {
	err := pgdb.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if n, err := q.DeleteAlertRules(ctx, organization); err != nil || n == 0 {
			return err
		}
		return audit(ctx, q, alertEntry(actionRemoveAlerts, organization, by, map[string]any{}))
	})
	if err != nil {
		return fmt.Errorf("delete alert rules: %w", err)
	}
	return nil
}

func alertEntry(action, organization string, by alert.Author, details map[string]any) apikey.Entry {
	if by.User != "" {
		details["user_id"] = by.User
	}
	return apikey.Entry{
		At: by.At, Actor: apikey.Actor{Name: by.Name, Request: by.Request}, Action: action, Organization: organization, Key: by.Key,
		Details: details,
	}
}

var alertCursor = cursor{
	lock: func(ctx context.Context, q *dbsql.Queries) (string, error) { return q.LockAlertCursor(ctx) },
	move: func(ctx context.Context, q *dbsql.Queries, cursor string) error {
		return q.MoveAlertCursor(ctx, cursor)
	},
}

// Alone implements alert.Store.
func (a *Alerts) Alone(
	ctx context.Context, do func(ctx context.Context, read string, s alert.State) (string, error),
) error {
	err := alone(ctx, a.pool, alertCursor, func(ctx context.Context, read string, q *dbsql.Queries) (string, error) {
		return do(ctx, read, alertState{q})
	})
	if err != nil {
		return fmt.Errorf("apply alert rules: %w", err)
	}
	return nil
}

// Purge implements alert.Store.
func (a *Alerts) Purge(ctx context.Context, before time.Time) error {
	if _, err := dbsql.New(a.pool).PurgeAlerts(ctx, before); err != nil {
		return fmt.Errorf("purge alerts: %w", err)
	}
	return nil
}

// alertState implements alert.State. What it writes does not end with the context of the calls that were made before.
type alertState struct{ q *dbsql.Queries }

func (s alertState) Rules(ctx context.Context, organization string) ([]alert.Rule, error) {
	text, err := alertRules(ctx, s.q, organization)
	if err != nil || text == nil {
		return nil, err
	}
	return alert.Decode(text)
}

func (s alertState) Wait(ctx context.Context, before map[string]string, now time.Time) error {
	p := dbsql.AlertsWaitParams{Now: now}
	for organization, cursor := range before {
		p.OrganizationIds, p.Cursors = append(p.OrganizationIds, organization), append(p.Cursors, cursor)
	}
	if err := s.q.AlertsWait(context.WithoutCancel(ctx), p); err != nil {
		return fmt.Errorf("alerts wait: %w", err)
	}
	return nil
}

func (s alertState) Next(ctx context.Context, now time.Time) (alert.Progress, bool, error) {
	row, err := s.q.NextAlerts(ctx, now)
	if errors.Is(err, pgx.ErrNoRows) {
		return alert.Progress{}, false, nil
	}
	if err != nil {
		return alert.Progress{}, false, fmt.Errorf("next alerts: %w", err)
	}
	return alert.Progress{
		Organization: row.OrganizationID, Cursor: row.Cursor, DueAt: row.DueAt, Failures: int(row.Failures),
	}, true, nil
}

func (s alertState) Save(ctx context.Context, p alert.Progress) error {
	err := s.q.SaveAlertProgress(context.WithoutCancel(ctx), dbsql.SaveAlertProgressParams{
		Cursor: p.Cursor, DueAt: null(p.DueAt), Failures: int32(p.Failures), OrganizationID: p.Organization,
	})
	if err != nil {
		return fmt.Errorf("save progress of alerts: %w", err)
	}
	return nil
}

func (s alertState) Postpone(ctx context.Context, organization string, due time.Time) error {
	p := dbsql.PostponeAlertsParams{DueAt: due, OrganizationID: organization}
	if err := s.q.PostponeAlerts(context.WithoutCancel(ctx), p); err != nil {
		return fmt.Errorf("postpone alerts: %w", err)
	}
	return nil
}

func (s alertState) Last(ctx context.Context, n alert.Notice) (alert.Notice, error) {
	row, err := s.q.LastAlert(ctx, dbsql.LastAlertParams{OrganizationID: n.Organization, Rule: n.Rule, Type: n.Type, Subject: n.Subject})
	if errors.Is(err, pgx.ErrNoRows) {
		return alert.Notice{}, nil
	}
	if err != nil {
		return alert.Notice{}, fmt.Errorf("last alert: %w", err)
	}
	n.Event, n.At = row.EventID, row.SentAt
	return n, nil
}

func (s alertState) Put(ctx context.Context, n alert.Notice) error {
	err := s.q.PutAlert(context.WithoutCancel(ctx), dbsql.PutAlertParams{
		OrganizationID: n.Organization, Rule: n.Rule, Type: n.Type, Subject: n.Subject, EventID: n.Event, SentAt: n.At,
	})
	if err != nil {
		return fmt.Errorf("put alert: %w", err)
	}
	return nil
}
