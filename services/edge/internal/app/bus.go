package app

import (
	"context"
	"encoding/hex"
	"fmt"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/redisdb"
)

// bus carries changes of keys between replicas over Redis pub/sub. It is fast but may lose some; the key watcher does
// not.
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

// listen calls forget for each announced change until ctx ends. The client reconnects by itself.
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
