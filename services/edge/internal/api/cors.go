package api

import (
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
)

// Values of the CORS protocol (fetch.spec.whatwg.org, section 3.2). Pages send their token in Authorization: cookies and
// other credentials of the browser are not asked for, so that their mode is never allowed.
const (
	corsRequestHeaders = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id"
	corsAnswerHeaders  = "Deprecation, ETag, Idempotent-Replayed, RateLimit, RateLimit-Policy, Retry-After, Sunset, " +
		"X-Request-Id, X-Should-Retry"
	// corsMaxAge is how long a browser may keep the answer to a preflight, in seconds.
	corsMaxAge = "600"
)

// shared returns the methods by pattern of the routes that tokens of end users open.
func (a *API) shared() map[string][]string {
	methods := make(map[string][]string)
	for _, r := range a.options.Table.Routes {
		if r.Scope.ForEndUsers() {
			pattern, _ := r.Pattern()
			methods[pattern] = append(methods[pattern], r.Method)
		}
	}
	for _, list := range methods {
		slices.Sort(list)
	}
	return methods
}

// preflight answers whether a page may call a path with these methods. A preflight has no credential, so that the origins
// of all organizations are allowed; the call itself is refused unless the token's organization allows its origin.
func (a *API) preflight(methods []string) chain.Handler {
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
		origin := origin(r)
		if origin == "" || r.Header.Get("Access-Control-Request-Method") == "" {
			return chain.NotAllowed(w, r, allow)
		}
		h := w.Header()
		h.Set("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
		if !a.options.Users.AllowsOrigin(nil, origin) {
			return usertoken.ErrOrigin
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Allow-Headers", corsRequestHeaders)
		h.Set("Access-Control-Max-Age", corsMaxAge)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// share lets the page of a request's origin read the answer if the token may be used from there, and otherwise returns
// ErrOrigin. It also accepts requests without an origin, which come from no page, and requests that browsers mark as
// same-origin, which come from the edge's own pages. With no valid token, a page of any organization may read that it
// needs a new one.
func (a *API) share(w http.ResponseWriter, r *http.Request, token *usertoken.Token) error {
	origin := origin(r)
	if origin == "" || r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return nil
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !a.options.Users.AllowsOrigin(token, origin) {
		return usertoken.ErrOrigin
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsAnswerHeaders)
	return nil
}

// pages returns what refuses a caller's request to a route that comes from a page of an origin that the organization
// doesn't allow. The Model Context Protocol demands it of every server, whatever the credential is (streamable HTTP,
// "Security Warning"); a token is checked with its own origins before.
func (a *API) pages(r route.Route) func(*http.Request, identity) error {
	if !a.options.Table.JSONRPCErrors(r.Path) {
		return func(*http.Request, identity) error { return nil }
	}
	return func(req *http.Request, who identity) error {
		origin := origin(req)
		if origin == "" || a.options.Users.AllowsOrigin(&usertoken.Token{Organization: who.organization}, origin) {
			return nil
		}
		return usertoken.ErrOrigin
	}
}

// origin returns the origin of the page that makes a request, empty if it comes from none.
func origin(r *http.Request) string {
	if values := r.Header["Origin"]; len(values) == 1 {
		return values[0]
	} else if len(values) > 1 {
		return "null" // several are none that can be allowed
	}
	return ""
}
