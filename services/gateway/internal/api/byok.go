package api

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// CredentialManager stores organizations' own credentials; see package byok.
type CredentialManager interface {
	SealingKey() (sealing.Public, error)
	List(ctx context.Context, organization, after string, limit int) ([]byok.Config, error)
	Put(ctx context.Context, organization, provider string, o byok.Offer) (config byok.Config, created bool, err error)
	Get(ctx context.Context, organization, provider string) (byok.Config, error)
	Deactivate(ctx context.Context, organization, provider string) error
	Rotate(ctx context.Context, organization, provider string, o byok.Offer) (byok.Config, error)
	Transfer(ctx context.Context, organization, provider, owner string) (byok.Config, error)
	Purge(ctx context.Context, organization string) (byok.Purged, error)
	Stale(ctx context.Context, f byok.StaleFilter) ([]byok.Config, error)
}

// byokServer serves organizations' own credentials.
type byokServer struct {
	gatewayv1.UnimplementedByokServiceServer

	manager CredentialManager
}

// GetSealingKey returns the key to seal credentials to.
func (s *byokServer) GetSealingKey(context.Context, *gatewayv1.GetSealingKeyRequest) (*gatewayv1.SealingKey, error) {
	key, err := s.manager.SealingKey()
	if err != nil {
		return nil, err
	}
	return &gatewayv1.SealingKey{
		KeyId: key.ID, PublicKey: key.Key, KemId: int32(key.KEM), KdfId: int32(key.KDF), AeadId: int32(key.AEAD),
		InfoTemplate: sealing.InfoTemplate,
	}, nil
}

// ListByokConfigs returns a page of the organization's active configurations.
func (s *byokServer) ListByokConfigs(ctx context.Context, m *gatewayv1.ListByokConfigsRequest) (*gatewayv1.ListByokConfigsResponse, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	place := newKeyset("byok", organization)
	last, err := place.read(m.GetCursor(), 1)
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	configs, err := s.manager.List(ctx, organization, last[0], limit+1)
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListByokConfigsResponse{}
	if len(configs) > limit {
		configs = configs[:limit]
		out.NextCursor = place.cursor(configs[limit-1].Provider)
	}
	for i := range configs {
		out.Configs = append(out.Configs, toByokConfig(&configs[i]))
	}
	return out, nil
}

// PutByokConfig creates or replaces a configuration.
func (s *byokServer) PutByokConfig(ctx context.Context, m *gatewayv1.PutByokConfigRequest) (*gatewayv1.ByokConfig, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	offer, err := toOffer(m, m.RotationIntervalDays)
	if err != nil {
		return nil, err
	}
	if offer.Owner == "" {
		c := caller.From(ctx)
		if offer.Owner = c.User; offer.Owner == "" {
			offer.Owner = c.Name
		}
	}
	config, created, err := s.manager.Put(ctx, organization, m.GetProvider(), offer)
	if err != nil {
		return nil, err
	}
	if created {
		rpc.SetStatus(ctx, http.StatusCreated)
	}
	return toByokConfig(&config), nil
}

// GetByokConfig returns an active configuration.
func (s *byokServer) GetByokConfig(ctx context.Context, m *gatewayv1.GetByokConfigRequest) (*gatewayv1.ByokConfig, error) {
	return withConfig(ctx, m, s.manager.Get, toByokConfig)
}

// DeleteByokConfig deactivates a configuration.
func (s *byokServer) DeleteByokConfig(ctx context.Context, m *gatewayv1.DeleteByokConfigRequest) (*emptypb.Empty, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	if err := s.manager.Deactivate(ctx, organization, m.GetProvider()); err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

// RotateByokConfig replaces the credential of an active configuration.
func (s *byokServer) RotateByokConfig(ctx context.Context, m *gatewayv1.RotateByokConfigRequest) (*gatewayv1.ByokConfig, error) {
	return withConfig(ctx, m, func(ctx context.Context, organization, provider string) (byok.Config, error) {
		offer, err := toOffer(m, m.RotationIntervalDays)
		if err != nil {
			return byok.Config{}, err
		}
		return s.manager.Rotate(ctx, organization, provider, offer)
	}, toByokConfig)
}

// GetByokLifecycle returns the age and the owner of a credential.
func (s *byokServer) GetByokLifecycle(ctx context.Context, m *gatewayv1.GetByokLifecycleRequest) (*gatewayv1.ByokLifecycle, error) {
	return withConfig(ctx, m, s.manager.Get, toLifecycleNow)
}

// TransferByokConfig transfers a configuration to another principal.
func (s *byokServer) TransferByokConfig(ctx context.Context, m *gatewayv1.TransferByokConfigRequest) (*gatewayv1.ByokLifecycle, error) {
	return withConfig(ctx, m, func(ctx context.Context, organization, provider string) (byok.Config, error) {
		return s.manager.Transfer(ctx, organization, provider, m.GetOwnerPrincipal())
	}, toLifecycleNow)
}

// ofConfig is a request about one configuration.
type ofConfig interface {
	GetOrganizationId() string
	GetProvider() string
}

// withConfig applies an operation to a configuration of the caller's organization and returns the result.
func withConfig[Out any](
	ctx context.Context, m ofConfig, do func(ctx context.Context, organization, provider string) (byok.Config, error), show func(*byok.Config) Out,
) (out Out, err error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return out, err
	}
	config, err := do(ctx, organization, m.GetProvider())
	if err != nil {
		return out, err
	}
	return show(&config), nil
}

