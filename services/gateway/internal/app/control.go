package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/control"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
)

// openControl opens what operators and organizations set. Whoever follows a topic
// calls p.watcher.Watch in a step between this one and followControl. A change is in
// force on this replica before its writer is answered; the others are told of it,
// where there is a Redis.
func (p *parts) openControl(context.Context) error {
	tell := func() {}
	if p.redis != nil {
		wakes := redis.NewWakes(p.redis)
		tell = wakes.Tell
		p.runner.Go("wakes", func(ctx context.Context) error { return wakes.Run(ctx, p.watcher.Wake) })
	}
	p.control = postgres.NewControl(p.pool, func(ctx context.Context, topic control.Topic, version int64) {
		tell()
		if topic == control.Policy { // A reload puts its files in force itself, under its own lock.
			p.watcher.Wake()
			return
		}
		p.watcher.Reach(ctx, topic, version)
	})
	p.watcher = control.NewWatcher(p.control, p.telemetry.Log)
	return nil
}

// followControl loads all that is set, so that nothing is served without it, and
// follows it from then on.
func (p *parts) followControl(ctx context.Context) error {
	if err := p.watcher.Start(ctx); err != nil {
		return err
	}
	p.runner.Check("settings", p.watcher.Ready)
	p.runner.Go("settings", p.watcher.Run)
	return nil
}
