package app

import (
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/service"
)

// startHealth starts the exchange of circuit reports with other replicas. The fleets' plans go by the monitor.
func startHealth(s *service.Service, cfg Config, stores stores, fleets *fleets) (*health.Monitor, error) {
	o := health.Options{
		Policy: breakerPolicy(fleets.policy().Resilience().Breaker), Concurrency: cfg.ProviderConcurrency,
		Share: cfg.OrganizationShare, Log: s.Log,
	}
	if stores.redis != nil {
		o.Peers = redis.NewPeers(stores.redis)
	}
	monitor := health.New(o)
	fleets.monitor = monitor
	s.Runner.Go("health", monitor.Run)
	return monitor, monitor.Measure(s.Meter)
}

// startToolCircuits starts the circuits of tool servers, by the same settings.
func startToolCircuits(s *service.Service, stores stores, fleets *fleets) *health.Set {
	var peers health.Peers
	if stores.redis != nil {
		peers = redis.NewToolPeers(stores.redis)
	}
	circuits := health.NewSet(breakerPolicy(fleets.policy().Resilience().Breaker), peers, s.Log)
	s.Runner.Go("circuits of tool servers", circuits.Run)
	return circuits
}

// breakerPolicy returns the default breaker policy with the policy file's settings.
func breakerPolicy(b policy.Breaker) health.Policy {
	p := health.DefaultPolicy()
	p.FailureShare, p.Sample, p.Window = b.FailurePercent/100, b.Sample, b.Window
	p.Delay, p.MaxDelay = b.Delay, b.MaxDelay
	return p
}
