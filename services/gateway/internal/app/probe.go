package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/service"
)

// openProbes builds the prober. The organization that pays has its ceiling before any request is served.
func openProbes(ctx context.Context, s *service.Service, cfg Config, stores stores, g governance, p pipeline) (*probe.Prober, error) {
	prober := probe.New(probe.Options{
		Engine: p.engine, Lease: postgres.NewProbeLease(stores.pool), Budget: g.organizations,
		Organization: cfg.ProbeOrganization, CeilingCents: cfg.ProbeBudgetCents,
		Golden: cfg.golden,
		Defaults: func() []policy.Default {
			return p.fleets.policy().Defaults(provider.OperationChat, provider.OperationEmbeddings)
		},
		Log: s.Log,
	})
	if _, err := cfg.golden(); err != nil {
		return nil, fmt.Errorf("%s_GOLDEN_SET_FILE: %w", prefix, err)
	}
	return prober, prober.Cap(ctx)
}

// golden reads the golden set from its file at each call, or returns the shipped one.
func (c Config) golden() (*probe.Golden, error) {
	text := shipped.Golden
	if c.GoldenSetFile != "" {
		var err error
		if text, err = bounded.ReadFile(c.GoldenSetFile, bounded.MaxFile); err != nil {
			return nil, fmt.Errorf("golden set: %w", err)
		}
	}
	return probe.ParseGolden(text)
}
