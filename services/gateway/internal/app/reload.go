package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/service"
)

// fleets holds the fleet in force and replaces it on a reload. Requests in flight keep the fleet that they began with.
type fleets struct {
	cfg        Config
	log        *slog.Logger
	network    transports
	identities *identity.Manager
	affinities *routing.AffinityTable
	own        keyring.Own
	// models has the models' lifecycles, override returns the operators' override of the policy.
	models   *catalog.Store
	override func() steering.Override
	// monitor is set before the first request.
	monitor  *health.Monitor
	reloads  metric.Int64Counter
	releases releases

	mu      sync.Mutex // One reload at a time.
	present atomic.Pointer[generation]
	// release is the state of the last release; see release.go.
	release releaseState
}

// generation is a fleet with what it was built from.
type generation struct {
	fleet   *inference.Fleet
	keys    *keyring.Keyring
	policy  *policy.Policy
	prices  *price.Table
	catalog *catalog.Catalog
	files   files
	version policy.Version
	// warnings name what is allowed but probably unintended.
	warnings []string
}

// openFleet reads the files for the first time. It logs which providers have a key: a missing key is the most frequent
// mistake of a first start.
func openFleet(ctx context.Context, s *service.Service, cfg Config, stores stores, g governance, out *network.Network, identities *identity.Manager) (*fleets, error) {
	f := &fleets{
		cfg: cfg, log: s.Log, network: out, identities: identities, affinities: routing.NewAffinityTable(),
		own: g.credentials.cache, models: g.models, override: g.overrides.Override, releases: postgres.NewReleases(stores.control),
	}
	first, err := f.read(time.Now())
	if err != nil {
		return nil, err
	}
	f.present.Store(first)
	stores.watcher.Watch(control.Policy, f.follow)
	f.models.Put(first.catalog)
	for _, vendor := range first.policy.Providers {
		f.log.InfoContext(ctx, "provider", slog.String("name", vendor.Name), slog.String("dialect", vendor.Dialect),
			slog.Bool("usable", hasKey(first.fleet.Keys, vendor.Name)), slog.String("key_file", vendor.KeyFile), slog.Int("credentials", len(vendor.Pool())))
	}
	if err := f.measure(s.Meter); err != nil {
		return nil, err
	}
	hangups := hangUps()
	s.Runner.Go("reload", func(ctx context.Context) error { return f.watch(ctx, hangups) })
	return f, nil
}

func (f *fleets) measure(meter metric.Meter) error {
	var errs [3]error
	f.reloads, errs[0] = meter.Int64Counter("switchyard.gateway.policy.reloads",
		metric.WithDescription("Reloads of the policy by outcome: changed, unchanged or refused."))
	_, errs[1] = meter.Int64ObservableGauge("switchyard.gateway.policy.loaded", metric.WithUnit("s"),
		metric.WithDescription("When the policy in force was loaded, in seconds since 1970."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(f.present.Load().version.LoadedAt.Unix())
			return nil
		}))
	_, errs[2] = meter.Int64ObservableGauge("switchyard.gateway.policy.behind",
		metric.WithDescription("1 while the policy in force differs from the one that was last released to all replicas."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			behind := int64(0)
			if f.release.problem() != "" {
				behind = 1
			}
			o.Observe(behind)
			return nil
		}))
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	return nil
}

// fleet returns the fleet in force.
func (f *fleets) fleet() *inference.Fleet { return f.present.Load().fleet }

// canonical returns a provider's name for an alias of it.
func (f *fleets) canonical(name string) (string, bool) { return f.policy().Canonical(name) }

// prices returns the prices in force.
func (f *fleets) prices() *price.Table { return f.present.Load().prices }

// policy returns the policy in force.
func (f *fleets) policy() *policy.Policy { return f.present.Load().policy }

// build returns a generation of the present files, or logs and returns why they are invalid.
func (f *fleets) build(ctx context.Context) (*generation, error) {
	g, err := f.read(time.Now())
	if err != nil {
		f.reloads.Add(ctx, 1, outcome("refused"))
		f.log.ErrorContext(ctx, "policy not reloaded; the previous one stays in force",
			slog.String("version", f.present.Load().version.Hash), slog.String("error", err.Error()))
		return nil, apierr.New(apierr.KindUnprocessable, policy.ReasonPolicyInvalid, "nothing changed: "+err.Error())
	}
	return g, nil
}

