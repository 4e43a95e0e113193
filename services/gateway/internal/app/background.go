package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/platform/service"
)

// openBackground returns the queue of the responses that are made in the background; nothing where none are stored.
func openBackground(s *service.Service, cfg Config, stores stores, g governance, t traces) api.Background {
	if t.responses == nil || cfg.Background == 0 {
		return api.Background{}
	}
	queue := background.NewQueue(background.Options{
		Store: postgres.NewBackground(stores.pool), Conversations: t.responses, Sealer: t.keys, Replica: g.replica.String(),
		Limit: cfg.Background, Share: cfg.OrganizationShare, Log: s.Log,
	})
	s.Runner.OnDrain("background responses", queue.Drain)
	return api.Background{Queue: queue, Start: func(run func(context.Context) error) { s.Runner.Go("background responses", run) }}
}
