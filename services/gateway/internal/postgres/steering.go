package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/pgdb"
)

// Steering implements steering.Store.
type Steering struct{ control *Control }

// NewSteering returns the steering of a database.
func NewSteering(c *Control) *Steering { return &Steering{c} }

// State implements steering.Store.
func (s *Steering) State(ctx context.Context) (state steering.State, level int64, err error) {
	rows, err := dbsql.New(s.control.pool).RoutingOverrides(ctx)
	if err != nil {
		return state, 0, fmt.Errorf("routing overrides: %w", err)
	}
	for _, row := range rows {
		level = max(level, row.Version)
		if setting := toSetting(row); row.Kind == string(steering.KindPin) {
			state.Pin = setting
		} else {
			state.Canary = setting
		}
	}
	return state, level, nil
}

func toSetting(row dbsql.RoutingOverride) steering.Setting {
	return steering.Setting{
		Target: provider.Target{Provider: row.Provider, Model: row.Model}, Percentage: row.Percentage, Sticky: steering.Stickiness(row.StickyBy),
		Since: row.SetAt.Time, By: row.SetBy, Reason: row.Reason, Revision: int(row.Revision),
	}
}

// keptArms is how many past canaries keep their results.
const keptArms = 20

// Change implements steering.Store.
func (s *Steering) Change(ctx context.Context, kind steering.Kind, c steering.Change) (setting steering.Setting, err error) {
	c.To.Since = storedTime(c.To.Since)
	action, reason := "routing."+string(kind), c.To.Reason
	if !c.To.IsSet() {
		action = map[steering.Kind]string{steering.KindPin: "routing.unpin", steering.KindCanary: "routing.canary_stop"}[kind]
	}
	entry := audit.New(ctx, action, audit.Subject{Type: "routing", ID: string(kind)}, reason)
	err = s.control.Change(ctx, control.Routing, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		row, err := q.GetRoutingOverride(ctx, string(kind))
		if err != nil {
			return err
		}
		before := toSetting(row)
		var changed bool
		if setting, changed, err = before.Apply(c); err != nil {
			return err
		}
		if !changed {
			return control.ErrUnchanged
		}
		if entry.Details, err = json.Marshal(map[string]any{"before": settingDetails(before), "after": settingDetails(setting)}); err != nil {
			return err
		}
		if kind == steering.KindCanary {
			if err := q.ForgetCanaryArms(ctx, int32(setting.Revision-keptArms)); err != nil {
				return err
			}
		}
		return q.PutRoutingOverride(ctx, dbsql.PutRoutingOverrideParams{
			Kind: string(kind), Active: setting.IsSet(), Provider: setting.Provider, Model: setting.Model,
			Percentage: setting.Percentage, StickyBy: string(setting.Sticky), SetAt: optionalTime(setting.Since), SetBy: setting.By,
			Reason: setting.Reason, Revision: int32(setting.Revision), Version: version,
		})
	})
	if err != nil {
		return steering.Setting{}, fmt.Errorf("change %s: %w", kind, err)
	}
	return setting, nil
}

// settingDetails returns a setting's details in the audit log.
func settingDetails(s steering.Setting) map[string]any {
	all := map[string]any{"version": s.Revision}
	if s.IsSet() {
		all["provider"], all["model"] = s.Provider, s.Model
	}
	if s.Sticky != "" {
		all["percentage"], all["sticky_by"] = s.Percentage, s.Sticky
	}
	return all
}

// Arms of a canary, by their names in the table.
const (
	armCanary = "canary"
	armStable = "stable"
)

// AddArms implements steering.Store.
func (s *Steering) AddArms(ctx context.Context, revision int, add steering.Arms) error {
	err := pgdb.InTx(ctx, s.control.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		return errors.Join(addArm(ctx, q, revision, armCanary, add.Canary), addArm(ctx, q, revision, armStable, add.Stable))
	})
	if err != nil {
		return fmt.Errorf("add canary arms: %w", err)
	}
	return nil
}

func addArm(ctx context.Context, q *dbsql.Queries, revision int, name string, a steering.Arm) error {
	if a.Requests == 0 {
		return nil
	}
	return q.AddToCanaryArm(ctx, dbsql.AddToCanaryArmParams{
		Revision: int32(revision), Arm: name, Requests: a.Requests, Failed: a.Failed, FailedOver: a.FailedOver, LatencyUs: a.Latency.Microseconds(),
	})
}

// Arms implements steering.Store.
func (s *Steering) Arms(ctx context.Context, revision int) (arms steering.Arms, err error) {
	rows, err := dbsql.New(s.control.pool).CanaryArms(ctx, int32(revision))
	if err != nil {
		return arms, fmt.Errorf("canary arms: %w", err)
	}
	for _, r := range rows {
		arm := steering.Arm{Requests: r.Requests, Failed: r.Failed, FailedOver: r.FailedOver, Latency: time.Duration(r.LatencyUs) * time.Microsecond}
		if r.Arm == armCanary {
			arms.Canary = arm
		} else {
			arms.Stable = arm
		}
	}
	return arms, nil
}
