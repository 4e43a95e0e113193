// Package api is the face of the edge's role serve: the customers' routes and their catalog, and the relay to the role
// control. Package app mounts it.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Verifier finds the key of an Authorization header and follows it through a call, see apikey.Verifier.
type Verifier interface {
	Verify(ctx context.Context, authorization string) (*apikey.Key, error)
	Follow(key *apikey.Key, end context.CancelCauseFunc) (done func())
}

// Users checks the tokens of end users and follows them through calls, see usertoken.Verifier.
type Users interface {
	Verify(text string) (*usertoken.Token, error)
	Follow(token *usertoken.Token, end context.CancelCauseFunc) (done func())
	Buckets(token *usertoken.Token) apikey.Buckets
	AllowsOrigin(token *usertoken.Token, origin string) bool
	Keys() jose.JSONWebKeySet
}

// Limiter limits the rate of keys and organizations, see limit.Limiter.
type Limiter interface {
	Take(ctx context.Context, key, organization limit.Bucket) (limit.Verdict, error)
}

// Quotas holds calls to plans, see quota.Enforcer.
type Quotas interface {
	chain.Enforcer

	Limits(ctx context.Context, c quota.Caller) []quota.State
	Plan(c quota.Caller) (key, organization string)
}

// Credits returns what an organization has left, see credit.Manager.
type Credits interface {
	Balance(ctx context.Context, organization string) (balance credit.Balance, granted bool, err error)
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
	Users     Users
	Limiter   Limiter
	Quotas    Quotas
	Credits   Credits
	// Members checks who decides on approvals; nil without the gateway.
	Members Members
	Relay   Relay
	Sockets Sockets
	// Documents are those of Table by path, see [Documents]; nil serves none.
	Documents map[string]http.Handler
	// Drain calls end in a goroutine of its own once the edge drains, unless it is stopped before. It may be nil.
	Drain func(end func()) (stop func() bool)
	// Control is the way to the role control; nil serves none of its paths.
	Control *Control
	// Open holds unauthenticated handlers by path, such as probes.
	Open map[string]http.Handler
}

// API serves requests; New creates it.
type API struct {
	options  Options
	chain    *chain.Chain
	quotas   *chain.Quotas
	receipts *chain.Receipts
}

// New returns the face.
func New(options Options) (http.Handler, error) {
	a := &API{options: options}
	var err error
	a.chain, err = chain.New(chain.Options{
		Log: options.Log, Tracer: options.Tracer, Meter: options.Meter, Duration: "switchyard.edge.duration", ErrorBody: a.errorBody, Open: options.Open,
	})
	if err != nil {
		return nil, err
	}
	if a.quotas, err = chain.NewQuotas(options.Quotas, options.Meter); err != nil {
		return nil, err
	}
	if a.receipts, err = chain.NewReceipts(options.Log, options.Meter); err != nil {
		return nil, err
	}
	if err := a.mountRoutes(); err != nil {
		return nil, err
	}
	if err := a.mountMeta(); err != nil {
		return nil, err
	}
	if options.Control != nil {
		a.mountControl()
	}
	return rpc.WithRequestID(a.speak(a.chain)), nil
}

// errorBody returns the form of errors on a path.
func (a *API) errorBody(path string) chain.ErrorBody {
	if a.options.Table.PlainErrors(path) {
		return apierr.NewPlain
	}
	if a.options.Table.JSONRPCErrors(path) {
		return newJSONRPC
	}
	return dialectBody(a.options.Table.Dialect(path))
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
	paths := make(map[string]map[string]chain.Handler)
	verbs := make(map[string]map[string]chain.Handler)
	for _, r := range a.options.Table.Routes {
		base, ok := a.options.Upstreams[r.Upstream]
		if !ok {
			return fmt.Errorf("route %s: no URL of %s", r.Path, r.Upstream)
		}
		pattern, verb := r.Pattern()
		if paths[pattern] == nil {
			paths[pattern] = make(map[string]chain.Handler)
		}
		if verb == "" {
			paths[pattern][r.Method] = a.product(r, base)
			continue
		}
		id := r.Method + " " + pattern
		if verbs[id] == nil {
			verbs[id] = make(map[string]chain.Handler)
			paths[pattern][r.Method] = byVerb(verbs[id])
		}
		verbs[id][verb] = a.product(r, base)
	}
	shared := a.shared()
	for path, methods := range paths {
		if allowed := shared[path]; len(allowed) > 0 {
			methods[http.MethodOptions] = a.preflight(allowed)
		}
		a.chain.Mount(path, methods)
	}
	return nil
}

// byVerb chooses a handler by what follows the last colon of a path.
func byVerb(verbs map[string]chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
		if h, ok := verbs[r.URL.Path[strings.LastIndexByte(r.URL.Path, ':')+1:]]; ok {
			return h(w, r, l)
		}
		return apierr.NotFound("path")
	}
}
