package control

import (
	"net/http"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
)

func (a *API) organizationLimit(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization := r.PathValue("organization_id")
	if err := identifiers("organization_id", organization); err != nil {
		return err
	}
	l, err := a.options.Keys.OrganizationLimit(r.Context(), organization)
	if err != nil {
		return err
	}
	if l == (limit.Limit{}) {
		return apierr.NotFound("rate limit")
	}
	return write(w, http.StatusOK, organizationLimit{organization, newRateLimit(l)})
}

type organizationLimit struct {
	Organization string     `json:"organization_id"`
	RateLimit    *RateLimit `json:"rate_limit"`
}

func (a *API) limitOrganization(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body RateLimit
	if err := read(w, r, &body); err != nil {
		return err
	}
	bound, err := body.limit()
	if err != nil {
		return err
	}
	organization := r.PathValue("organization_id")
	if err := identifiers("organization_id", organization); err != nil {
		return err
	}
	if err := a.options.Keys.LimitOrganization(r.Context(), actor(r, l), organization, bound); err != nil {
		return err
	}
	return write(w, http.StatusOK, organizationLimit{organization, newRateLimit(bound)})
}

func (a *API) unlimitOrganization(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	err := a.options.Keys.LimitOrganization(r.Context(), actor(r, l), r.PathValue("organization_id"), limit.Limit{})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
