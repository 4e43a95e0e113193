package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/health"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/platform/redisdb"
)

// openRedis opens what replicas share, where there is one. Redis that is away
// costs no request: nothing in it can't be made again.
func (p *parts) openRedis(ctx context.Context) error {
	if p.cfg.RedisURLFile == "" {
		return nil
	}
	url, err := p.cfg.RedisURLFile.Read()
	if err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	if p.redis, err = redisdb.Open(ctx, url.Reveal(), service); err != nil {
		return err
	}
	p.runner.OnClose("redis", func(context.Context) error { return p.redis.Close() })
	return nil
}

// watchHealth starts the breakers' exchange with other replicas.
func (p *parts) watchHealth(context.Context) error {
	o := health.Options{Policy: breakerPolicy(p.fleets.policy().Resilience().Breaker), Concurrency: p.cfg.ProviderConcurrency, Share: p.cfg.OrganizationShare, Log: p.telemetry.Log}
	if p.redis != nil {
		o.Board = redis.NewBoard(p.redis)
	}
	p.health = health.New(o)
	p.fleets.monitor = p.health
	p.runner.Go("health", p.health.Run)
	return p.health.Measure(p.telemetry.MeterProvider.Meter(service))
}

// breakerPolicy is the service's with what the policy file says.
func breakerPolicy(b routing.Breaker) health.Policy {
	p := health.DefaultPolicy()
	p.FailureShare, p.Sample, p.Window = b.FailurePercent/100, b.Sample, b.Window
	p.Delay, p.MaxDelay = b.Delay, b.MaxDelay
	return p
}
