package control

import (
	"net/http"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Scopes of alert rules.
const (
	readRules  apikey.Permission = "alerts:rules:read"
	writeRules apikey.Permission = "alerts:rules:write"
)

// upstreamControl is this role in the table of routes.
const upstreamControl = "control"

// alertRoutes returns the customers' operations of alert rules, which this role answers itself, by path and method. The
// portal and the operators' console have them.
func (a *API) alertRoutes() map[string]map[string]sessionHandler {
	if a.options.Alerts == nil {
		return nil
	}
	return map[string]map[string]sessionHandler{"/product/v1/alerts/rules": {
		http.MethodGet: ofOrganization(readRules, errOwnersRules, func(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
			return a.writeAlertRules(w, r, s.Organization)
		}),
		http.MethodPut: ofOrganization(writeRules, errOwnersRules, func(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
			return a.setAlertRules(w, r, sessionAuthor(r, s), s.Organization)
		}),
	}}
}

// sessionAuthor returns the author of a session's change of rules: the session and its user, or the operator.
func sessionAuthor(r *http.Request, s *portal.Session) alert.Author {
	by := alert.Author{Name: sessionActor(r, s).Name, User: s.User, Request: r.Header.Get(caller.HeaderRequest), At: present()}
	if s.Operator != "" {
		by.Name, by.User = s.Operator, ""
	}
	return by
}

var errOwnersRules = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "alert rules are the organization's, and this session is an owner's")

// ofOrganization returns a handler of what is the whole organization's, which needs a scope. It refuses a session of an
// owner with an error that says so.
func ofOrganization(scope apikey.Permission, owners error, next sessionHandler) sessionHandler {
	need := apikey.NewNeed(nil, "", scope)
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session) error {
		if s.Owner != "" {
			return owners
		}
		if err := need.MetBy(s.Grants()); err != nil {
			return err
		}
		return next(w, r, l, s)
	}
}
