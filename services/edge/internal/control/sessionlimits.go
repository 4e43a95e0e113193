package control

import (
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/platform/apierr"
)

// readUsage is the scope of what an organization uses and spends.
const readUsage apikey.Permission = "ai:usage:read"

var errOwnersLimits = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied, "limits are the organization's, and this session is an owner's")

// limitRoutes returns the operation that shows an organization its limits. The portal and the operators' console have it,
// at the path at which the role serve shows those of a key.
func (a *API) limitRoutes() map[string]map[string]sessionHandler {
	return map[string]map[string]sessionHandler{"/product/v1/_meta/limits": {
		http.MethodGet: ofOrganization(readUsage, errOwnersLimits, a.sessionLimits),
	}}
}

// limitLeft is a limit of the plan with what was used of it in the present window.
type limitLeft struct {
	Of string `json:"of"`
	plan.Limit

	Used        int64     `json:"used"`
	Remaining   int64     `json:"remaining"`
	ResetsAt    time.Time `json:"resets_at"`
	Overage     *int64    `json:"overage,omitempty"`
	OveragePico *string   `json:"overage_pico_usd,omitempty"`
}

// sessionLimits returns the plan of the session's organization with what is used of it, and what is left of its credits: as
// customers read them with a key, but by what was counted for good.
func (a *API) sessionLimits(w http.ResponseWriter, r *http.Request, _ *chain.Line, s *portal.Session) error {
	answer := struct {
		Organization string       `json:"organization_id"`
		Plan         *string      `json:"plan"`
		Prepaid      bool         `json:"prepaid"`
		Limits       []limitLeft  `json:"limits"`
		Credits      *balanceBody `json:"credits"`
	}{Organization: s.Organization, Limits: []limitLeft{}}
	p, found, err := a.planOf(r.Context(), s.Organization)
	if err != nil {
		return err
	}
	if found {
		used, err := a.used(r.Context(), s.Organization, "", p, time.Now())
		if err != nil {
			return err
		}
		answer.Plan, answer.Prepaid = &p.Name, p.Prepaid
		for _, l := range used {
			answer.Limits = append(answer.Limits, limitLeft{
				"organization", l.Limit, l.Used, max(0, l.Amount-l.Used), l.EndsAt, l.Overage, l.OveragePico,
			})
		}
	}
	balance, granted, err := a.options.Credits.Balance(r.Context(), s.Organization)
	if err != nil {
		return err
	}
	if granted {
		body := newBalanceBody(balance)
		answer.Credits = &body
	}
	return write(w, http.StatusOK, answer)
}
