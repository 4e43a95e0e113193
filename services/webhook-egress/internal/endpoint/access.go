package endpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// maxHeaders bounds the headers of an endpoint after a change.
const maxHeaders = 32

// AuthRequest is a requested authentication. Token URLs are checked here, all else by the constructors of package auth.
type AuthRequest struct {
	// None removes the authentication; Auth is then the zero value.
	None bool
	Auth auth.Auth
}

// applyAccess returns the endpoint with the change's headers and authentication, and checks that they fit together.
func (c Change) applyAccess(e Endpoint) (Endpoint, error) {
	if len(c.Headers) > 0 {
		e.Headers = maps.Clone(e.Headers)
		if e.Headers == nil {
			e.Headers = make(map[string][]byte, len(c.Headers))
		}
		maps.Copy(e.Headers, c.Headers)
		maps.DeleteFunc(e.Headers, func(_ string, sealed []byte) bool { return sealed == nil })
	}
	if c.Auth != nil {
		e.Auth, e.SealedAuth = c.Auth.Info, c.Auth.Sealed
	}
	return e, checkAccess(&e)
}

// checkMove refuses a change that would send stored credentials of e to another scheme, host or port: the change has to
// set each of them again, or remove it.
func (c Change) checkMove(e *Endpoint) error {
	const rule = "stored credentials are not sent to another scheme, host or port"
	if e.Auth != nil && c.Auth == nil {
		return apierr.Invalid("auth", rule+"; send auth again, or {\"none\":{}} to remove it")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		if _, named := c.Headers[name]; !named {
			return apierr.Invalid("custom_headers", rule+"; send "+name+" again, or with an empty value to remove it")
		}
	}
	return nil
}

func checkAccess(e *Endpoint) error {
	if len(e.Headers) > maxHeaders {
		return apierr.Invalid("custom_headers", fmt.Sprintf("must be %d at most", maxHeaders))
	}
	total := 0
	for name, sealed := range e.Headers {
		total += len(name) + len(sealed) - seal.Overhead
	}
	if err := delivery.CheckHeaderBytes(total); err != nil {
		return err
	}
	if e.Auth == nil {
		return nil
	}
	if name := e.Auth.SetsHeader(); name != "" && e.Headers[name] != nil {
		return apierr.New(apierr.KindInvalid, delivery.ReasonHeaderNotAllowed, "custom_headers: "+name+" is set by auth")
	}
	if e.Auth.Kind == auth.MTLS && !strings.HasPrefix(e.URL, "https:") {
		return apierr.Invalid("auth.mtls", "needs a url with https")
	}
	return nil
}

// checkHeaders checks requested headers and seals their values for the endpoint; an empty value becomes nil.
func (s *Service) checkHeaders(custom map[string]string, id delivery.ID) (map[string][]byte, error) {
	checked, err := delivery.CheckHeaders(custom)
	if err != nil || len(checked) == 0 {
		return nil, err
	}
	sealed := make(map[string][]byte, len(checked))
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		if checked[name] == "" {
			sealed[name] = nil
			continue
		}
		if sealed[name], err = s.seal("custom_headers", []byte(checked[name]), delivery.HeaderSealedFor(id, name)); err != nil {
			return nil, err
		}
	}
	return sealed, nil
}

// checkAuth checks a requested authentication and seals it for the endpoint; nil is no change.
func (s *Service) checkAuth(ctx context.Context, r *AuthRequest, id delivery.ID) (*AuthChange, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // No change is not an error.
	}
	if r.None {
		return &AuthChange{}, nil
	}
	a := r.Auth
	if a.Kind == auth.OAuth2 {
		u, err := s.o.Targets.CheckField(ctx, "auth.oauth2.token_url", a.TokenURL)
		if err != nil {
			return nil, err
		}
		a.TokenURL = u.String()
	}
	text, err := a.Encode()
	if err != nil {
		return nil, err
	}
	sealed, err := s.seal("auth", text, auth.SealedFor(id))
	if err != nil {
		return nil, err
	}
	return &AuthChange{Info: &a.Info, Sealed: sealed}, nil
}

// checkSignatures returns the schemes in their order, with the one that is always included.
func (s *Service) checkSignatures(ctx context.Context, asked []string) ([]string, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	if slices.Contains(asked, signing.SchemeV1a) && s.o.Keys.Current(ctx) == nil {
		return nil, apierr.Invalid("signatures", "v1a: this service has no key for it (WEBHOOK_EGRESS_SIGNING_KEYS_FILE)")
	}
	return signing.OrderSchemes(asked), nil
}

// seal encrypts a value of a field for its owner.
func (s *Service) seal(field string, value []byte, owner string) ([]byte, error) {
	if s.o.Sealer == nil {
		return nil, apierr.Invalid(field, "this service has no key to keep it (WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE)")
	}
	return s.o.Sealer.Seal(value, owner), nil
}
