package api

import (
	"context"
	"net/http"
	"net/url"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/socket"
)

// product serves a customers' route: it checks the key or token, what that may call, rate and quota, then relays the call.
func (a *API) product(r route.Route, base *url.URL) chain.Handler {
	dialect, target, need, use := a.options.Table.Dialect(r.Path), r.TargetBelow(base), r.Need(), quota.UseOf(r.Metric)
	page := a.pages(r)
	return func(w http.ResponseWriter, req *http.Request, l *chain.Line) error {
		if req.Method != r.Method { // http.ServeMux accepts HEAD for GET
			return chain.NotAllowed(w, req, r.Method)
		}
		who, err := a.identify(w, req)
		if err != nil {
			return err
		}
		l.Organization, l.Key = who.organization, who.name
		if err := who.may(need, req); err != nil {
			return err
		}
		if err := page(req, who); err != nil {
			return err
		}
		if err := a.admit(w, req, who); err != nil {
			return err
		}
		call := proxy.Call{
			Target: target(req), Timeout: r.Timeout,
			Organization: who.organization, Key: who.key, User: who.user, Owner: who.owner, Terms: who.terms, Dialect: dialect,
			Verified: who.verified,
			Body:     a.decided(r, who.organization, req.PathValue("ref")),
			Follow:   func(end context.CancelCauseFunc) func() { return a.follow(r, who, end) },
			Inject:   func(h http.Header) { chain.Inject(req.Context(), h) },
			Metric:   r.Metric,
			Succeeded: func(counted bool) {
				l.Succeeded = true
				if r.Metric != "" {
					a.receipts.Check(req.Context(), counted, r.Upstream, r.Path)
				}
			},
		}
		if r.WebSocket && socket.Requested(req) {
			return a.connect(w, req, l, need, use, call)
		}
		return a.quotas.Hold(w, req, l, who.quota, use, func() error { return a.options.Relay.Do(w, req, call) })
	}
}

// errDrain ends a stream of events for its reader when the edge drains.
var errDrain = apierr.Unavailable("the edge restarts; connect again", chain.ErrDrained)

// follow ends a call with its key or token, and a stream of events, which has no end of its own, also when the edge drains.
func (a *API) follow(r route.Route, who identity, end context.CancelCauseFunc) (done func()) {
	unfollow := a.followIdentity(who, end)
	if !r.EventStream || a.options.Drain == nil {
		return unfollow
	}
	stop := a.options.Drain(func() { end(errDrain) })
	return func() {
		stop()
		unfollow()
	}
}
