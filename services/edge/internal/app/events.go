package app

import (
	"context"

	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/service"
	"switchyard.dev/services/edge/internal/threshold"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/outbox"
	platform "switchyard.dev/services/platform/service"
)

// startEvents starts what finds the events of plans and credits, and what sends them to webhook-egress. Without that there
// are none.
func startEvents(ctx context.Context, s *platform.Service, cfg Config, stores stores, plans threshold.Plans) error {
	events := outbox.New(stores.pool)
	if cfg.ControlToken == "" || cfg.WebhookURL.Host == "" {
		s.Log.InfoContext(ctx, "organizations are not told of limits that they reach: EDGE_CONTROL_TOKEN_FILE or EDGE_WEBHOOK_EGRESS_URL is not set")
		return nil
	}
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return err
	}
	client := service.New(transport, &cfg.WebhookURL, &cfg.NotifyURL, cfg.ControlToken)
	// The edge has no event of no single organization.
	relay := houseevent.NewRelay(events, client, "", s.Log)
	watcher := threshold.NewWatcher(postgres.NewThresholds(stores.pool), sharedQuotas(stores), plans, cfg.DefaultPlan, s.Log)
	s.Runner.Go("limits of plans", watcher.Run)
	s.Runner.Go("events", relay.Run)
	s.Runner.Go("upkeep of events", relay.Upkeep)
	return houseevent.Measure(s.Meter, "switchyard.control", events.Waiting)
}
