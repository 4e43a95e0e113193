package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/redisdb"
)

const (
	// maxRings bounds the rings that wait to be passed on. One that finds no place
	// is found by the other replicas' next look.
	maxRings = 4096
	// ringsAtOnce bounds one message to the other replicas.
	ringsAtOnce = 256
	ringTimeout = 500 * time.Millisecond
)

// bell rings for changed inboxes, here and through Redis at the other replicas.
// Without Redis their streams find changes by looking.
type bell struct {
	feed    *inbox.Feed
	redis   *redisdb.Client // nil for none
	channel string
	pending chan inbox.Address
	log     *slog.Logger
}

func newBell(feed *inbox.Feed, client *redisdb.Client, log *slog.Logger) *bell {
	b := &bell{feed: feed, redis: client, pending: make(chan inbox.Address, maxRings), log: log}
	if client != nil {
		b.channel = client.Key("inbox")
	}
	return b
}

// startFeed makes the feed of inbox streams and hands it to the runner. It drains
// before the faces do: a stream has no end of its own to wait for.
func (p *parts) startFeed(client *redisdb.Client) {
	p.feed = inbox.NewFeed(postgres.NewInboxes(p.pool), p.cfg.MaxStreams, p.telemetry.Log)
	p.bell = newBell(p.feed, client, p.telemetry.Log)
	p.runner.Go("inbox feed", p.feed.Run)
	p.runner.Go("inbox bell", p.bell.run)
	p.runner.OnDrain("inbox streams", p.feed.Drain)
}

// ring tells everybody that an inbox has changed. It never blocks.
func (b *bell) ring(at inbox.Address) {
	b.feed.Ring(at)
	if b.redis == nil {
		return
	}
	select {
	case b.pending <- at:
	default:
	}
}

// run passes rings on and hears those of others, until ctx ends.
func (b *bell) run(ctx context.Context) error {
	if b.redis == nil {
		return nil
	}
	subscription := b.redis.Subscribe(ctx, b.channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel(redis.WithChannelSize(maxRings))
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-messages:
			b.hear(message)
		case at := <-b.pending:
			b.pass(ctx, at)
		}
	}
}

// hear rings for the inboxes of another replica's message.
func (b *bell) hear(message *redis.Message) {
	var changed []inbox.Address
	if message == nil || json.Unmarshal([]byte(message.Payload), &changed) != nil {
		return
	}
	for _, at := range changed {
		b.feed.Ring(at)
	}
}

// pass publishes an inbox and what waits behind it.
func (b *bell) pass(ctx context.Context, first inbox.Address) {
	changed := map[inbox.Address]bool{first: true}
	for more := true; more && len(changed) < ringsAtOnce; {
		select {
		case at := <-b.pending:
			changed[at] = true
		default:
			more = false
		}
	}
	list := make([]inbox.Address, 0, len(changed))
	for at := range changed {
		list = append(list, at)
	}
	text, err := json.Marshal(list)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, ringTimeout)
		defer cancel()
		err = b.redis.Publish(ctx, b.channel, text).Err()
	}
	if err != nil {
		b.log.DebugContext(ctx, "rings not passed on", slog.String("error", err.Error()))
	}
}

// announced is an outbox that rings for the inboxes which it told.
type announced struct {
	send.Outbox

	ring func(inbox.Address)
}

// Accept implements send.Outbox.
func (o announced) Accept(ctx context.Context, a send.Accepted) (send.Receipt, error) {
	receipt, err := o.Outbox.Accept(ctx, a)
	if err != nil || receipt.Replayed {
		return receipt, err
	}
	for _, work := range a.Works {
		if work.Channel == channel.InApp {
			o.ring(work.Record.Inbox)
		}
	}
	return receipt, nil
}
