// Package redis holds what the replicas of the edge share and may lose: the buckets of rate limits. It implements
// limit.Fleet.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/redisdb"
)

// spend spends from a bucket. The bucket is the time, in microseconds of the server's clock, at which it is full
// again. KEYS[1] is the bucket, ARGV[1] the cost in microseconds; the result is how far ahead of now it is spent.
var spend = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local full = tonumber(redis.call('GET', KEYS[1]) or 0)
if full < now then full = now end
full = full + ARGV[1]
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1000)
return full - now
`)

// Limits settles rate limits. It is safe for concurrent use.
type Limits struct{ client *redisdb.Client }

// NewLimits returns Limits on the client's server.
func NewLimits(client *redisdb.Client) *Limits { return &Limits{client: client} }

// Settle implements limit.Fleet in one round trip.
func (l *Limits) Settle(ctx context.Context, spent []limit.Spending) ([]time.Duration, error) {
	ahead, err := l.settle(ctx, spent, spend.EvalSha)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") { // no bucket has changed
		ahead, err = l.settle(ctx, spent, spend.Eval)
	}
	return ahead, err
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (l *Limits) settle(ctx context.Context, spent []limit.Spending, run eval) ([]time.Duration, error) {
	pipe := l.client.Pipeline()
	answers := make([]*redis.Cmd, len(spent))
	for i, s := range spent {
		answers[i] = run(ctx, pipe, []string{l.client.Key("limit", s.Name)}, s.Cost.Microseconds())
	}
	_, _ = pipe.Exec(ctx) // each result has its error
	ahead := make([]time.Duration, len(spent))
	for i, answer := range answers {
		micros, err := answer.Int64()
		if err != nil {
			return nil, fmt.Errorf("settle rate limits: %w", errors.Join(err, ctx.Err()))
		}
		ahead[i] = time.Duration(micros) * time.Microsecond
	}
	return ahead, nil
}
