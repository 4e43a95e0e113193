package control

import (
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// mayKeys refuses a session without a scope of keys.
func mayKeys(s *portal.Session, scope apikey.Permission) error {
	if s.MayKeys(scope) {
		return nil
	}
	return apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "this session lacks the scope that this operation needs: "+string(scope))
}

// sessionKeys lists the keys of the session's organization.
func (a *API) sessionKeys(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
	if err := mayKeys(s, portal.ScopeKeysRead); err != nil {
		return err
	}
	_, after, err := readPage[string](r)
	if err != nil {
		return err
	}
	return a.writeKeys(w, r, s.Organization, after)
}

// createSessionKey creates a key with no more permissions than the session has.
func (a *API) createSessionKey(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
	if err := mayKeys(s, portal.ScopeKeysWrite); err != nil {
		return err
	}
	var body struct {
		Product     string              `json:"product"`
		Permissions []apikey.Permission `json:"permissions"`
		Name        string              `json:"name"`
		Environment string              `json:"environment"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	if products := s.Products(a.options.Portal.Table); !slices.Contains(products, body.Product) {
		return apierr.Invalid("product", "must be one that the session's scopes open: "+strings.Join(products, ", "))
	}
	if !s.MayGive(body.Permissions) {
		return apierr.Invalid("permissions", "must be scopes that the session has")
	}
	key, text, err := a.options.Keys.Create(r.Context(), sessionActor(r, s), apikey.Request{
		Organization: s.Organization, Product: body.Product, Permissions: body.Permissions, Name: body.Name, Environment: body.Environment,
	})
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, NewKey(key, text))
}

// rotateSessionKey replaces a key that has no more permissions than the session.
func (a *API) rotateSessionKey(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
	key, err := a.sessionKey(r, s)
	if err != nil {
		return err
	}
	if !s.MayGive(key.Permissions) {
		return apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "the key has permissions that this session lacks")
	}
	next, text, err := a.options.Keys.Rotate(r.Context(), sessionActor(r, s), key.ID, apikey.Rotation{Overlap: defaultOverlap})
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, NewKey(next, text))
}

// revokeSessionKey revokes a key of the session's organization.
func (a *API) revokeSessionKey(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
	key, err := a.sessionKey(r, s)
	if err != nil {
		return err
	}
	if err := a.options.Keys.Revoke(r.Context(), sessionActor(r, s), key.ID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionKey returns the key that a request names, for a change. A key of another organization is not found.
func (a *API) sessionKey(r *http.Request, s *portal.Session) (apikey.Key, error) {
	if err := mayKeys(s, portal.ScopeKeysWrite); err != nil {
		return apikey.Key{}, err
	}
	key, err := a.options.Keys.Get(r.Context(), r.PathValue("id"))
	if err == nil && key.Organization != s.Organization {
		err = apierr.NotFound("key")
	}
	return key, err
}

// sessionActor returns the author of a session's request, for the audit.
func sessionActor(r *http.Request, s *portal.Session) apikey.Actor {
	return apikey.Actor{Name: strings.TrimSuffix(s.ID+" "+s.User, " "), Request: r.Header.Get(caller.HeaderRequest)}
}
