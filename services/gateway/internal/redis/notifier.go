package redis

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/redisdb"
)

// publishTimeout bounds the telling; who misses it finds out by looking.
const publishTimeout = time.Second

// Notifier tells the other replicas that something was set, and hears it of them. It
// only makes it sooner: what was set is in the database.
type Notifier struct {
	client  *redisdb.Client
	pending chan struct{}
}

// NewNotifier returns the wakes of a replica.
func NewNotifier(client *redisdb.Client) *Notifier {
	return &Notifier{client: client, pending: make(chan struct{}, 1)}
}

// Notify has the others told soon. It does not wait; many at a time become one.
func (n *Notifier) Notify() {
	select {
	case n.pending <- struct{}{}:
	default:
	}
}

// Run tells and hears until ctx ends. It is a part of the service's lifecycle.
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
	_ = n.client.Publish(ctx, n.channel(), "").Err() // They look by themselves, too.
}

// listen; the client connects again by itself.
func (n *Notifier) listen(ctx context.Context, onChange func()) error {
	subscription := n.client.Subscribe(ctx, n.channel())
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-messages:
			if !ok {
				return nil
			}
			onChange()
		}
	}
}

func (n *Notifier) channel() string { return n.client.Key("control", "changed") }
