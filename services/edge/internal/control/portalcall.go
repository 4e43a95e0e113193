package control

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// portalRoutes returns the operations of the pages by path below apiPath and method: the session, keys, and the
// customers' routes at their own paths. The formats of other APIs and WebSockets are for programs, and tokens of end users
// are minted with a key.
func (a *API) portalRoutes() map[string]map[string]sessionHandler {
	routes := map[string]map[string]sessionHandler{
		"/session":          {http.MethodGet: a.showSession, http.MethodDelete: a.endSession},
		"/keys":             {http.MethodGet: a.sessionKeys, http.MethodPost: a.createSessionKey},
		"/keys/{id}":        {http.MethodDelete: a.revokeSessionKey},
		"/keys/{id}/rotate": {http.MethodPost: a.rotateSessionKey},
	}
	customers := a.options.Portal.customerRoutes(a.holdToPlan, a.receipts)
	a.decideInOwnName(a.options.Portal.Table, customers)
	maps.Copy(routes, customers)
	maps.Copy(routes, a.alertRoutes())
	maps.Copy(routes, a.approverRoutes())
	maps.Copy(routes, a.personRoutes())
	maps.Copy(routes, a.limitRoutes())
	return routes
}

// hold makes a session's call, if a plan doesn't refuse it.
type hold func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session, use quota.Use, call func() error) error

// customerRoutes returns the customers' routes that sessions may call, by path and method. receipts may be nil if no route
// is billed.
func (p *Portal) customerRoutes(hold hold, receipts *chain.Receipts) map[string]map[string]sessionHandler {
	routes := make(map[string]map[string]sessionHandler)
	for _, r := range p.Table.Routes {
		if p.Table.Dialect(r.Path) != "" || r.WebSocket || r.Upstream == upstreamControl {
			continue
		}
		if routes[r.Path] == nil {
			routes[r.Path] = make(map[string]sessionHandler)
		}
		routes[r.Path][r.Method] = p.relay(r, hold, receipts)
	}
	return routes
}

// relay passes a call of a customers' route on if the session's scopes open it.
func (p *Portal) relay(r route.Route, hold hold, receipts *chain.Receipts) sessionHandler {
	return withScope(r, p.pass(r, hold, receipts))
}

// pass passes a call on, as the session's organization, owner and user.
func (p *Portal) pass(r route.Route, hold hold, receipts *chain.Receipts) sessionHandler {
	target, use := r.TargetBelow(p.Upstreams[r.Upstream]), quota.UseOf(r.Metric)
	return func(w http.ResponseWriter, req *http.Request, l *chain.Line, s *portal.Session) error {
		actAs(req, r, s)
		call := proxy.Call{
			Target: target(req), Timeout: r.Timeout, Organization: s.Organization, Key: s.Key(),
			OwnerSession: s.Owner != "",
			Verified:     s.Operator == "" && s.Owner == "" && s.User != "", // Operators and owners name users without proof.
			Follow:       func(end context.CancelCauseFunc) func() { return p.follow(r, s, end) },
			Inject:       func(h http.Header) { chain.Inject(req.Context(), h) },
			Metric:       r.Metric,
			Succeeded: func(counted bool) {
				l.Succeeded = true
				if r.Metric != "" {
					receipts.Check(req.Context(), counted, r.Upstream, r.Path)
				}
			},
		}
		return hold(w, req, l, s, use, func() error { return p.Relay.Do(w, req, call) })
	}
}

// holdToPlan holds calls of the portal to the plan of their organization, which is read for those that are billed.
func (a *API) holdToPlan(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session, use quota.Use, call func() error) error {
	who := quota.Caller{Key: s.Key(), Organization: s.Organization}
	if use != 0 {
		plan, err := a.options.Keys.OrganizationPlan(r.Context(), s.Organization)
		if err != nil {
			return err
		}
		who.OrganizationPlan = plan
	}
	return a.quotas.Hold(w, r, l, who, use, call)
}

// unheld makes a call whatever plans say.
func unheld(_ http.ResponseWriter, _ *http.Request, _ *chain.Line, _ *portal.Session, _ quota.Use, call func() error) error {
	return call()
}

// actAs puts a session's owner and user in place of those that a request names in its header and query. A body that
// names another one is refused by the service, since it differs from the header. Runs are the organization's, so that an
// owner's session names none.
func actAs(req *http.Request, r route.Route, s *portal.Session) {
	query := req.URL.Query()
	if s.Owner != "" {
		req.Header.Del(caller.HeaderRun)
	}
	for _, identity := range []struct{ header, parameter, value string }{
		{caller.HeaderOwner, "owner_id", s.Owner}, {caller.HeaderUser, "user_id", s.User},
	} {
		req.Header.Del(identity.header)
		if identity.value == "" {
			continue
		}
		req.Header.Set(identity.header, identity.value)
		if slices.Contains(r.Query, identity.parameter) && r.Upstream != upstreamGateway {
			query.Set(identity.parameter, identity.value)
		}
	}
	url := *req.URL
	url.RawQuery = query.Encode()
	req.URL = &url
}

// upstreamGateway is the service whose user_id is a filter of records that belong to the organization.
const upstreamGateway = "gateway"

var errSessionEnds = apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "the session has ended")

// follow ends a call with its session, and a stream of events also when control drains.
func (p *Portal) follow(r route.Route, s *portal.Session, end context.CancelCauseFunc) (done func()) {
	clock := time.AfterFunc(time.Until(s.ExpiresAt), func() { end(errSessionEnds) })
	if !r.EventStream || p.Drain == nil {
		return func() { clock.Stop() }
	}
	stop := p.Drain(func() {
		end(apierr.Unavailable("the service restarts; connect again", errors.New("control drains")))
	})
	return func() {
		clock.Stop()
		stop()
	}
}

// showSession answers what the session may do.
func (a *API) showSession(w http.ResponseWriter, _ *http.Request, _ *chain.Line, s *portal.Session) error {
	return write(w, http.StatusOK, struct {
		Organization string              `json:"organization_id"`
		Owner        string              `json:"owner_id"`
		User         string              `json:"user_id"`
		Scopes       []apikey.Permission `json:"scopes"`
		Products     []string            `json:"products"`
		ReturnURL    string              `json:"return_url"`
		ExpiresAt    time.Time           `json:"expires_at"`
	}{s.Organization, s.Owner, s.User, s.Scopes, s.Products(a.options.Portal.Table), s.ReturnURL, s.ExpiresAt})
}

// endSession signs out.
func (a *API) endSession(w http.ResponseWriter, r *http.Request, _ *chain.Line, _ *portal.Session) error {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return portal.ErrSession
	}
	if err := a.options.Portal.Sessions.End(r.Context(), cookie.Value); err != nil {
		return err
	}
	http.SetCookie(w, a.cookie("", -time.Second))
	w.WriteHeader(http.StatusNoContent)
	return nil
}
