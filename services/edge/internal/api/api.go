// Package api is the edge's HTTP face: the customers' routes, their catalog, and the operators' keys and usage.
// Package app mounts it.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/socket"
)

// Verifier finds the key of an Authorization header and follows it through a call, see apikey.Verifier.
type Verifier interface {
	Verify(ctx context.Context, authorization string) (*apikey.Key, error)
	Follow(key *apikey.Key, end context.CancelCauseFunc) (done func())
}

// Limiter limits the rate of keys and organizations, see limit.Limiter.
type Limiter interface {
	Take(ctx context.Context, key, organization limit.Bucket) (limit.Verdict, error)
}

// Counter counts successful calls, see meter.Meter.
type Counter interface {
	Admit() error
	Count(organization, key, metric string, at time.Time) (settled func() error)
}

// Relay proxies a call, see proxy.Relay.
type Relay interface {
	Do(w http.ResponseWriter, r *http.Request, call proxy.Call) error
}

// Sockets relays WebSocket connections, see proxy.Sockets.
type Sockets interface {
	Connect(w http.ResponseWriter, r *http.Request, call proxy.Call) (proxy.Session, error)
}

// Options configures the face. All fields are required unless their comment says otherwise.
type Options struct {
	Log    *slog.Logger
	Tracer trace.Tracer
	Meter  metric.Meter
	// Table holds the served routes, Upstreams the base URLs of the services by name.
	Table     route.Table
	Upstreams map[string]*url.URL
	Verifier  Verifier
	Limiter   Limiter
	Counter   Counter
	Relay     Relay
	Sockets   Sockets
	// Drain calls end in a goroutine of its own once the edge drains, unless it is stopped before. It may be nil.
	Drain     func(end func()) (stop func() bool)
	Keys      *apikey.Manager
	Ledger    meter.Ledger
	Retention meter.Retention
	// Bounds are those of Relay, which the page of documents states.
	Bounds proxy.Bounds
	// Tokens are the operators' tokens; nil disables their authentication, which is allowed on loopback only.
	Tokens *caller.Tokens
	// Open holds unauthenticated handlers by path, such as probes.
	Open map[string]http.Handler
}

// API serves requests; New creates it.
type API struct {
	options  Options
	duration metric.Float64Histogram
	mux      *http.ServeMux
}

// New returns the face.
func New(options Options) (http.Handler, error) {
	duration, err := options.Meter.Float64Histogram("switchyard.edge.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of requests by route and HTTP status."))
	if err != nil {
		return nil, fmt.Errorf("duration histogram: %w", err)
	}
	a := &API{options: options, duration: duration, mux: http.NewServeMux()}
	if err := a.mountRoutes(); err != nil {
		return nil, err
	}
	a.mountOperators()
	for path, h := range options.Open {
		a.mux.Handle(path, h)
	}
	nowhere := a.observe("none", func(http.ResponseWriter, *http.Request, *line) error {
		return apierr.NotFound("path")
	})
	a.mux.Handle("/", nowhere)
	return rpc.WithRequestID(a.speak(a.asItComes(nowhere))), nil
}

// asItComes matches paths exactly: a path that http.ServeMux would redirect to its clean form is not found.
func (a *API) asItComes(nowhere http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, text := range []string{r.URL.Path, r.URL.EscapedPath()} {
			if clean := path.Clean(text); text != clean && text != clean+"/" || !strings.HasPrefix(text, "/") {
				nowhere.ServeHTTP(w, r)
				return
			}
		}
		a.mux.ServeHTTP(w, r)
	})
}

// ownHeaders are the headers of the dialects that have their own: of the key, and of the request id in answers or empty.
var ownHeaders = map[string]struct{ key, id string }{
	route.DialectAnthropic: {"X-Api-Key", "Request-Id"},
	route.DialectAzure:     {"Api-Key", "Apim-Request-Id"},
	route.DialectGemini:    {"X-Goog-Api-Key", ""},
}

