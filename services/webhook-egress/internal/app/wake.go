package app

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/redisdb"
)

const (
	// wakeGap is the least time between two calls to the other replicas.
	wakeGap = 10 * time.Millisecond
	// wakeTimeout bounds one.
	wakeTimeout = 500 * time.Millisecond
)

// wakes tells the other replicas through Redis that work waits. Polling finds
// it too: without Redis it only takes longer.
type wakes struct {
	redis   *redisdb.Client // nil for none
	channel string
	pending chan struct{}
	log     *slog.Logger
}

func newWakes(log *slog.Logger) *wakes { return &wakes{pending: make(chan struct{}, 1), log: log} }

// over makes the calls go through a server.
func (w *wakes) over(client *redisdb.Client) { w.redis, w.channel = client, client.Key("wake") }

// notify asks for a call; many at a time become one.
func (w *wakes) notify() {
	select {
	case w.pending <- struct{}{}:
	default:
	}
}

// run calls the others and hears them, until ctx ends.
func (w *wakes) run(ctx context.Context, heard func()) error {
	if w.redis == nil {
		return nil
	}
	subscription := w.redis.Subscribe(ctx, w.channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	gap := time.NewTicker(wakeGap)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-messages:
			heard()
		case <-w.pending:
			w.call(ctx)
			select {
			case <-ctx.Done():
				return nil
			case <-gap.C:
			}
		}
	}
}

func (w *wakes) call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	if err := w.redis.Publish(ctx, w.channel, "").Err(); err != nil {
		w.log.DebugContext(ctx, "wake-up not sent", slog.String("error", err.Error()))
	}
}
