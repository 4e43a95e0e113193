package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/control"
	"switchyard.dev/services/gateway/internal/postgres"
)

// openControl opens what operators and organizations set. Whoever follows a topic
// calls p.watcher.Watch in a step between this one and followControl.
func (p *parts) openControl(context.Context) error {
	p.control = postgres.NewControl(p.pool, func() { p.watcher.Wake() })
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
