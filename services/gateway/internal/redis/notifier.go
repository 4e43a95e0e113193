package redis

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/redisdb"
)

// publishTimeout bounds a notification. Replicas that miss it find the change when they poll.
const publishTimeout = time.Second

// Notifier notifies the other replicas of changed settings and receives their notifications. It only shortens the
// delay: the settings themselves are in the database, which replicas poll.
type Notifier struct {
	client  *redisdb.Client
	pending chan struct{}
}

// NewNotifier returns the Notifier of a replica.
func NewNotifier(client *redisdb.Client) *Notifier {
	return &Notifier{client: client, pending: make(chan struct{}, 1)}
}

// Notify schedules a notification of the other replicas. It does not wait; concurrent calls are combined.
func (n *Notifier) Notify() {
	select {
	case n.pending <- struct{}{}:
	default:
	}
}

// Run publishes notifications and calls onChange for received ones until ctx ends. It also receives its own.
func (n *Notifier) Run(ctx context.Context, onChange func()) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(panics.Guard(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-n.pending:
				n.publish(ctx)
			}
		}
	}))
	group.Go(panics.Guard(func() error { return n.listen(ctx, onChange) }))
	return group.Wait()
}

func (n *Notifier) publish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_ = n.client.Publish(ctx, n.channel(), "").Err() // The replicas poll as well.
}

// listen calls onChange for each notification. The client reconnects by itself.
func (n *Notifier) listen(ctx context.Context, onChange func()) error {
	return receive(ctx, n.client, n.channel(), func(string) { onChange() })
}

func (n *Notifier) channel() string { return n.client.Key("control", "changed") }
