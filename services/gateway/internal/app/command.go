package app

import (
	"maps"
	"os"

	"github.com/spf13/cobra"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/service"
)

// Main runs the command that the arguments name and returns its exit code.
func Main(args []string) int { return command.Run(root(os.Environ()), args, command.Standard()) }

// root returns the command line, with the settings in environ.
func root(environ []string) *cobra.Command {
	return command.Service[Config]{
		Name: serviceName, Short: "The egress to AI providers.", Prefix: prefix,
		Load: func() (Config, error) { return Load(environ) },
		Roles: []command.Role[Config]{{
			Name: "serve", Short: "serve both faces until the process is asked to stop, then drain", Serve: Serve,
			Face: func(cfg Config) command.Face { return command.Face{Listen: cfg.HTTPListen, CertFile: cfg.TLS.CertFile} },
		}},
		Migrate: Migrate, Files: checkFiles,
	}.Root(policyCommand(), pricesCommand(), byokCommand())
}

// checkFiles checks the files and folders that settings name as a start reads them.
func checkFiles(cfg Config) error {
	checks := map[string]func() error{
		"DATABASE_URL_FILE":    cfg.database().Check,
		"SERVICE_TOKENS_FILE":  func() error { return failure(cfg.access().Tokens()) },
		"POLICY_FILE":          func() error { return checkPolicy(Config{PolicyFile: cfg.PolicyFile, FleetKeysDir: cfg.FleetKeysDir}) },
		"EXTRA_PROVIDERS_FILE": func() error { return checkExtraProviders(cfg) },
		"PRICES_FILE": func() error {
			text, err := bounded.ReadFile(cfg.PricesFile, bounded.MaxFile)
			if err != nil {
				return err
			}
			return failure(price.Parse(text))
		},
		"CATALOG_FILE": func() error {
			text, err := readCatalog(cfg.CatalogFile)
			if err != nil {
				return err
			}
			return failure(catalog.Parse(text))
		},
		"SEALING_KEYS_DIR": func() error { return failure(sealing.NewKeys(cfg.SealingKeysDir)) },
		"CACHE_KEY_FILE": func() error {
			key, err := cfg.CacheKeyFile.Read()
			if err != nil {
				return err
			}
			return cache.CheckSecret([]byte(key.Reveal()))
		},
		"TRACE_KEYS_FILE": func() error { return failure(traceKeys(cfg.TraceKeysFile)) },
		"SPOOL_DIR":       func() error { return service.CheckSpool(serviceName, cfg.SpoolDir) },
		"GOLDEN_SET_FILE": func() error { return failure(cfg.golden()) },
		"PROXY_URL_FILE":  func() error { return failure(network.New(network.Options{Proxy: cfg.ProxyURLFile})) },
	}
	maps.Copy(checks, cfg.TLS.FileChecks("TLS_"))
	maps.Copy(checks, cfg.Events.EgressTLSFiles.FileChecks("EVENTS_EGRESS_TLS_"))
	maps.Copy(checks, cfg.redis().FileChecks())
	return config.CheckFiles(prefix, cfg, checks)
}

// failure returns the error of a loader.
func failure[T any](_ T, err error) error { return err }

// checkPolicy checks the policy with the prices, and the extra providers if cfg names them.
func checkPolicy(cfg Config) error {
	f, err := readFiles(cfg)
	if err != nil {
		return err
	}
	out, err := network.New(network.Options{}) // It reads the files of providers' connections, and connects nowhere.
	if err != nil {
		return err
	}
	_, _, err = buildPolicy(out, f.prices, f.policy, f.extra)
	return err
}

// checkExtraProviders checks the extra providers with the policy. What is wrong with the policy alone isn't repeated.
func checkExtraProviders(cfg Config) error {
	alone := Config{PolicyFile: cfg.PolicyFile, FleetKeysDir: cfg.FleetKeysDir}
	if checkPolicy(alone) != nil {
		return failure(readSource(cfg.ExtraProvidersFile, cfg.FleetKeysDir))
	}
	alone.ExtraProvidersFile = cfg.ExtraProvidersFile
	return checkPolicy(alone)
}
