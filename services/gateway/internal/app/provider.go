package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/adapter"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/secret"
)

// files are the contents of the files that a fleet is built from.
type files struct {
	policy, extra policy.Source
	prices        []byte
	catalog       []byte
}

// readFiles reads the operator's policy, prices and catalog, or the shipped ones, and the extra providers.
func readFiles(cfg Config) (files, error) {
	var f files
	var err error
	if f.policy, err = readSource(cfg.PolicyFile, cfg.FleetKeysDir); err != nil {
		return f, fmt.Errorf("policy: %w", err)
	}
	if cfg.PolicyFile == "" {
		f.policy.Text = shipped.Policy
	}
	if f.extra, err = readSource(cfg.ExtraProvidersFile, cfg.FleetKeysDir); err != nil {
		return f, fmt.Errorf("extra providers: %w", err)
	}
	f.prices = shipped.Prices
	if cfg.PricesFile != "" {
		if f.prices, err = bounded.ReadFile(cfg.PricesFile, bounded.MaxFile); err != nil {
			return f, fmt.Errorf("prices: %w", err)
		}
	}
	if f.catalog, err = readCatalog(cfg.CatalogFile); err != nil {
		return f, fmt.Errorf("catalog: %w", err)
	}
	return f, nil
}

// hash returns a hash that identifies a version of the files.
func (f files) hash() string { return policy.Hash(f.policy.Text, f.extra.Text, f.prices, f.catalog) }

// readSource reads a configuration file; without a path it returns no text. Relative paths of key files are resolved in
// keysDir, or else in the folder of the configuration file.
func readSource(path, keysDir string) (policy.Source, error) {
	source := policy.Source{Name: path, KeysDir: keysDir}
	if path == "" {
		return source, nil
	}
	if keysDir == "" {
		at, err := filepath.Abs(path)
		if err != nil {
			return source, fmt.Errorf("find %s: %w", path, err)
		}
		source.KeysDir = filepath.Dir(at)
	}
	var err error
	source.Text, err = bounded.ReadFile(path, bounded.MaxFile)
	return source, err
}

// newPrices returns the price table with the policy's own prices, which replace those in the table.
func newPrices(text []byte, p *policy.Policy) (*price.Table, error) {
	rows, err := price.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, vendor := range p.Providers {
		for _, model := range vendor.Models {
			if model.IsZero() {
				continue
			}
			row, err := price.NewRow(vendor.Name, model.Name, model.Rates)
			if err != nil {
				return nil, fmt.Errorf("price of %s/%s: %w", vendor.Name, model.Name, err)
			}
			rows = slices.DeleteFunc(rows, func(r price.Row) bool { return r.Provider == row.Provider && r.Model == row.Model })
			rows = append(rows, row)
		}
	}
	return price.NewTable(rows)
}

// transports makes the transports of providers.
type transports interface {
	Transport(r network.Route) (http.RoundTripper, error)
}

// newProviders returns an adapter for each configured provider. Providers that are reached by the same route share one
// connection pool. The error joins those of all providers.
func newProviders(out transports, p *policy.Policy) (map[string]provider.Provider, error) {
	providers := make(map[string]provider.Provider)
	var errs []error
	for _, vendor := range p.Providers {
		made, err := newProvider(out, vendor)
		if err != nil {
			errs = append(errs, fmt.Errorf("provider %s: %w", vendor.Name, err))
		}
		providers[vendor.Name] = made
	}
	return providers, errors.Join(errs...)
}

// newProvider returns the adapter of a provider's dialect.
func newProvider(out transports, vendor policy.Provider) (provider.Provider, error) {
	d, ok := adapter.Find(vendor.Dialect)
	if !ok {
		return nil, fmt.Errorf("dialect %q: unknown", vendor.Dialect)
	}
	settings := vendor.Adapter()
	settings.Headers = newHeaders(vendor.Headers)
	var err error
	if settings.Transport, err = out.Transport(network.Route{
		Direct: vendor.Proxy.Direct, Proxy: vendor.Proxy.URL, ProxyCredentials: secret.File(vendor.Proxy.CredentialsFile), CAFile: vendor.CAFile,
	}); err != nil {
		return nil, err
	}
	return d.New(settings)
}

// newHeaders returns the headers of a provider in the order of their names. Files are read again when they change.
func newHeaders(configured map[string]policy.HeaderValue) []provider.Header {
	var headers []provider.Header
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		h := configured[name]
		fixed := secret.New(h.Value)
		read := func() (secret.Value, error) { return fixed, nil }
		if h.File != "" {
			file := secret.NewCached(secret.File(h.File), func(v secret.Value) secret.Value { return v })
			read = func() (secret.Value, error) {
				value, _, err := file.Read()
				return value, err
			}
		}
		headers = append(headers, provider.Header{Name: http.CanonicalHeaderKey(name), Value: read})
	}
	return headers
}

// fingerprintKey returns the key of the hashes that stand for secrets and for end users; zero where none is set.
func fingerprintKey(cfg Config) (key secret.Value, err error) {
	if cfg.FingerprintKey == "" {
		return key, nil
	}
	if key, err = cfg.FingerprintKey.Read(); err != nil {
		return key, fmt.Errorf("fingerprint key: %w", err)
	}
	return key, nil
}

// newFingerprint returns the function that hashes keys of the fleet and of organizations for logs and the ledger.
func newFingerprint(cfg Config) (func(secret.Value) string, error) {
	key, err := fingerprintKey(cfg)
	return keyring.NewFingerprint(key), err
}

// newKeyring returns a keyring with the fleet's keys of the policy's providers and access to organizations' own keys.
func newKeyring(cfg Config, log *slog.Logger, identities *identity.Manager, p *policy.Policy, own keyring.Own) (*keyring.Keyring, error) {
	fingerprint, err := newFingerprint(cfg)
	if err != nil {
		return nil, err
	}
	fleet, err := newPools(identities, p)
	if err != nil {
		return nil, err
	}
	return keyring.New(keyring.Options{
		Log: log, Fleet: fleet, Fingerprint: fingerprint, Own: own, OwnIdentity: ownIdentity(identities, p),
		Mode: p.Byok(), Canonical: p.Canonical,
	}), nil
}
