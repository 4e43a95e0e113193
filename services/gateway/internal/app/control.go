package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
)

// openControl opens the settings that operators and organizations change at run time. A component that follows a topic
// calls b.watcher.Watch in a step between this one and followControl. A change is in force on this replica before its
// writer is answered; the other replicas are notified of it if there is a Redis.
func (b *builder) openControl(context.Context) error {
	notify := func() {}
	if b.redis != nil {
		notifier := redis.NewNotifier(b.redis)
		notify = notifier.Notify
		b.service.Runner.Go("change notifier", func(ctx context.Context) error { return notifier.Run(ctx, b.watcher.Wake) })
	}
	b.control = postgres.NewControl(b.pool, func(ctx context.Context, topic control.Topic, version int64) {
		notify()
		if topic == control.Policy { // A reload puts its files in force itself, under its own lock.
			b.watcher.Wake()
			return
		}
		b.watcher.Reach(ctx, topic, version)
	})
	b.watcher = control.NewWatcher(b.control, b.service.Log)
	return nil
}

// followControl loads all settings, so that no request is served without them, and follows their changes from then on.
func (b *builder) followControl(ctx context.Context) error {
	if err := b.watcher.Start(ctx); err != nil {
		return err
	}
	b.service.Runner.Check("settings", b.watcher.Ready)
	b.service.Runner.Go("settings", b.watcher.Run)
	return nil
}
