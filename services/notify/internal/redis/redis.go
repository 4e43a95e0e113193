// Package redis holds the state that replicas share. It implements shared.KV; internal/app creates it.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/redisdb"
)

// swapScript writes a text if the stored one still equals what the writer read. An empty text means that the key does
// not exist. The decision on what to write is made in Go, by the caller.
var swapScript = redis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1`)

// KV is a compare-and-swap store under the client's prefix and one kind.
type KV struct {
	client *redisdb.Client
	kind   string
}

var _ shared.KV = KV{}

// NewKV returns the KV of one kind of state.
func NewKV(client *redisdb.Client, kind string) KV { return KV{client, kind} }

// Get implements shared.KV.
func (c KV) Get(ctx context.Context, key string) (string, error) {
	text, err := c.client.Get(ctx, c.client.Key(c.kind, key)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read state: %w", err)
	}
	return text, nil
}

// Swap implements shared.KV.
func (c KV) Swap(ctx context.Context, key, old, next string, life time.Duration) (bool, error) {
	n, err := swapScript.Run(ctx, c.client, []string{c.client.Key(c.kind, key)}, old, next, max(life.Milliseconds(), 1)).Int()
	if err != nil {
		return false, fmt.Errorf("swap state: %w", err)
	}
	return n == 1, nil
}
