package app

import (
	"context"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/service"
)

// openRedis opens the state that replicas share, if a Redis is configured. No request fails while Redis is down:
// everything in it can be rebuilt.
func (b *builder) openRedis(ctx context.Context) error {
	var err error
	b.redis, err = b.service.Redis(ctx, service.Redis{Setting: prefix + "_REDIS_URL_FILE", URLFile: b.cfg.RedisURLFile, Prefix: serviceName})
	return err
}

// watchHealth starts the exchange of circuit reports with other replicas.
func (b *builder) watchHealth(context.Context) error {
	o := health.Options{Policy: breakerPolicy(b.fleets.policy().Resilience().Breaker), Concurrency: b.cfg.ProviderConcurrency, Share: b.cfg.OrganizationShare, Log: b.service.Log}
	if b.redis != nil {
		o.Peers = redis.NewPeers(b.redis)
	}
	b.health = health.New(o)
	b.fleets.monitor = b.health
	b.service.Runner.Go("health", b.health.Run)
	return b.health.Measure(b.service.Meter)
}

// breakerPolicy returns the default breaker policy with the policy file's settings.
func breakerPolicy(b policy.Breaker) health.Policy {
	p := health.DefaultPolicy()
	p.FailureShare, p.Sample, p.Window = b.FailurePercent/100, b.Sample, b.Window
	p.Delay, p.MaxDelay = b.Delay, b.MaxDelay
	return p
}
