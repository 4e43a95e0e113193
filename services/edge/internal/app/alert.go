package app

import (
	"context"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/service"
	platform "switchyard.dev/services/platform/service"
)

// startAlerts returns the alert rules, and starts what applies them if the services that it calls are set.
func startAlerts(ctx context.Context, s *platform.Service, cfg Config, stores stores) (*alert.Rules, error) {
	store := postgres.NewAlerts(stores.pool)
	if cfg.ControlToken == "" || cfg.WebhookURL.Host == "" || cfg.NotifyURL.Host == "" {
		s.Log.InfoContext(ctx, "alert rules are kept and not applied: EDGE_CONTROL_TOKEN_FILE, EDGE_WEBHOOK_EGRESS_URL or EDGE_NOTIFY_URL is not set")
		return alert.NewRules(store), nil
	}
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return nil, err
	}
	client := service.New(transport, &cfg.WebhookURL, &cfg.NotifyURL, cfg.ControlToken)
	dispatcher, err := alert.NewDispatcher(client, client, store, s.Log, s.Meter)
	if err != nil {
		return nil, err
	}
	s.Runner.Go("alert rules", dispatcher.Run)
	s.Runner.Go("upkeep of alerts", dispatcher.Upkeep)
	return alert.NewRules(store), nil
}
