package control

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
)

const (
	// inOrganization begins the paths of operations in one organization's place.
	inOrganization = consoleAPI + "/organizations/{organization}"
	// consoleTime bounds the wait for the head of a service's response.
	consoleTime = 30 * time.Second
)

// mountOperations mounts the operators' own operations at their paths below consoleAPI, and the customers' routes below
// inOrganization.
func (a *API) mountOperations(served *chain.Chain) {
	for path, methods := range a.operatorRoutes() {
		for method, h := range methods {
			methods[method] = a.operating(func(w http.ResponseWriter, r *http.Request, l *chain.Line, _ *console.Session) error {
				return h(w, r, l)
			})
		}
		served.Mount(consoleAPI+path, methods)
	}
	c := a.options.Console
	customers := &Portal{Table: c.Table.Unbilled(), Upstreams: c.Upstreams, Relay: c.Relay, Limiter: c.Limiter, Drain: c.Drain}
	routes := customers.customerRoutes(unheld, nil)
	a.decideInOwnName(c.Table, routes)
	maps.Copy(routes, a.alertRoutes())
	maps.Copy(routes, a.approverRoutes())
	maps.Copy(routes, a.limitRoutes())
	maps.Copy(routes, customers.toolRoutes())
	for path, of := range routes {
		methods := make(map[string]chain.Handler, len(of))
		for method, next := range of {
			methods[method] = a.acting(method+" "+path, next)
		}
		served.Mount(inOrganization+path, methods)
	}
	for path, of := range customers.toolRoutes() {
		methods := make(map[string]chain.Handler, len(of))
		for method, next := range of {
			methods[method] = a.acting(method+" "+path, next)
		}
		served.Mount(consoleAPI+path, methods)
	}
}

// acting returns the handler of an operation in the place of the path's organization, if it has one. It is recorded in the
// audit.
func (a *API) acting(operation string, next sessionHandler) chain.Handler {
	return a.operating(func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *console.Session) error {
		acting, err := actingFor(r, s)
		if err != nil {
			return err
		}
		if err := a.record(r, s, operation, acting.Organization); err != nil {
			return err
		}
		l.Organization = acting.Organization
		return next(w, r, l, acting)
	})
}

// record stores what a request is about to change in the audit, before it does.
func (a *API) record(r *http.Request, s *console.Session, operation, organization string) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	details := map[string]any{"operation": operation}
	for _, name := range []string{"id", "sub_id", "ref", "run_id", "notification_id", "server_id", "tool", "standing_id"} {
		if id := r.PathValue(name); id != "" && caller.Printable(id) && !screen.IDLooksLikeKey(id) {
			details[name] = id
		}
	}
	return a.options.Console.Sessions.Record(r.Context(), s, r.Header.Get(caller.HeaderRequest), organization, details)
}

// everyOrganization are the services' operations that read all organizations, or the one that their filter names. Nothing
// else is relayed in no organization's place.
var everyOrganization = []route.Route{
	{
		Method: http.MethodGet, Path: "/webhooks/deliveries", Upstream: "webhook-egress", Target: "/v1/deliveries",
		Query: []string{"all_organizations", "owner_id", "status", "event_type", "host", "created_after", "created_before", "limit", "cursor"},
	},
	{
		Method: http.MethodGet, Path: "/webhooks/endpoints", Upstream: "webhook-egress", Target: "/v1/endpoints",
		Query: []string{"all_organizations", "owner_id", "active", "event_type", "limit", "cursor"},
	},
	{
		Method: http.MethodGet, Path: "/webhooks/circuits", Upstream: "webhook-egress", Target: "/v1/circuits",
		Query: []string{"all_organizations", "organization_id", "state", "limit", "cursor"},
	},
	{
		Method: http.MethodGet, Path: "/webhooks/house-events", Upstream: "webhook-egress", Target: "/v1/house/events",
		Query: []string{"limit", "cursor"},
	},
	{
		Method: http.MethodGet, Path: "/notifications/registrations", Upstream: "notify", Target: "/v1/push/registrations",
		Query: []string{"all_organizations", "user_id", "site_id", "limit", "cursor"},
	},
	{
		Method: http.MethodGet, Path: "/notifications/sends", Upstream: "notify", Target: "/v1/notifications/sends",
		Query: []string{"all_organizations", "organization_id", "status", "channel", "created_after", "created_before", "limit", "cursor"},
	},
}

