package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"switchyard.dev/services/gateway/internal/keyring"
	"switchyard.dev/services/gateway/internal/price"
	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/anthropic"
	"switchyard.dev/services/gateway/internal/provider/openai"
	"switchyard.dev/services/gateway/internal/provider/sandbox"
	"switchyard.dev/services/gateway/internal/provider/wire"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/gateway/policy"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
)

// readPolicy reads the operator's policy, or the shipped one, and the extra providers.
func readPolicy(cfg Config) (*routing.Policy, error) {
	base, err := readSource(cfg.PolicyFile, cfg.FleetKeysDir)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if cfg.PolicyFile == "" {
		base.Text = policy.Policy
	}
	extra, err := readSource(cfg.ExtraProvidersFile, cfg.FleetKeysDir)
	if err != nil {
		return nil, fmt.Errorf("extra providers: %w", err)
	}
	return routing.Parse(base, extra)
}

// readSource reads a configuration file, or nothing where none is named. Key
// files with relative paths lie in keysDir, or else beside it.
func readSource(path, keysDir string) (routing.Source, error) {
	source := routing.Source{KeysDir: keysDir}
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
	source.Text, err = os.ReadFile(path)
	return source, err
}

// readPrices joins the price table with the prices of the policy's own models,
// which take the place of those in the table.
func readPrices(cfg Config, p *routing.Policy) (*price.Table, error) {
	text := policy.Prices
	if cfg.PricesFile != "" {
		var err error
		if text, err = os.ReadFile(cfg.PricesFile); err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
	}
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

// newProviders makes an adapter for each configured provider. They share one
// pool of connections.
func newProviders(cfg Config, p *routing.Policy) (map[string]provider.Provider, error) {
	client := wire.NewClient(cfg.ConnectTimeout)
	providers := make(map[string]provider.Provider)
	for _, vendor := range p.Providers {
		var adapter provider.Provider
		var err error
		switch vendor.Dialect {
		case "openai":
			adapter, err = openai.New(openai.Config{
				Name: vendor.Name, BaseURL: vendor.BaseURL, KeyHeader: vendor.KeyHeader, Client: client,
			})
		case "anthropic":
			adapter, err = anthropic.New(anthropic.Config{Name: vendor.Name, BaseURL: vendor.BaseURL, Client: client})
		case "sandbox":
			adapter = sandbox.New(sandbox.Config{Name: vendor.Name})
		default:
			err = errors.New("dialect: want openai, anthropic or sandbox")
		}
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", vendor.Name, err)
		}
		providers[vendor.Name] = adapter
	}
	return providers, nil
}

// newKeyring says at start which providers have a key: a missing one is the
// commonest mistake of a first day.
func newKeyring(ctx context.Context, cfg Config, tel *telemetry.Telemetry, p *routing.Policy) (*keyring.Keyring, error) {
	var pin secret.Value
	if cfg.FingerprintKey != "" {
		var err error
		if pin, err = cfg.FingerprintKey.Read(); err != nil {
			return nil, fmt.Errorf("fingerprint key: %w", err)
		}
	}
	files := make(map[string]string)
	for _, vendor := range p.Providers {
		files[vendor.Name] = vendor.KeyFile
	}
	keys := keyring.New(tel.Log, files, pin)
	for _, vendor := range p.Providers {
		_, err := keys.Resolve(keyring.Scope{}, vendor.Name)
		tel.Log.InfoContext(ctx, "provider", slog.String("name", vendor.Name), slog.String("dialect", vendor.Dialect),
			slog.Bool("usable", err == nil), slog.String("key_file", vendor.KeyFile))
	}
	return keys, nil
}
