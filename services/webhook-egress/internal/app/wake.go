package app

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/redisdb"
)

const (
	// wakeGap is the least time between two messages to the other replicas.
	wakeGap = 10 * time.Millisecond
	// wakeTimeout bounds sending one message.
	wakeTimeout = 500 * time.Millisecond
)

// wakes notifies the other replicas through Redis that work is waiting. Without Redis they find it by polling, only
// later.
type wakes struct {
	redis   *redisdb.Client // nil without Redis
	channel string
	pending chan struct{}
	log     *slog.Logger
}

// newWakes returns wakes that send and receive the messages through client, which may be nil.
func newWakes(client *redisdb.Client, log *slog.Logger) *wakes {
	w := &wakes{redis: client, pending: make(chan struct{}, 1), log: log}
	if client != nil {
		w.channel = client.Key("wake")
	}
	return w
}

// notify requests a message; concurrent requests become one.
func (w *wakes) notify() {
	select {
	case w.pending <- struct{}{}:
	default:
	}
}

// run sends and receives messages until ctx ends; it calls wake for each message that arrives.
func (w *wakes) run(ctx context.Context, wake func()) error {
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
			wake()
		case <-w.pending:
			w.publish(ctx)
			select {
			case <-ctx.Done():
				return nil
			case <-gap.C:
			}
		}
	}
}

func (w *wakes) publish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	if err := w.redis.Publish(ctx, w.channel, "").Err(); err != nil {
		w.log.DebugContext(ctx, "wake-up not sent", slog.String("error", err.Error()))
	}
}
