package control

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// mintCustomerToken returns a token of an end user for the backend of a customer, which called with a product key. The token
// can't do more than the key: it verifies its user only if the key may give the scope to decide on approvals.
func (a *API) mintCustomerToken(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	var body mintBody
	key, err := a.readOf(w, r, &body, &body.Organization)
	if err != nil {
		return err
	}
	grants := apikey.GrantsOf(key.Permissions)
	if slices.ContainsFunc(body.Scopes, func(p apikey.Permission) bool { return p.ForEndUsers() && !grants.Give(p) }) {
		return usertoken.ErrBeyondKey // Mint refuses those that are not for end users.
	}
	return a.writeToken(w, r, keyActor(r, key), body.request(grants.Give(apikey.DecideOwn)))
}

// revokeCustomerTokens refuses tokens of end users that were minted before, for the backend of a customer.
func (a *API) revokeCustomerTokens(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	var body revokeBody
	key, err := a.readOf(w, r, &body, &body.Organization)
	if err != nil {
		return err
	}
	return a.revokeOf(w, r, keyActor(r, key), body)
}

// readOf decodes a customer's body, and sets its organization to that of the key with which the customer called. A body may
// repeat the organization, and not name another one.
func (a *API) readOf(w http.ResponseWriter, r *http.Request, body any, organization *string) (apikey.Key, error) {
	if err := read(w, r, body); err != nil {
		return apikey.Key{}, err
	}
	key, err := a.minter(r)
	if err != nil {
		return apikey.Key{}, err
	}
	*organization, err = caller.Caller{Organization: key.Organization}.OrganizationOf(*organization)
	return key, err
}

// needToMint is what a key must have to mint and revoke tokens, whatever its product: the role serve has checked that.
var needToMint = apikey.NewNeed(nil, "", apikey.MintTokens)

// minter returns the product key of a call that the role serve relays, which has checked it. It is read again: a key that
// has been revoked meanwhile mints no token that would outlive it.
func (a *API) minter(r *http.Request) (apikey.Key, error) {
	key, err := a.options.Keys.Get(r.Context(), r.Header.Get(caller.HeaderKey))
	if failure, ok := errors.AsType[*apierr.Error](err); ok && failure.Kind == apierr.KindNotFound {
		return apikey.Key{}, apikey.ErrInvalid
	}
	if err != nil {
		return apikey.Key{}, err
	}
	if !key.Live(time.Now()) || key.Organization != r.Header.Get(caller.HeaderOrganization) {
		return apikey.Key{}, apikey.ErrInvalid
	}
	return key, needToMint.MetBy(apikey.GrantsOf(key.Permissions))
}

// keyActor returns the author of a customer's request, for the audit.
func keyActor(r *http.Request, key apikey.Key) apikey.Actor {
	return apikey.Actor{Name: key.ID, Request: r.Header.Get(caller.HeaderRequest), Key: key.ID}
}
