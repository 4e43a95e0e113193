package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
)

// decideApprovals is the scope of decisions on approvals.
const decideApprovals apikey.Permission = "ai:approvals:decide"

// errNoPerson refuses a decision by a session whose link named no user: a page must not say who decides.
var errNoPerson = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "this session names no user, who would decide; ask for a link with a user_id")

// approvalDecision is what a page says of a decision on an approval.
type approvalDecision struct {
	Reason string `json:"reason"`
}

// decideInOwnName makes the customers' routes that decide on approvals do so in the name of the session's person, who
// must be a member of the group that decides or an operator.
func (a *API) decideInOwnName(table route.Table, routes map[string]map[string]sessionHandler) {
	for _, r := range table.Routes {
		next := routes[r.Path][r.Method]
		switch {
		case next == nil || r.Scope != decideApprovals:
		case r.HasBody():
			routes[r.Path][r.Method] = withScope(r, a.ofMember(inOwnName[approvalDecision](decidedBy, next)))
		default:
			routes[r.Path][r.Method] = withScope(r, revokedInOwnName(next))
		}
	}
}

// decidedBy returns the fields that say that the session's person decided, and in which way.
func decidedBy(s *portal.Session, name string) map[string]string {
	via := approver.ViaPortal
	if s.Operator != "" {
		via = approver.ViaConsole
	}
	return map[string]string{"decided_by": name, "decided_via": via}
}

// ofMember refuses users who are not in the group of the approval that a request names, if that group exists. An
// operator decides by the role, under the operator's own name.
func (a *API) ofMember(next sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session) error {
		if p := a.options.Portal; s.Operator == "" && s.User != "" && p.Members != nil {
			if err := p.Members.CheckNamed(r.Context(), s.Organization, r.PathValue("ref"), s.User); err != nil {
				return err
			}
		}
		return next(w, r, l, s)
	}
}

// errOwnersSession refuses a route that reaches the whole organization to an owner's session. New links for owners have
// no such scopes.
var errOwnersSession = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "this operation reaches the whole organization, and this session is an owner's")

// withScope refuses sessions without the scope of a route, and owners' sessions if the route reaches the whole
// organization.
func withScope(r route.Route, next sessionHandler) sessionHandler {
	need := r.Need()
	return func(w http.ResponseWriter, req *http.Request, l *chain.Line, s *portal.Session) error {
		if s.Owner != "" && s.Operator == "" && r.ScopedBy == route.ScopedByOrganization {
			return errOwnersSession
		}
		if err := need.MetBy(s.Grants()); err != nil {
			return err
		}
		return next(w, req, l, s)
	}
}

// personOf returns who decides in a session: the operator in the console, otherwise the user. An operator is no user: none is
// named beside the operator.
func personOf(s *portal.Session) (string, error) {
	switch {
	case s.Operator != "":
		s.User = ""
		return s.Operator, nil
	case s.User == "":
		return "", errNoPerson
	}
	return s.User, nil
}

// inOwnName reads a page's body and adds fields that name the session's person. A page can't name another person.
func inOwnName[T any](fields func(s *portal.Session, name string) map[string]string, next sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session) error {
		name, err := personOf(s)
		if err != nil {
			return err
		}
		var body T
		if err := read(w, r, &body); err != nil {
			return err
		}
		text, err := withFields(body, fields(s, name))
		if err != nil {
			return fmt.Errorf("encode a request in a person's name: %w", err)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Type", "application/json")
		return next(w, r, l, s)
	}
}

// revokedInOwnName puts the name of the session's person in place of the one that a page names in the query.
func revokedInOwnName(next sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session) error {
		name, err := personOf(s)
		if err != nil {
			return err
		}
		query := r.URL.Query()
		query.Set("revoked_by", name)
		at := *r.URL
		at.RawQuery = query.Encode()
		r.URL = &at
		return next(w, r, l, s)
	}
}

// withFields returns a value as a JSON object with further fields.
func withFields(value any, more map[string]string) ([]byte, error) {
	object, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]any)
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	for name, text := range more {
		fields[name] = text
	}
	return json.Marshal(fields)
}