// mountServices mounts the operations of everyOrganization below consoleAPI.
func (a *API) mountServices(served *chain.Chain) {
	c := a.options.Console
	for _, r := range everyOrganization {
		if c.Upstreams[r.Upstream] == nil {
			continue
		}
		target := r.TargetBelow(c.Upstreams[r.Upstream])
		served.Mount(consoleAPI+r.Path, map[string]chain.Handler{
			r.Method: a.operating(func(w http.ResponseWriter, req *http.Request, _ *chain.Line, _ *console.Session) error {
				for _, identity := range []string{caller.HeaderOwner, caller.HeaderUser, caller.HeaderRun} {
					req.Header.Del(identity)
				}
				return c.Relay.Do(w, req, proxy.Call{
					Target: target(req), Timeout: consoleTime, Key: "console",
					Inject: func(h http.Header) { chain.Inject(req.Context(), h) },
				})
			}),
		})
	}
}

// The gateway's own page: its files, what it reads, and what it changes.
var (
	gatewayPage = []string{"/console", "/console.css", "/console.js", "/console.svg"}
	gatewayGet  = []string{
		"/health/ready", "/v1/fleet/status", "/v1/providers", "/v1/traces", "/v1/models/deprecation-notifications",
		"/v1/admin/pin-status", "/v1/admin/routing-config", "/v1/admin/orgs/{organization}/spend",
	}
	gatewayPost = []string{
		"/v1/admin/pin", "/v1/admin/unpin", "/v1/admin/canary", "/v1/admin/canary-stop", "/v1/admin/reload-policy",
	}
	gatewayPut = []string{"/v1/admin/orgs/{organization}/budget"}
)

// gatewayPrefix begins the paths of the gateway's page, which calls relative to its own address.
const gatewayPrefix = console.Prefix + "gateway"

// mountGateway mounts the gateway's page and what it calls below gatewayPrefix.
func (a *API) mountGateway(served *chain.Chain) {
	c := a.options.Console
	if c.Upstreams[upstreamGateway] == nil {
		return
	}
	for _, path := range gatewayPage { // as the other pages, without a session
		served.Mount(gatewayPrefix+path, map[string]chain.Handler{http.MethodGet: func(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
			return c.passOn(w, r, "")
		}})
	}
	for method, paths := range map[string][]string{http.MethodGet: gatewayGet, http.MethodPost: gatewayPost, http.MethodPut: gatewayPut} {
		for _, path := range paths {
			served.Mount(gatewayPrefix+path, map[string]chain.Handler{
				method: a.operating(func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *console.Session) error {
					l.Organization = r.PathValue("organization")
					if err := checkIdentities(map[string]string{"organization_id": l.Organization}); err != nil {
						return err
					}
					if err := a.record(r, s, method+" "+path, l.Organization); err != nil {
						return err
					}
					return c.passOn(w, r, "Bearer "+c.Token.Reveal())
				}),
			})
		}
	}
}

// passOn passes a request on to the gateway, at its path there, with an Authorization header or none. The session's
// cookie stays here.
func (c *Console) passOn(w http.ResponseWriter, r *http.Request, authorization string) error {
	r.Header.Del("Cookie")
	r.Header.Del("Authorization")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	base := c.Upstreams[upstreamGateway]
	at := *base
	at.Path = strings.TrimSuffix(base.Path, "/") + strings.TrimPrefix(r.URL.Path, gatewayPrefix)
	at.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + strings.TrimPrefix(r.URL.EscapedPath(), gatewayPrefix)
	at.RawQuery = r.URL.RawQuery
	return c.Plain.Do(w, r, proxy.Call{
		Target: &at, Timeout: consoleTime,
		Inject: func(h http.Header) { chain.Inject(r.Context(), h) },
	})
}
