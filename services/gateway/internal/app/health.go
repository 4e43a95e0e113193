package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/redisdb"
)

// openRedis opens the state that replicas share, if a Redis is configured. No request fails while Redis is down:
// everything in it can be rebuilt.
func (b *builder) openRedis(ctx context.Context) error {
	if b.cfg.RedisURLFile == "" {
		return nil
	}
	url, err := b.cfg.RedisURLFile.Read()
	if err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	if b.redis, err = redisdb.Open(ctx, url.Reveal(), service); err != nil {
		return err
	}
	b.runner.OnClose("redis", func(context.Context) error { return b.redis.Close() })
	return nil
}

// watchHealth starts the exchange of circuit reports with other replicas.
func (b *builder) watchHealth(context.Context) error {
	o := health.Options{Policy: breakerPolicy(b.fleets.policy().Resilience().Breaker), Concurrency: b.cfg.ProviderConcurrency, Share: b.cfg.OrganizationShare, Log: b.telemetry.Log}
	if b.redis != nil {
		o.Peers = redis.NewPeers(b.redis)
	}
	b.health = health.New(o)
	b.fleets.monitor = b.health
	b.runner.Go("health", b.health.Run)
	return b.health.Measure(b.telemetry.MeterProvider.Meter(service))
}

// breakerPolicy returns the default breaker policy with the policy file's settings.
func breakerPolicy(b policy.Breaker) health.Policy {
	p := health.DefaultPolicy()
	p.FailureShare, p.Sample, p.Window = b.FailurePercent/100, b.Sample, b.Window
	p.Delay, p.MaxDelay = b.Delay, b.MaxDelay
	return p
}
