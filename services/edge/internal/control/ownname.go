package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"switchyard.dev/services/edge/internal/apikey"
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

// decideInOwnName makes those of the customers' routes that decide on approvals do so in the name of the session's person.
func decideInOwnName(table route.Table, routes map[string]map[string]sessionHandler) {
	for _, r := range table.Routes {
		next := routes[r.Path][r.Method]
		switch {
		case next == nil || r.Scope != decideApprovals:
		case r.HasBody():
			routes[r.Path][r.Method] = withScope(r, inOwnName[approvalDecision]("decided_by", next))
		default:
			routes[r.Path][r.Method] = withScope(r, revokedInOwnName(next))
		}
	}
}

// withScope refuses sessions without the scope of a route.
func withScope(r route.Route, next sessionHandler) sessionHandler {
	need := r.Need()
	return func(w http.ResponseWriter, req *http.Request, l *chain.Line, s *portal.Session) error {
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

// inOwnName reads a body of a page, and adds a field with the name of the session's person to it. A page can't name another
// one.
func inOwnName[T any](field string, next sessionHandler) sessionHandler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session) error {
		name, err := personOf(s)
		if err != nil {
			return err
		}
		var body T
		if err := read(w, r, &body); err != nil {
			return err
		}
		text, err := withField(body, field, name)
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

// withField returns a value as a JSON object with one more field.
func withField(value any, field, text string) ([]byte, error) {
	object, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]any)
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	fields[field] = text
	return json.Marshal(fields)
}
