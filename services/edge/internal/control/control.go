// Package control is the face of the edge's role control: what operators do with keys, rate limits and usage. The role
// serve relays these paths to it. Package app mounts it.
package control

import (
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Options configures the face. All fields are required unless their comment says otherwise.
type Options struct {
	Log       *slog.Logger
	Tracer    trace.Tracer
	Meter     metric.Meter
	Keys      *apikey.Manager
	Ledger    meter.Ledger
	Retention meter.Retention
	// Tokens are the operators' tokens; nil disables their authentication, which is allowed on loopback only.
	Tokens *caller.Tokens
	// Portal serves the pages of customers' people; nil serves none of its paths.
	Portal *Portal
	// Open holds unauthenticated handlers by pattern, such as probes.
	Open map[string]http.Handler
}

// API serves requests; New creates it.
type API struct{ options Options }

// New returns the face.
func New(options Options) (http.Handler, error) {
	a := &API{options: options}
	served, err := chain.New(chain.Options{
		Log: options.Log, Tracer: options.Tracer, Meter: options.Meter, Duration: "switchyard.control.duration", Open: options.Open,
	})
	if err != nil {
		return nil, err
	}
	a.mountOperators(served, a.operatorRoutes())
	if options.Portal != nil {
		a.mountOperators(served, a.portalAdmin())
		if err := a.mountPortal(served); err != nil {
			return nil, err
		}
	}
	return rpc.WithRequestID(served), nil
}

func (a *API) mountOperators(served *chain.Chain, routes map[string]map[string]chain.Handler) {
	for path, methods := range routes {
		for method, h := range methods {
			methods[method] = a.operator(h)
		}
		served.Mount(path, methods)
	}
}

// operatorRoutes returns the operators' operations by path and method.
func (a *API) operatorRoutes() map[string]map[string]chain.Handler {
	return map[string]map[string]chain.Handler{
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

// operator requires the role operator. It decides before a body is read.
func (a *API) operator(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
		if a.options.Tokens == nil {
			return next(w, r, l)
		}
		found, err := a.options.Tokens.Authenticate(r.Header.Get("Authorization"))
		if err != nil {
			return err
		}
		l.Caller = found.Name
		if !found.Role.May(caller.RoleOperator) {
			return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "this operation needs the role operator")
		}
		return next(w, r, l)
	}
}
