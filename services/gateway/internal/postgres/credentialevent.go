package postgres

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

var _ event.CredentialStore = (*HouseEvents)(nil)

// Refuse implements event.CredentialStore.
func (h *HouseEvents) Refuse(ctx context.Context, refused []event.Refused) error {
	var p dbsql.SeeRefusedCredentialsParams
	for _, r := range refused {
		p.OrganizationIds, p.Providers = append(p.OrganizationIds, r.Organization), append(p.Providers, r.Provider)
		p.Credentials, p.Statuses = append(p.Credentials, r.Name), append(p.Statuses, int32(r.Status))
	}
	if err := dbsql.New(h.pool).SeeRefusedCredentials(ctx, p); err != nil {
		return fmt.Errorf("see refused credentials: %w", err)
	}
	return nil
}

// Recover implements event.CredentialStore.
func (h *HouseEvents) Recover(ctx context.Context, taken []event.Taken) error {
	var p dbsql.RecoverCredentialsParams
	for _, c := range taken {
		p.OrganizationIds, p.Providers = append(p.OrganizationIds, c.Organization), append(p.Providers, c.Provider)
		p.Credentials, p.Begun = append(p.Credentials, c.Name), append(p.Begun, c.Begun)
	}
	if err := dbsql.New(h.pool).RecoverCredentials(ctx, p); err != nil {
		return fmt.Errorf("recover credentials: %w", err)
	}
	return nil
}

// Failing implements event.CredentialStore.
func (h *HouseEvents) Failing(ctx context.Context, limit int) ([]event.Credential, error) {
	rows, err := dbsql.New(h.pool).FailingCredentials(ctx, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("failing credentials: %w", err)
	}
	failing := make([]event.Credential, len(rows))
	for i, r := range rows {
		failing[i] = event.Credential{Organization: r.OrganizationID, Provider: r.Provider, Name: r.Credential}
	}
	return failing, nil
}

// Age implements event.CredentialStore.
func (h *HouseEvents) Age(ctx context.Context, keys []event.Key, days int) error {
	p := dbsql.SeeKeyAgesParams{RotationDays: int32(days)}
	for _, k := range keys {
		p.Providers, p.Credentials = append(p.Providers, k.Provider), append(p.Credentials, k.Name)
		p.Fingerprints, p.SetAts = append(p.Fingerprints, k.Fingerprint), append(p.SetAts, k.SetAt)
	}
	if err := dbsql.New(h.pool).SeeKeyAges(ctx, p); err != nil {
		return fmt.Errorf("see key ages: %w", err)
	}
	return nil
}

// ReportRotations implements event.CredentialStore.
func (h *HouseEvents) ReportRotations(ctx context.Context, after event.Credential, limit int) (event.Credential, int, error) {
	row, err := dbsql.New(h.pool).ReportByokRotations(ctx, dbsql.ReportByokRotationsParams{
		AfterOrganization: after.Organization, AfterProvider: after.Provider, Count: int32(limit),
	})
	if err != nil {
		return event.Credential{}, 0, fmt.Errorf("report rotations: %w", err)
	}
	return event.Credential{Organization: row.OrganizationID, Provider: row.Provider}, int(row.Reported), nil
}

// Forget implements event.CredentialStore.
func (h *HouseEvents) Forget(ctx context.Context) error {
	if _, err := dbsql.New(h.pool).PurgeCredentialEvents(ctx); err != nil {
		return fmt.Errorf("purge credential events: %w", err)
	}
	return nil
}
