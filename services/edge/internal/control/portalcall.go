package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// portalKey stands for the key in what a session calls: in usage, and in the gateway's spend.
const portalKey = "portal"

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
	for _, r := range a.options.Portal.Table.Routes {
		if a.options.Portal.Table.Dialect(r.Path) != "" || r.WebSocket || r.Upstream == upstreamControl {
			continue
		}
		if routes[r.Path] == nil {
			routes[r.Path] = make(map[string]sessionHandler)
		}
		routes[r.Path][r.Method] = a.relay(r)
	}
	maps.Copy(routes, a.alertRoutes())
	return routes
}

// relay passes a call of a customers' route on if the session's scopes open it, as the session's organization, owner
// and user.
func (a *API) relay(r route.Route) sessionHandler {
	p := a.options.Portal
	target, need, use := r.TargetBelow(p.Upstreams[r.Upstream]), r.Need(), quota.UseOf(r.Metric)
	return func(w http.ResponseWriter, req *http.Request, l *chain.Line, s *portal.Session) error {
		if err := need.MetBy(s.Grants()); err != nil {
			return err
		}
		actAs(req, r, s)
		call := proxy.Call{
			Target: target(req), Timeout: r.Timeout, Organization: s.Organization, Key: portalKey,
			Follow: func(end context.CancelCauseFunc) func() { return a.follow(r, s, end) },
			Inject: func(h http.Header) { chain.Inject(req.Context(), h) },
			Succeeded: func() func() error {
				l.Succeeded = true
				return func() error { return a.count(req.Context(), s, r.Metric) }
			},
		}
		who, err := a.quotaOf(req.Context(), s, use)
		if err != nil {
			return err
		}
		return a.quotas.Hold(w, req, l, who, use, func() error { return p.Relay.Do(w, req, call) })
	}
}

// quotaOf returns what a session's calls count under: its organization, whose plan is read for calls that are billed.
func (a *API) quotaOf(ctx context.Context, s *portal.Session, use quota.Use) (quota.Caller, error) {
	who := quota.Caller{Key: portalKey, Organization: s.Organization}
	if use == 0 {
		return who, nil
	}
	var err error
	who.OrganizationPlan, err = a.options.Keys.OrganizationPlan(ctx, s.Organization)
	return who, err
}

// actAs puts a session's owner and user in place of those that a request names in its header and query. A body that
// names another one is refused by the service, since it differs from the header.
func actAs(req *http.Request, r route.Route, s *portal.Session) {
	query := req.URL.Query()
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
func (a *API) follow(r route.Route, s *portal.Session, end context.CancelCauseFunc) (done func()) {
	clock := time.AfterFunc(time.Until(s.ExpiresAt), func() { end(errSessionEnds) })
	if !r.EventStream || a.options.Portal.Drain == nil {
		return func() { clock.Stop() }
	}
	stop := a.options.Portal.Drain(func() {
		end(apierr.Unavailable("the service restarts; connect again", errors.New("control drains")))
	})
	return func() {
		clock.Stop()
		stop()
	}
}

// count adds a successful call to the usage counters before its response is complete. The calls of people are few: each
// is a batch of its own.
func (a *API) count(ctx context.Context, s *portal.Session, metric string) error {
	if metric == "" {
		return nil
	}
	counter := meter.Counter{Organization: s.Organization, Key: portalKey, Metric: metric, Minute: time.Now().UTC().Truncate(time.Minute)}
	batch := meter.Batch{Writer: "portal-" + rand.Text(), Last: 1, Counts: []meter.Count{{Counter: counter, Count: 1}}}
	if _, err := a.options.Portal.Counter.Apply(context.WithoutCancel(ctx), batch); err != nil {
		return fmt.Errorf("count a call of the portal: %w", err)
	}
	return nil
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
