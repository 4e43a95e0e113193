package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/platform/redisdb"
)

// maxReceived bounds the answers that wait to be received, of up to a megabyte each. More are lost while Redis is faster
// than its reader.
const maxReceived = 16

// Replicas implements answer.Channel: each replica has a channel of its own.
type Replicas struct{ client *redisdb.Client }

// NewReplicas returns the Replicas of a Redis server.
func NewReplicas(client *redisdb.Client) *Replicas { return &Replicas{client} }

func (r *Replicas) channel(replica string) string { return r.client.Key("mcp", "answer", replica) }

// Send implements answer.Channel.
func (r *Replicas) Send(ctx context.Context, replica string, text []byte) error {
	if err := r.client.Publish(ctx, r.channel(replica), text).Err(); err != nil {
		return fmt.Errorf("send an answer: %w", err)
	}
	return nil
}

// Receive implements answer.Channel. The client reconnects by itself; what is sent meanwhile is lost.
func (r *Replicas) Receive(ctx context.Context, replica string, f func(text []byte)) error {
	subscription := r.client.Subscribe(ctx, r.channel(replica))
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel(redis.WithChannelSize(maxReceived))
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-messages:
			if !ok {
				return nil
			}
			f([]byte(message.Payload))
		}
	}
}
