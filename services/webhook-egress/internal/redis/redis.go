// Package redis holds the short-lived state that replicas share: breakers and rates. Losing all of it loses no
// delivery.
package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/rate"
)

// swapScript writes a text if the stored one still equals what the writer read. An empty text means that the key does
// not exist. Writing an equal text only extends its life. The decision on what to write is made in Go, by the caller.
var swapScript = redis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1`)

// kv is a compare-and-swap store of small texts.
type kv struct{ client *redisdb.Client }

func (c kv) get(ctx context.Context, keys []string) ([]string, error) {
	values, err := c.client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("read states: %w", err)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i], _ = value.(string) // nil if the key does not exist
	}
	return texts, nil
}

type swap struct {
	key, old, new string
	life          time.Duration
}

func (c kv) swap(ctx context.Context, swaps []swap) ([]bool, error) {
	answers := make([]*redis.Cmd, len(swaps))
	pipe := c.client.Pipeline()
	for i, s := range swaps {
		// The script is sent as text: its digest alone may be unknown to the server.
		answers[i] = swapScript.Eval(ctx, pipe, []string{s.key}, s.old, s.new, max(s.life.Milliseconds(), 1))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("swap states: %w", err)
	}
	done := make([]bool, len(swaps))
	for i, answer := range answers {
		n, err := answer.Int()
		if err != nil {
			return nil, fmt.Errorf("swap states: %w", err)
		}
		done[i] = n == 1
	}
	return done, nil
}

// Breakers holds the states of targets. It implements breaker.KV.
type Breakers struct{ kv kv }

var _ breaker.KV = Breakers{}

// NewBreakers returns a store under the client's prefix.
func NewBreakers(client *redisdb.Client) Breakers { return Breakers{kv{client}} }

func (b Breakers) key(t breaker.Target) string {
	return b.kv.client.Key("breaker", t.Organization, t.Host, strconv.Itoa(t.Port))
}

// Get implements breaker.KV.
func (b Breakers) Get(ctx context.Context, targets []breaker.Target) ([]string, error) {
	keys := make([]string, len(targets))
	for i, t := range targets {
		keys[i] = b.key(t)
	}
	return b.kv.get(ctx, keys)
}

// Swap implements breaker.KV.
func (b Breakers) Swap(ctx context.Context, swaps []breaker.Swap) ([]bool, error) {
	each := make([]swap, len(swaps))
	for i, s := range swaps {
		each[i] = swap{b.key(s.Target), s.Old, s.New, s.Life}
	}
	return b.kv.swap(ctx, each)
}

// Rates holds the states of limited flows. It implements rate.KV.
type Rates struct{ kv kv }

var _ rate.KV = Rates{}

// NewRates returns a store under the client's prefix.
func NewRates(client *redisdb.Client) Rates { return Rates{kv{client}} }

func (r Rates) key(flow int64) string {
	return r.kv.client.Key("rate", strconv.FormatInt(flow, 10))
}

// Get implements rate.KV.
func (r Rates) Get(ctx context.Context, flows []int64) ([]string, error) {
	keys := make([]string, len(flows))
	for i, flow := range flows {
		keys[i] = r.key(flow)
	}
	return r.kv.get(ctx, keys)
}

// Swap implements rate.KV.
func (r Rates) Swap(ctx context.Context, swaps []rate.Swap) ([]bool, error) {
	each := make([]swap, len(swaps))
	for i, s := range swaps {
		each[i] = swap{r.key(s.Flow), s.Old, s.New, s.Life}
	}
	return r.kv.swap(ctx, each)
}
