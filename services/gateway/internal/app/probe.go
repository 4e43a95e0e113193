package app

import (
	"context"
	"fmt"
	"os"

	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
)

// openProbes builds the prober. The organization that pays has its ceiling before any request is served.
func (b *builder) openProbes(ctx context.Context) error {
	b.prober = probe.New(probe.Options{
		Engine: b.engine, Lease: postgres.NewProbeLease(b.pool), Budget: b.organizations,
		Organization: b.cfg.ProbeOrganization, CeilingCents: b.cfg.ProbeBudgetCents,
		Golden: b.cfg.golden,
		Defaults: func() []policy.Default {
			return b.fleets.policy().Defaults(provider.OperationChat, provider.OperationEmbeddings)
		},
		Log: b.service.Log,
	})
	if _, err := b.cfg.golden(); err != nil {
		return fmt.Errorf("%s_GOLDEN_SET_FILE: %w", prefix, err)
	}
	return b.prober.Cap(ctx)
}

// golden reads the golden set from its file at each call, or returns the shipped one.
func (c Config) golden() (*probe.Golden, error) {
	text := shipped.Golden
	if c.GoldenSetFile != "" {
		var err error
		if text, err = os.ReadFile(c.GoldenSetFile); err != nil {
			return nil, fmt.Errorf("golden set: %w", err)
		}
	}
	return probe.ParseGolden(text)
}
