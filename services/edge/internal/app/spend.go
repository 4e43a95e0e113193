package app

import (
	"log/slog"
	"net/http"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/service"
	"switchyard.dev/services/edge/internal/spend"
	platform "switchyard.dev/services/platform/service"
)

// startSpend starts to read what the gateway bills and to add it up, and returns what it reads; nil without a gateway.
func startSpend(s *platform.Service, cfg Config, stores stores) (*billing.Tail, error) {
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return nil, err
	}
	tail := newTail(cfg, transport, s.Log)
	if tail != nil {
		follower := spend.NewFollower(tail, postgres.NewSpend(stores.pool), s.Log)
		s.Runner.Go("billed calls", tail.Run)
		s.Runner.Go("spend", follower.Run)
		s.Runner.Go("upkeep of spend", follower.Upkeep)
	}
	return tail, nil
}

// newTail returns the billed feed of the gateway; nil without one.
func newTail(cfg Config, transport http.RoundTripper, log *slog.Logger) *billing.Tail {
	if cfg.GatewayURL.Host == "" {
		return nil
	}
	client := service.New(transport, &cfg.WebhookURL, &cfg.NotifyURL, cfg.ControlToken)
	return billing.NewTail(client.Charges(&cfg.GatewayURL), log)
}
