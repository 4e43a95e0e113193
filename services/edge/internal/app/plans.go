package app

import (
	"context"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/platform/service"
)

// plans are the plans and what holds calls to them.
type plans struct {
	watcher *plan.Watcher
	quotas  *quota.Enforcer
}

// startPlans starts the watcher of plans and what holds calls to them, which replicas share through Redis.
func startPlans(ctx context.Context, s *service.Service, cfg Config, stores stores) (plans, error) {
	watcher, err := plan.NewWatcher(ctx, postgres.NewPlans(stores.pool), s.Log)
	if err != nil {
		return plans{}, err
	}
	if cfg.DefaultPlan != "" && watcher.Plan(cfg.DefaultPlan) == nil {
		s.Log.WarnContext(ctx, "the default plan does not exist yet; organizations without a plan have no limits", "plan", cfg.DefaultPlan)
	}
	s.Runner.Go("plan watcher", watcher.Run)
	quotas := quota.New(watcher, cfg.DefaultPlan, sharedQuotas(stores), postgres.NewUsage(stores.pool))
	s.Runner.Go("quotas", func(ctx context.Context) error { return quotas.Run(ctx, s.Log) })
	return plans{watcher, quotas}, nil
}

// sharedQuotas returns what replicas hold calls to together; nil without Redis.
func sharedQuotas(stores stores) quota.Shared {
	if stores.redis == nil {
		return nil
	}
	return redis.NewQuotas(stores.redis)
}
