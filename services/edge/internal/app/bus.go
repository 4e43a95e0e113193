package app

import (
	"context"
	"encoding/hex"
	"fmt"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/redisdb"
)

// bus carries changes of keys between replicas over Redis pub/sub. It is fast
// but may lose some; the key watcher doesn't.
type bus struct {
	client  *redisdb.Client
	channel string
}

func newBus(client *redisdb.Client) *bus {
	return &bus{client: client, channel: client.Key("keys", "changed")}
}

// Announce implements apikey.Announcer.
func (b *bus) Announce(ctx context.Context, digest apikey.Digest) error {
	if err := b.client.Publish(ctx, b.channel, hex.EncodeToString(digest[:])).Err(); err != nil {
		return fmt.Errorf("publish change of key: %w", err)
	}
	return nil
}

// listen calls forget for each change announced until ctx ends. The client
// connects again by itself.
func (b *bus) listen(ctx context.Context, forget func(apikey.Digest)) error {
	subscription := b.client.Subscribe(ctx, b.channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-messages:
			if !ok {
				return nil
			}
			if raw, err := hex.DecodeString(message.Payload); err == nil && len(raw) == len(apikey.Digest{}) {
				forget(apikey.Digest(raw))
			}
		}
	}
}

// hereFirst has the replica that changed a key forget it before its caller is
// answered, so that a key it revoked is refused by its very next call.
type hereFirst struct {
	forget func(apikey.Digest)
	// others are told behind it; nil where there are none to tell.
	others apikey.Announcer
}

// Announce implements apikey.Announcer.
func (h hereFirst) Announce(ctx context.Context, digest apikey.Digest) error {
	h.forget(digest)
	if h.others == nil {
		return nil
	}
	return h.others.Announce(ctx, digest)
}