// speak copies the key from a dialect's own header to Authorization, which all other code reads, and adds the
// dialect's header for the request id to the response.
func (a *API) speak(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dialect := a.options.Table.Dialect(r.URL.Path)
		if own, ok := ownHeaders[dialect]; ok {
			bear(r, r.Header.Get(own.key))
			if own.id != "" {
				w.Header().Set(own.id, w.Header().Get(caller.HeaderRequest))
			}
		}
		if dialect == route.DialectGemini {
			bear(r, rpc.TakeQuery(r, "key"))
		}
		next.ServeHTTP(w, r)
	})
}

// bear makes a key that a request has elsewhere its Authorization, unless it has one.
func bear(r *http.Request, key string) {
	if key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
}

// mountRoutes mounts the customers' routes. Those of one pattern that differ in their verbs share a handler.
func (a *API) mountRoutes() error {
	paths := make(map[string]map[string]handler)
	verbs := make(map[string]map[string]handler)
	for _, r := range a.options.Table.Routes {
		base, ok := a.options.Upstreams[r.Upstream]
		if !ok {
			return fmt.Errorf("route %s: no URL of %s", r.Path, r.Upstream)
		}
		pattern, verb := r.Pattern()
		if paths[pattern] == nil {
			paths[pattern] = make(map[string]handler)
		}
		if verb == "" {
			paths[pattern][r.Method] = a.product(r, base)
			continue
		}
		id := r.Method + " " + pattern
		if verbs[id] == nil {
			verbs[id] = make(map[string]handler)
			paths[pattern][r.Method] = byVerb(verbs[id])
		}
		verbs[id][verb] = a.product(r, base)
	}
	for path, methods := range paths {
		a.mount(path, methods)
	}
	return a.mountCatalog(a.options.Table)
}

// byVerb chooses a handler by what follows the last colon of a path.
func byVerb(verbs map[string]handler) handler {
	return func(w http.ResponseWriter, r *http.Request, l *line) error {
		if h, ok := verbs[r.URL.Path[strings.LastIndexByte(r.URL.Path, ':')+1:]]; ok {
			return h(w, r, l)
		}
		return apierr.NotFound("path")
	}
}

// target returns the URL of a path below a service's base URL.
func target(base *url.URL, path string) *url.URL {
	root := *base
	if root.Path == "" { // JoinPath would leave the path relative, which is invalid in a request
		root.Path = "/"
	}
	return root.JoinPath(path)
}

// targets returns the function that returns where a request of a route goes. Values from the path are one segment each.
func targets(base *url.URL, r route.Route) func(req *http.Request) *url.URL {
	fixed := target(base, r.Target)
	if _, rest, ok := r.Rest(); ok {
		_, verb := r.Pattern()
		if verb != "" {
			verb = ":" + verb
		}
		return func(req *http.Request) *url.URL {
			return fixed.JoinPath(url.PathEscape(strings.TrimSuffix(req.PathValue(rest), verb)) + verb)
		}
	}
	names := r.Names()
	if len(names) == 0 {
		return func(*http.Request) *url.URL { return fixed }
	}
	return func(req *http.Request) *url.URL {
		pairs := make([]string, 0, 2*len(names))
		for _, name := range names {
			pairs = append(pairs, "{"+name+"}", url.PathEscape(req.PathValue(name)))
		}
		return target(base, strings.NewReplacer(pairs...).Replace(r.Target))
	}
}

// withQuery returns a URL with some parameters of a request's query string.
func withQuery(target *url.URL, req *http.Request, names []string) *url.URL {
	if len(names) == 0 || req.URL.RawQuery == "" {
		return target
	}
	asked, passed := req.URL.Query(), url.Values{}
	for _, name := range names {
		if values, ok := asked[name]; ok {
			passed[name] = values
		}
	}
	with := *target
	with.RawQuery = passed.Encode()
	return &with
}

