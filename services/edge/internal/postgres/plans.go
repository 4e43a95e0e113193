package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// The actions of plans in the audit.
const (
	actionSetPlan    = "plan.set"
	actionDeletePlan = "plan.delete"
)

// Plans implements plan.Store.
type Plans struct{ pool *pgxpool.Pool }

// NewPlans returns the plans of the pool's database.
func NewPlans(pool *pgxpool.Pool) *Plans { return &Plans{pool: pool} }

// PlanPosition implements plan.Feed.
func (p *Plans) PlanPosition(ctx context.Context) (int64, error) {
	return dbsql.New(p.pool).PlanPosition(ctx)
}

// Plans implements plan.Feed. It reads plans and limits at one moment.
func (p *Plans) Plans(ctx context.Context) (plans []plan.Plan, err error) {
	err = pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		rows, err := q.ListPlans(ctx)
		if err != nil {
			return err
		}
		limits, err := q.ListPlanLimits(ctx)
		if err != nil {
			return err
		}
		plans = make([]plan.Plan, len(rows))
		for i, row := range rows {
			plans[i] = plan.Plan{
				Name: row.Name, Description: row.Description, Prepaid: row.Prepaid, CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC(),
			}
			for len(limits) > 0 && limits[0].Plan == row.Name {
				plans[i].Limits = append(plans[i].Limits, limitOfPlan(limits[0]))
				limits = limits[1:]
			}
		}
		return nil
	})
	return plans, err
}

func limitOfPlan(row dbsql.PlanLimit) plan.Limit {
	return plan.Limit{Meter: plan.Meter(row.Meter), Period: plan.Period(row.Period), Kind: plan.Kind(row.Kind), Amount: row.Amount, Price: row.PricePicoUsd}
}

// SetPlan implements plan.Store.
func (p *Plans) SetPlan(ctx context.Context, set plan.Plan, most int, by plan.Author) (_ plan.Plan, ok bool, err error) {
	err = p.inFeed(ctx, func(q *dbsql.Queries) error {
		others, err := q.CountPlans(ctx, set.Name)
		if err != nil || others >= int64(most) {
			return err
		}
		if set.CreatedAt, err = q.SetPlan(ctx, dbsql.SetPlanParams{
			Name: set.Name, Description: set.Description, Prepaid: set.Prepaid, UpdatedAt: set.UpdatedAt,
		}); err != nil {
			return err
		}
		if err := q.ClearPlanLimits(ctx, set.Name); err != nil {
			return err
		}
		if err := q.AddPlanLimits(ctx, limitColumnsOf(set)); err != nil {
			return err
		}
		ok = true
		return audit(ctx, q, planEntry(actionSetPlan, by, map[string]any{"plan": set.Name, "prepaid": set.Prepaid, "limits": set.Limits}))
	})
	set.CreatedAt = set.CreatedAt.UTC()
	return set, ok && err == nil, err
}

func limitColumnsOf(p plan.Plan) dbsql.AddPlanLimitsParams {
	params := dbsql.AddPlanLimitsParams{Plan: p.Name}
	for _, l := range p.Limits {
		params.Meters = append(params.Meters, string(l.Meter))
		params.Periods = append(params.Periods, string(l.Period))
		params.Kinds = append(params.Kinds, string(l.Kind))
		params.Amounts = append(params.Amounts, l.Amount)
		params.Prices = append(params.Prices, l.Price)
	}
	return params
}

func planEntry(action string, by plan.Author, details map[string]any) apikey.Entry {
	return apikey.Entry{At: by.At, Actor: apikey.Actor{Name: by.Name, Request: by.Request}, Action: action, Details: details}
}

// DeletePlan implements plan.Store.
func (p *Plans) DeletePlan(ctx context.Context, name string, by plan.Author) (users plan.Users, found bool, err error) {
	err = p.inFeed(ctx, func(q *dbsql.Queries) error {
		if _, err := q.LockPlan(ctx, name); err != nil {
			return err
		}
		if err := q.ReleaseRevokedKeys(ctx, name); err != nil {
			return err
		}
		row, err := q.CountPlanUsers(ctx, name)
		users = plan.Users{Keys: row.Keys, Organizations: row.Organizations}
		if err != nil || users != (plan.Users{}) {
			return err
		}
		if err := q.DeletePlan(ctx, name); err != nil {
			return err
		}
		return audit(ctx, q, planEntry(actionDeletePlan, by, map[string]any{"plan": name}))
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return plan.Users{}, false, nil
	}
	return users, err == nil, err
}

// inFeed runs fn in a transaction with the next position of the plans' feed.
func (p *Plans) inFeed(ctx context.Context, fn func(q *dbsql.Queries) error) error {
	return pgdb.InTx(ctx, p.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if _, err := q.NextPlanPosition(ctx); err != nil {
			return fmt.Errorf("take position of plans: %w", err)
		}
		return fn(q)
	})
}

// foreignKeyViolation is the SQLSTATE of a reference to a row that does not exist.
const foreignKeyViolation = "23503"

// planned converts the error of a row on a plan that does not exist.
func planned(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == foreignKeyViolation && strings.HasSuffix(e.ConstraintName, "_plan_fkey") {
		return apikey.ErrPlan
	}
	return err
}

// OrganizationPlan implements apikey.Store.
func (k *Keys) OrganizationPlan(ctx context.Context, organization string) (string, error) {
	name, err := dbsql.New(k.pool).OrganizationPlan(ctx, organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return name, err
}

// SetOrganizationPlan implements apikey.Store.
func (k *Keys) SetOrganizationPlan(ctx context.Context, organization, name string, entry apikey.Entry) error {
	return k.inFeed(ctx, func(q *dbsql.Queries, _ int64) error {
		var err error
		if name == "" {
			err = q.RemoveOrganizationPlan(ctx, organization)
		} else {
			err = planned(q.SetOrganizationPlan(ctx, dbsql.SetOrganizationPlanParams{OrganizationID: organization, Plan: name, UpdatedAt: entry.At}))
		}
		if err != nil {
			return err
		}
		if err := renumber(ctx, q, organization); err != nil {
			return err
		}
		return audit(ctx, q, entry)
	})
}
