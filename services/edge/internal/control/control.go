// Package control is the face of the edge's role control: what operators do with keys, tokens of end users, rate limits,
// plans, credits, alert rules, groups of approvers, usage and its exports. The role
// serve relays these paths to it. Package app mounts it.
package control

import (
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/usertoken"
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
	Plans     *plan.Manager
	Credits   *credit.Manager
	Users     *usertoken.Manager
	Ledger    meter.Ledger
	Retention meter.Retention
	Alerts    *alert.Rules
	Approvers *approver.Groups
	Exports   *export.Manager
	// Windows reads what was used of plans.
	Windows Windows
	// Tokens are the operators' tokens; nil disables their authentication, which is allowed on loopback only.
	Tokens *caller.Tokens
	// Portal serves the pages of customers' people; nil serves none of its paths.
	Portal *Portal
	// Console serves the operators' pages; nil serves none of its paths.
	Console *Console
	// Decisions serves the page on which people decide by a token; nil serves none.
	Decisions *Decisions
	// Slack takes the buttons of messages in Slack; nil takes none.
	Slack *Slack
	// Open holds unauthenticated handlers by pattern, such as probes.
	Open map[string]http.Handler
}

// API serves requests; New creates it.
type API struct {
	options Options
	// quotas and receipts are the portal's.
	quotas   *chain.Quotas
	receipts *chain.Receipts
}

// New returns the face.
func New(options Options) (http.Handler, error) {
	a := &API{options: options}
	served, err := chain.New(chain.Options{
		Log: options.Log, Tracer: options.Tracer, Meter: options.Meter, Duration: "switchyard.control.duration", Open: options.Open,
	})
	if err != nil {
		return nil, err
	}
	a.mount(served, caller.RoleOperator, a.operatorRoutes())
	a.mount(served, caller.RoleService, a.serviceRoutes())
	if options.Portal != nil {
		if a.quotas, err = chain.NewQuotas(options.Portal.Enforcer, options.Meter); err != nil {
			return nil, err
		}
		if a.receipts, err = chain.NewReceipts(options.Log, options.Meter); err != nil {
			return nil, err
		}
		a.mount(served, caller.RoleOperator, a.portalAdmin())
		if err := a.mountPortal(served); err != nil {
			return nil, err
		}
	}
	if options.Decisions != nil {
		a.mountDecisions(served)
	}
	if options.Slack != nil {
		served.Mount("/slack/interactions", map[string]chain.Handler{http.MethodPost: a.interact})
	}
	if options.Console != nil {
		if err := a.mountConsole(served); err != nil {
			return nil, err
		}
	}
	return rpc.WithRequestID(served), nil
}

// mount mounts operations that need a role.
func (a *API) mount(served *chain.Chain, role caller.Role, routes map[string]map[string]chain.Handler) {
	for path, methods := range routes {
		for method, h := range methods {
			methods[method] = a.needs(role, h)
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
		"/admin/v1/keys/{id}/limits": {http.MethodGet: a.keyLimits},
		"/admin/v1/organizations/{organization_id}/rate-limit": {
			http.MethodGet: a.organizationLimit, http.MethodPut: a.limitOrganization, http.MethodDelete: a.unlimitOrganization,
		},
		"/admin/v1/organizations/{organization_id}/plan": {
			http.MethodGet: a.organizationPlan, http.MethodPut: a.planOrganization, http.MethodDelete: a.unplanOrganization,
		},
		"/admin/v1/organizations/{organization_id}/credits": {http.MethodGet: a.credits, http.MethodPost: a.grantCredits},
		"/admin/v1/organizations/{organization_id}/limits":  {http.MethodGet: a.limits},
		"/admin/v1/plans":        {http.MethodGet: a.listPlans},
		"/admin/v1/plans/{plan}": {http.MethodGet: a.getPlan, http.MethodPut: a.setPlan, http.MethodDelete: a.deletePlan},
		"/admin/v1/audit":        {http.MethodGet: a.audit},
		"/admin/v1/usage":        {http.MethodGet: a.usage},
		"/admin/v1/alerts/rules/{organization_id}": {
			http.MethodGet: a.getAlertRules, http.MethodPut: a.putAlertRules, http.MethodDelete: a.deleteAlertRules,
		},
		"/admin/v1/approvers/{organization_id}": {http.MethodGet: a.getApprovers, http.MethodPut: a.putApprovers},

		"/admin/v1/exports":                        {http.MethodGet: a.exports},
		"/admin/v1/exports/{destination}/backfill": {http.MethodPost: a.backfill},
		"/admin/v1/exports/{destination}/refusals": {http.MethodGet: a.refusals},
		"/admin/v1/organizations/{organization_id}/origins": {
			http.MethodGet: a.origins, http.MethodPut: a.setOrigins, http.MethodDelete: a.removeOrigins,
		},
		"/admin/v1/tokens":             {http.MethodPost: a.mintToken},
		"/admin/v1/tokens/revoke":      {http.MethodPost: a.revokeTokens},
		"/admin/v1/tokens/keys/rotate": {http.MethodPost: a.rotateTokenKeys},
	}
}

// serviceRoutes returns the operations that the role serve relays for customers: each is for the organization in the
// header, which that role sets.
func (a *API) serviceRoutes() map[string]map[string]chain.Handler {
	return map[string]map[string]chain.Handler{
		"/v1/approvers":     {http.MethodGet: a.getApprovers, http.MethodPut: a.putApprovers},
		"/v1/alerts/rules":  {http.MethodGet: a.getAlertRules, http.MethodPut: a.putAlertRules},
		"/v1/tokens":        {http.MethodPost: a.mintCustomerToken},
		"/v1/tokens/revoke": {http.MethodPost: a.revokeCustomerTokens},
	}
}

// needs requires a role. It decides before a body is read.
func (a *API) needs(role caller.Role, next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
		r = chain.ForOrganization(r, r.Header.Get(caller.HeaderOrganization))
		if a.options.Tokens == nil {
			return next(w, r, l)
		}
		found, err := a.options.Tokens.Authenticate(r.Header.Get("Authorization"))
		if err != nil {
			return err
		}
		l.Caller = found.Name
		if !found.Role.May(role) {
			return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "this operation needs the role "+string(role))
		}
		return next(w, r, l)
	}
}
