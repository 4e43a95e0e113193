package endpoint

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// secretBytes is the length of a generated secret.
const secretBytes = 32

// generateSecret returns a new random secret in the form of Standard Webhooks.
func generateSecret() secret.Value {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // It never fails.
	return secret.New(signing.StandardPrefix + base64.StdEncoding.EncodeToString(raw))
}

// RotateSecret replaces the endpoint's secret with a generated one, which it returns. A nil overlap is DefaultOverlap.
func (s *Service) RotateSecret(ctx context.Context, scope Scope, id string, overlap *time.Duration) (Endpoint, secret.Value, error) {
	generated := generateSecret()
	e, err := s.Update(ctx, scope, id, Update{Secret: generated, Overlap: overlap})
	if err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	return e, generated, nil
}

// ownSecret returns the secret of a registration, sealed for the endpoint: that of the request or a generated one,
// which it also returns. Both are empty where the organization's secret signs.
func (s *Service) ownSecret(r *Registration, id delivery.ID) (sealed []byte, generated secret.Value, err error) {
	chosen := r.Secret
	switch own := r.SigningMode == signing.EndpointBody; {
	case !own && (r.GenerateSecret || !r.Secret.IsZero()):
		return nil, secret.Value{}, secretNotAllowed()
	case !own:
		return nil, secret.Value{}, nil
	case r.GenerateSecret && !r.Secret.IsZero():
		return nil, secret.Value{}, apierr.Invalid("generate_secret", "not together with signing_secret")
	case r.GenerateSecret:
		generated = generateSecret()
		chosen = generated
	case r.Secret.IsZero():
		return nil, secret.Value{}, apierr.New(apierr.KindInvalid, ReasonSecretRequired,
			"signing_secret: is required with signing_mode endpoint_body, or generate_secret")
	}
	sealed, err = s.seal("signing_secret", []byte(chosen.Reveal()), id.String())
	return sealed, generated, err
}
