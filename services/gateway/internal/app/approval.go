package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/service"
)

const (
	// approvalSweep is how often approved calls are looked for that were sent and lost their replica.
	approvalSweep = 5 * time.Second
	// approvalSweepSize bounds one statement of a sweep, approvalSweepTime its time.
	approvalSweepSize = 500
	approvalSweepTime = 10 * time.Second
	// tokensKept is how long decision tokens are kept after they have expired, so that a late one is answered as such.
	tokensKept = 7 * 24 * time.Hour
)

// openApprovals opens what asks people for exact calls, wakes held calls when they are decided on any replica, and ends
// those that were lost. Settings are loaded after it.
func openApprovals(s *service.Service, cfg Config, stores stores, g governance, p pipeline) (*approval.Calls, error) {
	expressions, err := approval.NewExpressions()
	if err != nil {
		return nil, fmt.Errorf("standing approvals: %w", err)
	}
	store := postgres.NewApprovals(stores.control)
	waiters := approval.NewWaiters(store.Decided)
	stores.watcher.Watch(control.Approvals, func(ctx context.Context, _ int64) (int64, error) {
		versions, err := stores.control.Versions(ctx)
		if err != nil {
			return 0, err
		}
		waiters.Wake()
		return versions[control.Approvals], nil
	})
	s.Runner.OnDrain("held calls", func(context.Context) error {
		waiters.Drain()
		return nil
	})
	s.Runner.Go("waiting calls", func(ctx context.Context) error { return waiters.Run(ctx, s.Log) })
	s.Runner.Go("lost calls", lifecycle.Repeat{Every: approvalSweep, Log: s.Log, Name: "end lost calls", Do: func(ctx context.Context) error {
		if err := lifecycle.UntilDone(ctx, approvalSweepSize, approvalSweepTime, func(ctx context.Context, limit int) (int, error) {
			lost, err := store.Lose(ctx, limit, time.Now())
			if lost > 0 {
				s.Log.WarnContext(ctx, "approved calls were sent and got no answer: their outcome is unknown", slog.Int("calls", lost))
			}
			return lost, err
		}); err != nil {
			return err
		}
		return lifecycle.UntilDone(ctx, approvalSweepSize, approvalSweepTime, func(ctx context.Context, limit int) (int, error) {
			return store.DropTokens(ctx, limit, time.Now().Add(-tokensKept))
		})
	}}.Run)
	return &approval.Calls{
		Store: store, Redactor: func() *redact.Redactor { return p.fleets.policy().Redactor() }, Replica: g.replica.String(),
		TTL: cfg.MCPApprovalTTL, Waiters: waiters, Conditions: expressions,
	}, nil
}