// put puts a generation in force and returns what it changes.
func (f *fleets) put(ctx context.Context, now *generation) policy.Reloaded {
	before := f.present.Load()
	result := policy.Reloaded{
		Now: now.version, Before: before.version, Changed: now.version.Hash != before.version.Hash,
		Changes: changes(before, now), Warnings: now.warnings,
	}
	if before.policy.Resilience() != now.policy.Resilience() {
		result.Warnings = append(result.Warnings, "changes of resilience take effect at the next start")
	}
	f.present.Store(now)
	f.models.Put(now.catalog)
	kind := "unchanged"
	if result.Changed {
		kind = "changed"
	}
	f.reloads.Add(ctx, 1, outcome(kind))
	f.log.InfoContext(ctx, "policy reloaded", slog.String("outcome", kind), slog.String("version", now.version.Hash),
		slog.String("before", before.version.Hash), slog.Any("changes", result.Changes), slog.Any("warnings", result.Warnings))
	return result
}

func outcome(name string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", name))
}

// changes returns the changes of the policy, and which of the other files changed.
func changes(before, now *generation) []string {
	all := policy.Changes(before.policy, now.policy)
	if !bytes.Equal(before.files.prices, now.files.prices) {
		all = append(all, "prices changed")
	}
	if !bytes.Equal(before.files.catalog, now.files.catalog) {
		all = append(all, "catalog changed")
	}
	return all
}

// read returns a generation of the present files.
func (f *fleets) read(now time.Time) (*generation, error) {
	files, err := readFiles(f.cfg)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Parse(files.policy, files.extra)
	if err != nil {
		return nil, err
	}
	prices, err := newPrices(files.prices, rules)
	if err != nil {
		return nil, err
	}
	models, err := catalog.Parse(files.catalog)
	if err != nil {
		return nil, err
	}
	providers, err := newProviders(f.network, rules)
	if err != nil {
		return nil, err
	}
	keys, err := newKeyring(f.cfg, f.log, f.identities, rules, f.own)
	if err != nil {
		return nil, err
	}
	router := routing.NewRouter(routing.Options{Policy: rules, Prices: prices, Live: f, Lifecycles: f.models, Override: f.override, Affinities: f.affinities})
	g := &generation{
		fleet: &inference.Fleet{
			Planner: router, Keys: keys, Providers: providers, Choices: rules.Choices(), Prices: prices,
			CacheTTL: rules.CacheTTL, ServesUnpriced: rules.ServesUnpriced(), NeedsApproval: rules.NeedsApproval(), Hedge: rules.Hedge,
			QuotaWait: rules.MaxQuotaWait(), Version: files.hash(),
		},
		policy: rules, keys: keys,
		version:  policy.Version{Hash: files.hash(), LoadedAt: now},
		warnings: warnings(rules, prices, keys, now),
		prices:   prices, catalog: catalog.New(rules, prices, models), files: files,
	}
	if rules.HasQuotas() {
		g.fleet.Limits = rules
	}
	for _, vendor := range rules.Providers {
		g.version.Providers = append(g.version.Providers, vendor.Name)
		g.version.Models += len(vendor.Models)
	}
	if rules.Caches() && !f.cfg.hasResponseCache() {
		g.warnings = append(g.warnings, warnNoCache)
	}
	return g, nil
}

// warnings returns what is allowed but probably unintended.
func warnings(p *policy.Policy, prices *price.Table, keys *keyring.Keyring, now time.Time) []string {
	var all []string
	for _, vendor := range p.Providers {
		if !hasKey(keys, vendor.Name) {
			all = append(all, fmt.Sprintf("provider %s has no key in %s", vendor.Name, keyFiles(&vendor)))
			continue
		}
		for _, model := range vendor.Models {
			if !prices.Cost(vendor.Name, model.Name, now, provider.Usage{}).Known {
				all = append(all, fmt.Sprintf("model %s/%s has no price", vendor.Name, model.Name))
			}
		}
	}
	return all
}

// keyFiles returns the paths of a provider's key files.
func keyFiles(vendor *policy.Provider) string {
	var files []string
	for _, c := range vendor.Pool() {
		files = append(files, c.KeyFile)
	}
	return strings.Join(files, ", ")
}

// hasKey reports whether the fleet has a credential for a provider, or an identity that can be exchanged for one. It does
// not wait for the exchange.
func hasKey(keys inference.Keys, name string) bool {
	_, err := resolveNow(keys, name)
	return !errors.Is(err, keyring.ErrNoKey)
}

// resolveNow returns the fleet's credentials for a provider without waiting for any.
func resolveNow(keys inference.Keys, name string) ([]provider.Credential, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return keys.Resolve(ctx, keyring.Scope{Byok: keyring.ModeFleet}, name)
}

// Latency implements routing.Live. The monitor is built after the first fleet, since the policy configures it; until
// then no latency is known.
func (f *fleets) Latency(t provider.Target) (time.Duration, bool) {
	if f.monitor == nil {
		return 0, false
	}
	return f.monitor.Latency(t)
}

// Available implements routing.Live.
func (f *fleets) Available(t provider.Target, organization string) bool {
	return f.monitor == nil || f.monitor.Available(t, organization)
}
