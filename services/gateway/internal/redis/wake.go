package redis

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/redisdb"
)

// wakeTime bounds the telling; who misses it finds out by looking.
const wakeTime = time.Second

// Wakes tells the other replicas that something was set, and hears it of them. It
// only makes it sooner: what was set is in the database.
type Wakes struct {
	client *redisdb.Client
	tell   chan struct{}
}

// NewWakes returns the wakes of a replica.
func NewWakes(client *redisdb.Client) *Wakes {
	return &Wakes{client: client, tell: make(chan struct{}, 1)}
}

// Tell has the others told soon. It does not wait; many at a time become one.
func (w *Wakes) Tell() {
	select {
	case w.tell <- struct{}{}:
	default:
	}
}

// Run tells and hears until ctx ends. It is a part of the service's lifecycle.
func (w *Wakes) Run(ctx context.Context, heard func()) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(panics.Guard(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-w.tell:
				w.publish(ctx)
			}
		}
	}))
	group.Go(panics.Guard(func() error { return w.hear(ctx, heard) }))
	return group.Wait()
}

func (w *Wakes) publish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wakeTime)
	defer cancel()
	_ = w.client.Publish(ctx, w.channel(), "").Err() // They look by themselves, too.
}

// hear listens; the client connects again by itself.
func (w *Wakes) hear(ctx context.Context, heard func()) error {
	subscription := w.client.Subscribe(ctx, w.channel())
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
			heard()
		}
	}
}

func (w *Wakes) channel() string { return w.client.Key("control", "changed") }
