package endpoint

import (
	"context"
	"slices"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// Opener decrypts what delivery.Sealer encrypted for owner.
type Opener interface {
	Open(sealed []byte, owner string) ([]byte, error)
}

// Secrets finds the secrets of organizations, as signing.Directory does.
type Secrets interface {
	// Of returns the secrets of an organization, the current one first; none if none can be read.
	Of(ctx context.Context, organization string) []secret.Value
}

// schemesOf returns the signatures of a registration, whose secret has its place. v1 with a secret that doesn't suit it is
// refused where it is asked for, and left out where it is the default.
func schemesOf(r *Registration) ([]string, error) {
	switch {
	case r.Secret.IsZero() || signing.SuitsV1(r.Secret):
		return r.Signatures, nil
	case slices.Contains(r.Signatures, signing.SchemeV1):
		return nil, unsuitable("signing_secret")
	case len(r.Signatures) == 0:
		return []string{signing.SchemeSpec}, nil
	}
	return r.Signatures, nil
}

// checkSuits refuses an update that leaves an endpoint with v1 and a secret of its own that doesn't suit it. An update of
// neither may leave a stored endpoint as it is.
func (s *Service) checkSuits(u *Update, after *Endpoint) error {
	rotates := !u.Secret.IsZero()
	if !rotates && len(u.Signatures) == 0 || !s.ownLacksV1(after) {
		return nil
	}
	if rotates {
		return unsuitable("signing_secret")
	}
	return unsuitable("signatures")
}

func unsuitable(field string) error {
	return apierr.Invalid(field, signing.V1Rule+"; take another secret, or signatures without v1")
}

// ownLacksV1 reports whether the endpoint is to be signed by v1 with a secret of its own that doesn't suit it. A secret
// that can't be opened is not judged: its deliveries wait.
func (s *Service) ownLacksV1(e *Endpoint) bool {
	if e.SigningMode != signing.EndpointBody || s.o.Opener == nil || !slices.Contains(e.Signatures, signing.SchemeV1) {
		return false
	}
	text, err := s.o.Opener.Open(e.Secret, e.ID.String())
	return err == nil && !signing.SuitsV1(secret.New(string(text)))
}

// warn sets the endpoint's warnings.
func (s *Service) warn(ctx context.Context, e *Endpoint) {
	e.Warnings = nil
	switch {
	case !slices.Contains(e.Signatures, signing.SchemeV1):
	case e.SigningMode == signing.EndpointBody:
		if s.ownLacksV1(e) {
			e.Warnings = []string{"deliveries lack the signature v1 of the endpoint's secret: " + signing.V1Rule}
		}
	default:
		if secrets := s.o.Secrets.Of(ctx, e.Organization); len(secrets) > 0 && !signing.SuitsV1(secrets[0]) {
			e.Warnings = []string{"deliveries lack the signature v1 of the organization's secret: " + signing.V1Rule}
		}
	}
}
