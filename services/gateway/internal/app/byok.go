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
)

// openByok opens the store of organizations' own credentials, before the fleet that calls with them.
func (b *builder) openByok(context.Context) error {
	fingerprint, err := newFingerprint(b.cfg)
	if err != nil {
		return err
	}
	seals, err := sealing.NewKeys(b.cfg.SealingKeysDir)
	if err != nil {
		return fmt.Errorf("%s_SEALING_KEYS_DIR: %w", prefix, err)
	}
	references, err := newReferences(b.cfg)
	if err != nil {
		return err
	}
	store := postgres.NewByok(b.pool, b.control)
	reader := &byok.Reader{References: references, Seals: seals, Fingerprint: fingerprint}
	b.vault = byok.NewVault(store, reader, b.service.Log)
	b.custodian = byok.NewCustodian(store, reader, fleetNames{b})
	b.watcher.Watch(control.Credentials, b.vault.Load)
	b.service.Runner.Go("credentials of organizations", b.vault.Run)
	return nil
}

func newReferences(cfg Config) (*secretref.Resolver, error) {
	return secretref.New(secretref.Options{
		FilesDir: cfg.ByokSecretsDir, EnvPrefix: cfg.ByokEnvPrefix, Managers: cfg.ByokSecretManagers,
	})
}

// fleetNames resolves provider names by the fleet in force, which is opened later.
type fleetNames struct{ p *builder }

// Canonical implements byok.Providers.
func (n fleetNames) Canonical(name string) (string, bool) { return n.p.fleets.policy().Canonical(name) }

// usageLedger reports to the vault which credentials were used.
type usageLedger struct {
	inference.Ledger

	vault *byok.Vault
}

// Commit implements inference.Ledger.
func (l usageLedger) Commit(ctx context.Context, e ledger.Entry) error {
	if e.Credential == keyring.SourceByok && !e.CacheHit {
		l.vault.Used(e.Organization, e.Provider, e.EndedAt)
	}
	return l.Ledger.Commit(ctx, e)
}
