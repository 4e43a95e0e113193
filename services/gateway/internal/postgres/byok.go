package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Byok implements byok.Store and byok.Feed.
type Byok struct {
	pool    *pgxpool.Pool
	control *Control
}

// NewByok returns the configurations of a database.
func NewByok(pool *pgxpool.Pool, c *Control) *Byok { return &Byok{pool, c} }

// Get returns a configuration in any status.
func (b *Byok) Get(ctx context.Context, organization, provider string) (byok.Config, error) {
	return getByok(ctx, dbsql.New(b.pool), organization, provider)
}

func getByok(ctx context.Context, q *dbsql.Queries, organization, provider string) (byok.Config, error) {
	row, err := q.GetByok(ctx, dbsql.GetByokParams{OrganizationID: organization, Provider: provider})
	if errors.Is(err, pgx.ErrNoRows) {
		return byok.Config{Organization: organization, Provider: provider}, byok.ErrNone
	}
	if err != nil {
		return byok.Config{}, fmt.Errorf("get byok config: %w", err)
	}
	return toConfig(&row), nil
}

// List returns a page of an organization's active configurations.
func (b *Byok) List(ctx context.Context, organization, after string, limit int) ([]byok.Config, error) {
	rows, err := dbsql.New(b.pool).ListByok(ctx, dbsql.ListByokParams{OrganizationID: organization, After: after, Count: int32(limit)})
	return toConfigs(rows, err, "list byok configs")
}

// Stale returns a page of stale configurations.
func (b *Byok) Stale(ctx context.Context, f byok.StaleFilter) ([]byok.Config, error) {
	rows, err := dbsql.New(b.pool).ListStaleByok(ctx, dbsql.ListStaleByokParams{
		OrganizationID: f.Organization, Provider: f.Provider,
		AfterOrganization: f.AfterOrganization, AfterProvider: f.AfterProvider,
		Now: optionalTime(f.Now), UnusedSince: byok.Unused(f.Now), Count: int32(f.Limit),
	})
	return toConfigs(rows, err, "list stale byok configs")
}

// Change stores what decide returns for a configuration. The topic's row is locked before the configuration is read, so
// that changes are serialized.
func (b *Byok) Change(
	ctx context.Context, organization, provider string, entry *audit.Entry, decide func(byok.Config) (byok.Config, error),
) (byok.Config, error) {
	var next byok.Config
	err := b.control.Change(ctx, control.Credentials, entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		present, err := getByok(ctx, q, organization, provider)
		if err != nil && !errors.Is(err, byok.ErrNone) {
			return err
		}
		if next, err = decide(present); err != nil {
			return err
		}
		next.Revision = version
		if err := q.PutByok(ctx, fromConfig(&next)); err != nil {
			return fmt.Errorf("put byok config: %w", err)
		}
		return nil
	})
	return next, err
}

// Purge erases all credentials of an organization. A purge that finds none records only an audit entry.
func (b *Byok) Purge(ctx context.Context, organization string, now time.Time, entry *audit.Entry) (byok.Purged, error) {
	var purged byok.Purged
	err := b.control.Change(ctx, control.Credentials, entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		erased, err := q.EraseByok(ctx, dbsql.EraseByokParams{OrganizationID: organization, Now: now, Revision: version})
		if err != nil {
			return fmt.Errorf("erase byok configs: %w", err)
		}
		remaining, err := q.CountByok(ctx, organization)
		if err != nil {
			return fmt.Errorf("count byok configs: %w", err)
		}
		purged = byok.Purged{Erased: int(erased), Remaining: int(remaining)}
		entry.Details = fmt.Appendf(nil, `{"erased": %d, "configs_remaining": %d}`, erased, remaining)
		return nil
	})
	return purged, err
}

// Revision returns the topic's version.
func (b *Byok) Revision(ctx context.Context) (int64, error) {
	version, err := dbsql.New(b.pool).ByokRevision(ctx)
	if err != nil {
		return 0, fmt.Errorf("read byok revision: %w", err)
	}
	return version, nil
}

// ChangedSince returns configurations in the order of their changes.
func (b *Byok) ChangedSince(ctx context.Context, after byok.Config, limit int) ([]byok.Config, error) {
	rows, err := dbsql.New(b.pool).ByokChangedSince(ctx, dbsql.ByokChangedSinceParams{
		Revision: after.Revision, OrganizationID: after.Organization, Provider: after.Provider, Count: int32(limit),
	})
	return toConfigs(rows, err, "list changed byok configs")
}

// Use stores when credentials were last used.
func (b *Byok) Use(ctx context.Context, uses []byok.Use) error {
	var p dbsql.UseByokParams
	for _, use := range uses {
		p.OrganizationIds = append(p.OrganizationIds, use.Organization)
		p.Providers = append(p.Providers, use.Provider)
		p.UsedAts = append(p.UsedAts, use.At)
	}
	if err := dbsql.New(b.pool).UseByok(ctx, p); err != nil {
		return fmt.Errorf("use byok configs: %w", err)
	}
	return nil
}

func toConfigs(rows []dbsql.ByokConfig, err error, doing string) ([]byok.Config, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	configs := make([]byok.Config, len(rows))
	for i := range rows {
		configs[i] = toConfig(&rows[i])
	}
	return configs, nil
}

func toConfig(r *dbsql.ByokConfig) byok.Config {
	return byok.Config{
		Organization: r.OrganizationID, Provider: r.Provider, Status: byok.Status(r.Status),
		Credential: byok.Credential{
			Custody: byok.Custody(r.Custody), Reference: r.SecretRef, KeyID: r.SealingKeyID, Ciphertext: r.Ciphertext,
			Hint: r.MaskedHint, Fingerprint: r.Fingerprint,
		},
		Version: int(r.CredentialVersion), Owner: r.OwnerPrincipal, PreviousOwner: r.PreviousOwnerPrincipal,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, LastUsedAt: r.LastUsedAt.Time, RotatedAt: r.RotatedAt.Time,
		TransferredAt: r.TransferredAt.Time, ExpiresAt: r.ExpiresAt.Time,
		RotationDays: int(r.RotationIntervalDays), Revision: r.Revision,
	}
}

func fromConfig(c *byok.Config) dbsql.PutByokParams {
	return dbsql.PutByokParams{
		OrganizationID: c.Organization, Provider: c.Provider, Status: string(c.Status),
		Custody: string(c.Custody), SecretRef: c.Reference, SealingKeyID: c.KeyID, Ciphertext: c.Ciphertext,
		MaskedHint: c.Hint, Fingerprint: c.Fingerprint, CredentialVersion: int32(c.Version),
		OwnerPrincipal: c.Owner, PreviousOwnerPrincipal: c.PreviousOwner, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		LastUsedAt: optionalTime(c.LastUsedAt), RotatedAt: optionalTime(c.RotatedAt), TransferredAt: optionalTime(c.TransferredAt),
		ExpiresAt: optionalTime(c.ExpiresAt), RotationIntervalDays: int32(c.RotationDays), Revision: c.Revision,
	}
}
