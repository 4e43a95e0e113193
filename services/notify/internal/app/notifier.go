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
	"switchyard.dev/services/platform/service"
)

const (
	// maxNotices bounds the notices that wait to be published. The other replicas find further changes at their next
	// poll.
	maxNotices = 4096
	// noticesAtOnce bounds one message to the other replicas.
	noticesAtOnce = 256
	noticeTimeout = 500 * time.Millisecond
)

// notifier notifies the streams of changed inboxes: those of this replica directly, those of others through Redis.
// Without Redis they find changes by polling.
type notifier struct {
	feed    *inbox.Feed
	redis   *redisdb.Client // nil without Redis
	channel string
	pending chan inbox.Address
	log     *slog.Logger
}

func newNotifier(feed *inbox.Feed, client *redisdb.Client, log *slog.Logger) *notifier {
	n := &notifier{feed: feed, redis: client, pending: make(chan inbox.Address, maxNotices), log: log}
	if client != nil {
		n.channel = client.Key("inbox")
	}
	return n
}

// startFeed starts the feed of inbox streams and its notifier. The feed drains before the faces, because streams do not
// end by themselves.
func startFeed(s *service.Service, cfg Config, inboxes *postgres.Inboxes, client *redisdb.Client) (*inbox.Feed, *notifier) {
	feed := inbox.NewFeed(inboxes, cfg.MaxStreams, s.Log)
	notifier := newNotifier(feed, client, s.Log)
	s.Runner.Go("inbox feed", feed.Run)
	s.Runner.Go("inbox notices", notifier.run)
	s.Runner.OnDrain("inbox streams", feed.Drain)
	return feed, notifier
}

// notify notifies all replicas that an inbox has changed. It never blocks.
func (n *notifier) notify(at inbox.Address) {
	n.feed.Notify(at)
	if n.redis == nil {
		return
	}
	select {
	case n.pending <- at:
	default:
	}
}

// run publishes notices and receives those of other replicas until ctx ends.
func (n *notifier) run(ctx context.Context) error {
	if n.redis == nil {
		return nil
	}
	subscription := n.redis.Subscribe(ctx, n.channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel(redis.WithChannelSize(maxNotices))
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-messages:
			n.receive(message)
		case at := <-n.pending:
			n.pass(ctx, at)
		}
	}
}

// receive notifies the streams of the inboxes in another replica's message.
func (n *notifier) receive(message *redis.Message) {
	var changed []inbox.Address
	if message == nil || json.Unmarshal([]byte(message.Payload), &changed) != nil {
		return
	}
	for _, at := range changed {
		n.feed.Notify(at)
	}
}

// pass publishes an inbox together with those that are pending.
func (n *notifier) pass(ctx context.Context, first inbox.Address) {
	changed := map[inbox.Address]bool{first: true}
	for more := true; more && len(changed) < noticesAtOnce; {
		select {
		case at := <-n.pending:
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
		ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
		defer cancel()
		err = n.redis.Publish(ctx, n.channel, text).Err()
	}
	if err != nil {
		n.log.DebugContext(ctx, "notices not published", slog.String("error", err.Error()))
	}
}

// announced is an outbox that sends notices for the inboxes that it has written to.
type announced struct {
	send.Outbox
	send.Updates

	notify func(inbox.Address)
}

// Accept implements send.Outbox.
func (o announced) Accept(ctx context.Context, a send.Accepted) (send.Receipt, error) {
	receipt, err := o.Outbox.Accept(ctx, a)
	if err != nil || receipt.Replayed {
		return receipt, err
	}
	for _, work := range a.Works {
		if work.Channel == channel.InApp {
			o.notify(work.Record.Inbox)
		}
	}
	return receipt, nil
}

// Update implements send.Updates.
func (o announced) Update(ctx context.Context, a send.Accepted) (send.Receipt, error) {
	receipt, err := o.Updates.Update(ctx, a)
	if err == nil && receipt.Changed != nil {
		o.notify(*receipt.Changed)
	}
	return receipt, err
}
