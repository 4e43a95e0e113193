package control

import (
	"context"
	"net/http"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

const (
	// decisionOfUser is the path to which the role serve relays calls of end users with a token. decisionOfSession is
	// the same operation among the portal's.
	decisionOfUser    = "/v1/approvals/{ref}/decision"
	decisionOfSession = "/product/v1/ai/approvals/{ref}/decision"
)

// askPerson serves the page on which an identified person decides. The page itself shows nothing: its calls need a
// session of the portal, or an end user's token.
func (a *API) askPerson(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	if wait := a.options.Decisions.admit(r, ""); wait > 0 {
		return writeLimited(w, wait)
	}
	decision.WriteOwn(w)
	return nil
}

// errNotUser refuses a call in which a key only names its user.
var errNotUser = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "this operation needs the user's own token: a key can't decide in a user's name")

// userOf returns the end user of a call that the role serve relays. Serve has verified the user's token. A token of an
// owner is refused as an owner's session is.
func userOf(r *http.Request) (approver.Person, error) {
	var c caller.Caller
	if err := c.Read(r.Header.Get); err != nil {
		return approver.Person{}, err
	}
	if !c.UserVerified || c.Organization == "" {
		return approver.Person{}, errNotUser
	}
	if c.Owner != "" {
		return approver.Person{}, errOwnersApprovals
	}
	return approver.Person{Organization: c.Organization, User: c.User, Way: approver.ViaUserToken}, nil
}

func (a *API) showUserDecision(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	who, err := userOf(r)
	if err != nil {
		return err
	}
	return a.showTo(w, r, who)
}

func (a *API) decideAsUser(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	who, err := userOf(r)
	if err != nil {
		return err
	}
	return a.decideAs(w, r, who)
}

// personRoutes returns the operations of the portal with which a session's person decides, whatever the session's
// scopes: the group says who may decide, and the link's user_id says who the person is.
func (a *API) personRoutes() map[string]map[string]sessionHandler {
	if a.options.Decisions == nil {
		return nil
	}
	as := func(next func(w http.ResponseWriter, r *http.Request, who approver.Person) error) sessionHandler {
		return func(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
			switch {
			case s.Owner != "":
				return errOwnersApprovals
			case s.User == "":
				return errNoPerson
			}
			return next(w, r, approver.Person{Organization: s.Organization, User: s.User, Way: approver.ViaPortal})
		}
	}
	return map[string]map[string]sessionHandler{
		decisionOfSession: {http.MethodGet: as(a.showTo), http.MethodPost: as(a.decideAs)},
	}
}

var errOwnersApprovals = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "approvals are the organization's, and this session or token is an owner's")

// showTo answers with what a person decides on.
func (a *API) showTo(w http.ResponseWriter, r *http.Request, who approver.Person) error {
	return a.answerPerson(w, r, func(ctx context.Context, ref string) (*decision.Decision, error) {
		return a.options.Decisions.Persons.Show(ctx, who, ref)
	})
}

// decideAs decides in the name of a person. The body names the version that the person was shown.
func (a *API) decideAs(w http.ResponseWriter, r *http.Request, who approver.Person) error {
	choice, err := readChoice(w, r)
	if err != nil {
		return err
	}
	choice.Proof = decision.ProofPage
	return a.answerPerson(w, r, func(ctx context.Context, ref string) (*decision.Decision, error) {
		return a.options.Decisions.Persons.Decide(ctx, who, ref, choice)
	})
}

func (a *API) answerPerson(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, ref string) (*decision.Decision, error)) error {
	d, err := do(r.Context(), r.PathValue("ref"))
	if err != nil {
		return refusalOf(err)
	}
	a.nameAsker(r.Context(), d)
	return write(w, http.StatusOK, d)
}
