package control

import (
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/apierr"
)

// mintBody asks for a token of an end user.
type mintBody struct {
	Organization string              `json:"organization_id"`
	User         string              `json:"user_id"`
	Owner        string              `json:"owner_id"`
	Scopes       []apikey.Permission `json:"scopes"`
	TTLSeconds   int                 `json:"ttl_seconds"`
	Origins      []string            `json:"origins"`
}

// request returns the request for the token. verified says whether the caller may let the holder decide on approvals.
func (b mintBody) request(verified bool) usertoken.Request {
	life := time.Duration(0)                                                    // Mint refuses it.
	if b.TTLSeconds > 0 && b.TTLSeconds <= int(usertoken.MaxLife/time.Second) { // others could overflow as a duration
		life = time.Duration(b.TTLSeconds) * time.Second
	}
	return usertoken.Request{
		Organization: b.Organization, User: b.User, Owner: b.Owner, Scopes: b.Scopes, Origins: b.Origins, Verified: verified, Life: life,
	}
}

// revokeBody names whose tokens are refused: those of a user, or of all users of the organization without one.
type revokeBody struct {
	Organization string  `json:"organization_id"`
	User         *string `json:"user_id"`
}

func (b revokeBody) holder() (usertoken.Holder, error) {
	switch {
	case b.User == nil:
		return usertoken.Holder{Organization: b.Organization}, nil
	case *b.User == "": // it would revoke those of all users
		return usertoken.Holder{}, apierr.Invalid("user_id", "must not be empty; leave it out for all users")
	}
	return usertoken.Holder{Organization: b.Organization, User: *b.User}, nil
}

// mintToken returns a token for a browser or a device of an end user.
func (a *API) mintToken(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body mintBody
	if err := read(w, r, &body); err != nil {
		return err
	}
	return a.writeToken(w, r, actor(r, l), body.request(true))
}

func (a *API) writeToken(w http.ResponseWriter, r *http.Request, by apikey.Actor, request usertoken.Request) error {
	text, id, expires, err := a.options.Users.Mint(r.Context(), by, request)
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, struct {
		ID        string    `json:"id"`
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}{id, text.Reveal(), expires})
}

// revokeTokens refuses the tokens of a user, or of a whole organization, that were minted before.
func (a *API) revokeTokens(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body revokeBody
	if err := read(w, r, &body); err != nil {
		return err
	}
	return a.revokeOf(w, r, actor(r, l), body)
}

func (a *API) revokeOf(w http.ResponseWriter, r *http.Request, by apikey.Actor, body revokeBody) error {
	holder, err := body.holder()
	if err != nil {
		return err
	}
	if err := a.options.Users.Revoke(r.Context(), by, holder); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// rotateTokenKeys makes a new key that signs tokens.
func (a *API) rotateTokenKeys(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	if err := read(w, r, &struct{}{}); err != nil {
		return err
	}
	made, err := a.options.Users.Rotate(r.Context(), actor(r, l))
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, struct {
		KeyID     string    `json:"kid"`
		SignsFrom time.Time `json:"signs_from"`
	}{made.ID, made.SignsFrom})
}

// organizationOrigins are the web origins whose pages may call with tokens of an organization.
type organizationOrigins struct {
	Organization string   `json:"organization_id"`
	Origins      []string `json:"origins"`
}

func (a *API) origins(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization := r.PathValue("organization_id")
	origins, err := a.options.Users.Origins(r.Context(), organization)
	if err != nil {
		return err
	}
	if len(origins) == 0 {
		return apierr.NotFound("origins")
	}
	return write(w, http.StatusOK, organizationOrigins{organization, origins})
}

func (a *API) setOrigins(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Origins []string `json:"origins"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	if len(body.Origins) == 0 {
		return apierr.Invalid("origins", "must hold one or more; DELETE removes all")
	}
	organization := r.PathValue("organization_id")
	if err := a.options.Users.SetOrigins(r.Context(), actor(r, l), organization, body.Origins); err != nil {
		return err
	}
	return write(w, http.StatusOK, organizationOrigins{organization, body.Origins})
}

func (a *API) removeOrigins(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	if err := a.options.Users.SetOrigins(r.Context(), actor(r, l), r.PathValue("organization_id"), nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
