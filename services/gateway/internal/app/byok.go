package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/platform/service"
)

// credentials are organizations' own.
type credentials struct {
	store *postgres.Byok
	// reader opens references and seals, and cache has the credentials that calls use.
	reader *byok.Reader
	cache  *byok.Cache
}

// openCredentials opens the store of organizations' own credentials, before the fleet that calls with them.
func openCredentials(s *service.Service, cfg Config, stores stores, out *network.Network) (credentials, error) {
	fingerprint, err := newFingerprint(cfg)
	if err != nil {
		return credentials{}, err
	}
	seals, err := sealing.NewKeys(cfg.SealingKeysDir)
	if err != nil {
		return credentials{}, fmt.Errorf("%s_SEALING_KEYS_DIR: %w", prefix, err)
	}
	references, err := newReferences(cfg, out.Dial)
	if err != nil {
		return credentials{}, err
	}
	store := postgres.NewByok(stores.pool, stores.control)
	reader := &byok.Reader{References: references, Seals: seals, Fingerprint: fingerprint}
	cache := byok.NewCache(store, reader, s.Log)
	stores.watcher.Watch(control.Credentials, cache.Load)
	s.Runner.Go("credentials of organizations", cache.Run)
	return credentials{store, reader, cache}, nil
}

// manager returns what organizations manage their credentials with. It resolves provider names by the fleet in force.
func (c credentials) manager(f *fleets) *byok.Manager {
	return byok.NewManager(c.store, c.reader, fleetNames{f})
}

func newReferences(cfg Config, dial secretref.Dial) (*secretref.Resolver, error) {
	return secretref.New(secretref.Options{
		FilesDir: cfg.ByokSecretsDir, EnvPrefix: cfg.ByokEnvPrefix, Managers: cfg.ByokSecretManagers, Dial: dial,
	})
}

// fleetNames resolves provider names by the fleet in force.
type fleetNames struct{ fleets *fleets }

// Canonical implements byok.Providers.
func (n fleetNames) Canonical(name string) (string, bool) {
	return n.fleets.policy().Canonical(name)
}

// usageLedger reports to the cache which credentials were used.
type usageLedger struct {
	inference.Ledger

	cache *byok.Cache
}

// Commit implements inference.Ledger.
func (l usageLedger) Commit(ctx context.Context, e ledger.Entry) error {
	if e.Credential == keyring.SourceByok && !e.CacheHit {
		l.cache.Used(e.Organization, e.Provider, e.EndedAt)
	}
	return l.Ledger.Commit(ctx, e)
}
