package redisdb

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/platform/kv"
)

// swapScript writes a text if the key still has the text that the caller read. An empty text means that the key doesn't
// exist. The caller decides in Go what to write.
var swapScript = redis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1`)

// NewKV returns a kv.Store of the texts of one kind; nil for a nil client. The key "a:b" of kind "breaker" is
// "prefix:breaker:a:b" on the server.
func NewKV(c *Client, kind string) kv.Store {
	if c == nil {
		return nil
	}
	return &store{c, c.Key(kind) + ":"}
}

// store is a kv.Store under a key prefix. Each call is one round trip.
type store struct {
	client *Client
	prefix string
}

// Get implements kv.Store.
func (s *store) Get(ctx context.Context, keys []string) ([]string, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = s.prefix + key
	}
	values, err := s.client.MGet(ctx, names...).Result()
	if err != nil {
		return nil, fmt.Errorf("read shared state: %w", err)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i], _ = value.(string) // "" for a key that doesn't exist
	}
	return texts, nil
}

// Swap implements kv.Store.
func (s *store) Swap(ctx context.Context, swaps []kv.Swap) ([]bool, error) {
	answers := make([]*redis.Cmd, len(swaps))
	pipe := s.client.Pipeline()
	for i, w := range swaps {
		// Eval sends the script's source, since the server may not know its digest.
		answers[i] = swapScript.Eval(ctx, pipe, []string{s.prefix + w.Key}, w.Old, w.New, max(w.Life.Milliseconds(), 1))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("swap shared state: %w", err)
	}
	made := make([]bool, len(swaps))
	for i, answer := range answers {
		n, err := answer.Int()
		if err != nil {
			return nil, fmt.Errorf("swap shared state: %w", err)
		}
		made[i] = n == 1
	}
	return made, nil
}