// mountOperators mounts the operators' routes.
func (a *API) mountOperators() {
	for path, methods := range a.operatorRoutes() {
		for method, h := range methods {
			methods[method] = a.operator(h)
		}
		a.mount(path, methods)
	}
}

// operatorRoutes returns the operators' operations by path and method.
func (a *API) operatorRoutes() map[string]map[string]handler {
	return map[string]map[string]handler{
		"/admin/v1/keys": {http.MethodGet: a.listKeys, http.MethodPost: a.createKey},
		"/admin/v1/keys/{id}": {
			http.MethodGet: a.getKey, http.MethodPut: a.replaceKey, http.MethodPatch: a.updateKey, http.MethodDelete: a.revokeKey,
		},
		"/admin/v1/keys/{id}/rotate": {http.MethodPost: a.rotateKey},
		"/admin/v1/organizations/{organization_id}/rate-limit": {
			http.MethodGet: a.organizationLimit, http.MethodPut: a.limitOrganization, http.MethodDelete: a.unlimitOrganization,
		},
		"/admin/v1/audit": {http.MethodGet: a.audit},
		"/admin/v1/usage": {http.MethodGet: a.usage},
	}
}

// product serves a customers' route: it checks key, product, scope and rate, then relays the call.
func (a *API) product(r route.Route, base *url.URL) handler {
	dialect, targetOf, need := a.options.Table.Dialect(r.Path), targets(base, r), r.Need()
	return func(w http.ResponseWriter, req *http.Request, l *line) error {
		if req.Method != r.Method { // http.ServeMux accepts HEAD for GET
			return notAllowed(w, req, r.Method)
		}
		key, err := a.options.Verifier.Verify(req.Context(), req.Header.Get("Authorization"))
		if err != nil {
			return err
		}
		l.organization, l.key = key.Organization, key.ID
		if err := key.May(need); err != nil {
			return err
		}
		if err := a.admit(w, req, key); err != nil {
			return err
		}
		if err := a.options.Counter.Admit(); err != nil {
			return err
		}
		call := proxy.Call{
			Target: withQuery(targetOf(req), req, r.Query), Timeout: r.Timeout,
			Organization: key.Organization, Key: key.ID, Terms: key.TermsHeader, Dialect: dialect,
			Follow: func(end context.CancelCauseFunc) func() { return a.follow(r, key, end) },
			Inject: func(h http.Header) { inject(req.Context(), h) },
			Succeeded: func() func() error {
				if r.Metric == "" {
					return func() error { return nil }
				}
				return a.options.Counter.Count(key.Organization, key.ID, r.Metric, time.Now())
			},
		}
		if r.WebSocket && socket.Requested(req) {
			return a.connect(w, req, l, need, call)
		}
		return a.options.Relay.Do(w, req, call)
	}
}

// errDrained is the cause of the end of a stream of events in a drain, errDrain the end for its reader.
var (
	errDrained = errors.New("the edge drains")
	errDrain   = apierr.Unavailable("the edge restarts; connect again", errDrained)
)

// follow ends a call with its key, and a stream of events, which has no end of its own, also when the edge drains.
func (a *API) follow(r route.Route, key *apikey.Key, end context.CancelCauseFunc) (done func()) {
	unfollow := a.options.Verifier.Follow(key, end)
	if !r.EventStream || a.options.Drain == nil {
		return unfollow
	}
	stop := a.options.Drain(func() { end(errDrain) })
	return func() {
		stop()
		unfollow()
	}
}

// operator requires the role operator. It decides before a body is read.
func (a *API) operator(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, l *line) error {
		if a.options.Tokens == nil {
			return next(w, r, l)
		}
		found, err := a.options.Tokens.Authenticate(r.Header.Get("Authorization"))
		if err != nil {
			return err
		}
		l.caller = found.Name
		if !found.Role.May(caller.RoleOperator) {
			return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "this operation needs the role operator")
		}
		return next(w, r, l)
	}
}