// PurgeByok erases every stored credential of an organization.
func (s *byokServer) PurgeByok(ctx context.Context, m *gatewayv1.PurgeByokRequest) (*gatewayv1.PurgeByokResponse, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	purged, err := s.manager.Purge(ctx, organization)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.PurgeByokResponse{
		OrganizationId: organization, Erased: int32(purged.Erased), ConfigsRemaining: int32(purged.Remaining),
	}, nil
}

// ListStaleByokConfigs returns a page of the stale credentials of all organizations.
func (s *byokServer) ListStaleByokConfigs(
	ctx context.Context, m *gatewayv1.ListStaleByokConfigsRequest,
) (*gatewayv1.ListStaleByokConfigsResponse, error) {
	place := newKeyset("stale", m.GetOrganizationId(), m.GetProvider())
	last, err := place.read(m.GetCursor(), 2)
	if err != nil {
		return nil, err
	}
	now, limit := time.Now(), pageSize(m.GetLimit())
	configs, err := s.manager.Stale(ctx, byok.StaleFilter{
		Organization: m.GetOrganizationId(), Provider: m.GetProvider(),
		AfterOrganization: last[0], AfterProvider: last[1], Now: now, Limit: limit + 1,
	})
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListStaleByokConfigsResponse{}
	if len(configs) > limit {
		configs = configs[:limit]
		out.NextCursor = place.cursor(configs[limit-1].Organization, configs[limit-1].Provider)
	}
	for i := range configs {
		out.Configs = append(out.Configs, toLifecycle(&configs[i], now))
	}
	return out, nil
}

// offered is what the requests with a credential have in common.
type offered interface {
	GetSecretRef() string
	GetSealed() *gatewayv1.SealedCredential
	GetOwnerPrincipal() string
	GetExpiresAt() *timestamppb.Timestamp
}

func toOffer(m offered, days *int32) (byok.Offer, error) {
	if (m.GetSecretRef() == "") == (m.GetSealed() == nil) {
		return byok.Offer{}, apierr.Invalid("secret_ref", "exactly one of secret_ref and sealed is required")
	}
	expires, err := toMoment("expires_at", m.GetExpiresAt())
	if err != nil {
		return byok.Offer{}, err
	}
	offer := byok.Offer{Reference: m.GetSecretRef(), Terms: byok.Terms{Owner: m.GetOwnerPrincipal(), ExpiresAt: expires}}
	if sealed := m.GetSealed(); sealed != nil {
		offer.KeyID, offer.Ciphertext = sealed.GetKeyId(), sealed.GetCiphertext()
	}
	if days != nil {
		offer.RotationDays = new(int(*days))
	}
	return offer, nil
}

func toByokConfig(c *byok.Config) *gatewayv1.ByokConfig {
	return &gatewayv1.ByokConfig{
		OrganizationId: c.Organization, Provider: c.Provider, Status: string(c.Status), Custody: string(c.Custody),
		MaskedHint: c.Hint, Fingerprint: c.Fingerprint, Version: int32(c.Version), OwnerPrincipal: c.Owner,
		CreatedAt: timestamppb.New(c.CreatedAt), UpdatedAt: timestamppb.New(c.UpdatedAt),
		LastUsedAt: toOptionalTime(c.LastUsedAt), RotatedAt: toOptionalTime(c.RotatedAt), ExpiresAt: toOptionalTime(c.ExpiresAt),
		RotationIntervalDays: toDays(c.RotationDays), Stale: len(c.Staleness(time.Now())) > 0,
	}
}

func toLifecycle(c *byok.Config, now time.Time) *gatewayv1.ByokLifecycle {
	out := &gatewayv1.ByokLifecycle{
		OrganizationId: c.Organization, Provider: c.Provider, Status: string(c.Status), Fingerprint: c.Fingerprint,
		Version: int32(c.Version), OwnerPrincipal: c.Owner,
		CreatedAt: timestamppb.New(c.CreatedAt), UpdatedAt: timestamppb.New(c.UpdatedAt),
		LastUsedAt: toOptionalTime(c.LastUsedAt), RotatedAt: toOptionalTime(c.RotatedAt), ExpiresAt: toOptionalTime(c.ExpiresAt),
		RotationIntervalDays: toDays(c.RotationDays), RotationDueAt: toOptionalTime(c.RotationDue()),
		PreviousOwnerPrincipal: toNullable(c.PreviousOwner), TransferredAt: toOptionalTime(c.TransferredAt),
	}
	for _, cause := range c.Staleness(now) {
		out.StaleReasons = append(out.StaleReasons, string(cause))
	}
	out.Stale = len(out.GetStaleReasons()) > 0
	return out
}

func toLifecycleNow(c *byok.Config) *gatewayv1.ByokLifecycle { return toLifecycle(c, time.Now()) }

// toOptionalTime returns null for the zero time.
func toOptionalTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// toDays returns null for 0, no rule.
func toDays(days int) *wrapperspb.Int32Value {
	if days == 0 {
		return nil
	}
	return wrapperspb.Int32(int32(days))
}
