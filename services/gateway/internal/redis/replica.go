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
	return receive(ctx, r.client, r.channel(replica), func(text string) { f([]byte(text)) }, redis.WithChannelSize(maxReceived))
}

// receive calls f with what is published in a channel, until ctx ends. The client reconnects by itself.
func receive(ctx context.Context, client *redisdb.Client, channel string, f func(text string), o ...redis.ChannelOption) error {
	messages := client.Subscribe(ctx, channel)
	defer func() { _ = messages.Close() }()
	texts := messages.Channel(o...)
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-texts:
			if !ok {
				return nil
			}
			f(message.Payload)
		}
	}
}
