package redisdb

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/platform/kv"
)

// swapScript writes a text where the key still has the one that its writer read. An empty text is a key that is not
// there. What to write is decided by the caller, in Go.
var swapScript = redis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1`)

// NewKV returns the texts of one kind as a kv.Store, nil for a nil client. The key "a:b" of kind "breaker" has the name
// "prefix:breaker:a:b" on the server.
func NewKV(c *Client, kind string) kv.Store {
	if c == nil {
		return nil
	}
	return &store{c, c.Key(kind) + ":"}
}

// store is a kv.Store under a prefix. Each of its calls is one round trip.
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
		texts[i], _ = value.(string) // nil for a key that is not there
	}
	return texts, nil
}

// Swap implements kv.Store.
func (s *store) Swap(ctx context.Context, swaps []kv.Swap) ([]bool, error) {
	answers := make([]*redis.Cmd, len(swaps))
	pipe := s.client.Pipeline()
	for i, w := range swaps {
		// The text goes along, since the server may not know a script by its digest.
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
