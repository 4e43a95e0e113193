package api

import (
	"context"
	"net/http"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/usertoken"
)

// identity is who calls: the holder of a product key, or an end user with a token.
type identity struct {
	// product is the key, token the token; the other is nil.
	product *apikey.Key
	token   *usertoken.Token
	// kind is "key" or "user". name is in the log: the id of the key or token. key is what services and counters have.
	kind, name, key string
	// user and owner are the token's; terms are the key's.
	organization, user, owner, terms string
	// verified reports whether the token proves that its user calls.
	verified bool
	buckets  apikey.Buckets
	// quota is what the calls count under. A token has no plan: none of its routes is billed.
	quota quota.Caller
}

// tokenKey stands for the key of calls with a token, in counters and at the services.
const tokenKey = "token"

// identify finds the key or the token of a request. For a token it decides about the origin of the page that calls, too.
func (a *API) identify(w http.ResponseWriter, r *http.Request) (identity, error) {
	authorization := r.Header.Get("Authorization")
	if text, ok := usertoken.Presented(authorization); ok {
		return a.identifyUser(w, r, text)
	}
	key, err := a.options.Verifier.Verify(r.Context(), authorization)
	if err != nil {
		return identity{}, err
	}
	return identity{
		product: key, kind: "key", name: key.ID, key: key.ID, organization: key.Organization, terms: key.TermsHeader, buckets: key.Buckets,
		quota: callerOf(key),
	}, nil
}

func (a *API) identifyUser(w http.ResponseWriter, r *http.Request, text string) (identity, error) {
	token, err := a.options.Users.Verify(text)
	if shared := a.share(w, r, token); err == nil {
		err = shared
	}
	if err != nil {
		return identity{}, err
	}
	return identity{
		token: token, kind: "user", name: token.ID, key: tokenKey, organization: token.Organization, user: token.User, owner: token.Owner,
		verified: token.Verified, buckets: a.options.Users.Buckets(token),
	}, nil
}

// may returns nil if the caller may make a request to a route with a need. A token's user must be the one that the query
// names, if it does; the service compares that of the body.
func (who identity) may(need apikey.Need, r *http.Request) error {
	if who.token == nil {
		return who.product.May(need)
	}
	if err := who.token.May(need); err != nil {
		return err
	}
	for _, user := range r.URL.Query()["user_id"] {
		if user != who.user {
			return usertoken.ErrUser
		}
	}
	return nil
}

// followIdentity ends a call with its key or token.
func (a *API) followIdentity(who identity, end context.CancelCauseFunc) (done func()) {
	if who.token == nil {
		return a.options.Verifier.Follow(who.product, end)
	}
	return a.options.Users.Follow(who.token, end)
}
