package app

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/service"
)

// openControl opens the settings that operators and organizations change at run time. A part that follows a topic
// calls the watcher's Watch in a step between this one and followControl. A change is in force on this replica before
// its writer is answered; the other replicas are notified of it if there is a Redis.
func openControl(s *service.Service, pool *pgxpool.Pool, client *redisdb.Client, stale time.Duration) (*postgres.Control, *control.Watcher) {
	var watcher *control.Watcher
	notify := func() {}
	if client != nil {
		notifier := redis.NewNotifier(client)
		notify = notifier.Notify
		s.Runner.Go("change notifier", func(ctx context.Context) error { return notifier.Run(ctx, watcher.Wake) })
	}
	settings := postgres.NewControl(pool, func(ctx context.Context, topic control.Topic, version int64) {
		notify()
		if topic == control.Policy { // A reload puts its files in force itself, under its own lock.
			watcher.Wake()
			return
		}
		watcher.LoadVersion(ctx, topic, version)
	})
	watcher = control.NewWatcher(settings, stale, s.Log)
	return settings, watcher
}

// followControl loads all settings, so that no request is served without them, and follows their changes from then on.
func followControl(ctx context.Context, s *service.Service, watcher *control.Watcher) error {
	if err := watcher.Start(ctx); err != nil {
		return err
	}
	s.Runner.Check("settings", watcher.Ready)
	s.Runner.Go("settings", watcher.Run)
	return nil
}
