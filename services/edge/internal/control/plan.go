package control

import (
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/platform/apierr"
)

// planBody is a plan as operators see it.
type planBody struct {
	Name        string       `json:"plan"`
	Description string       `json:"description"`
	Prepaid     bool         `json:"prepaid"`
	Limits      []plan.Limit `json:"limits"`
	CreatedAt   time.Time    `json:"created_at"`
	UpdatedAt   time.Time    `json:"updated_at"`
}

func newPlanBody(p plan.Plan) planBody {
	return planBody{p.Name, p.Description, p.Prepaid, append([]plan.Limit{}, p.Limits...), p.CreatedAt, p.UpdatedAt}
}

// author returns the author of an operator's request, with the precision of Postgres.
func author(r *http.Request, l *chain.Line) plan.Author {
	by := actor(r, l)
	return plan.Author{Name: by.Name, Request: by.Request, At: present()}
}

// present returns the current time with the precision of Postgres.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (a *API) listPlans(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	_, after, err := readPage[string](r)
	if err != nil {
		return err
	}
	plans, err := a.options.Plans.List(r.Context())
	if err != nil {
		return err
	}
	answer := struct {
		Plans      []planBody `json:"plans"`
		NextCursor string     `json:"next_cursor"`
	}{Plans: []planBody{}}
	for _, p := range plans {
		if p.Name <= after.value {
			continue
		}
		if len(answer.Plans) == after.limit {
			answer.NextCursor = cursor(answer.Plans[after.limit-1].Name)
			break
		}
		answer.Plans = append(answer.Plans, newPlanBody(p))
	}
	return write(w, http.StatusOK, answer)
}

func (a *API) getPlan(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	p, err := a.options.Plans.Get(r.Context(), r.PathValue("plan"))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, newPlanBody(p))
}

func (a *API) setPlan(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Description string       `json:"description"`
		Prepaid     bool         `json:"prepaid"`
		Limits      []plan.Limit `json:"limits"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	name := r.PathValue("plan")
	if err := identifiers("plan", name, "description", body.Description); err != nil {
		return err
	}
	p, err := a.options.Plans.Set(r.Context(), author(r, l), plan.Plan{
		Name: name, Description: body.Description, Prepaid: body.Prepaid, Limits: body.Limits,
	})
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, newPlanBody(p))
}

func (a *API) deletePlan(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	if err := a.options.Plans.Delete(r.Context(), author(r, l), r.PathValue("plan")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// organizationPlan is the plan of an organization as operators see it.
type organizationPlan struct {
	Organization string `json:"organization_id"`
	Plan         string `json:"plan"`
}

func (a *API) organizationPlan(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization := r.PathValue("organization_id")
	if err := identifiers("organization_id", organization); err != nil {
		return err
	}
	name, err := a.options.Keys.OrganizationPlan(r.Context(), organization)
	switch {
	case err != nil:
		return err
	case name == "":
		return apierr.NotFound("plan")
	}
	return write(w, http.StatusOK, organizationPlan{organization, name})
}

func (a *API) planOrganization(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Plan string `json:"plan"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	organization := r.PathValue("organization_id")
	if err := identifiers("organization_id", organization, "plan", body.Plan); err != nil {
		return err
	}
	if err := plan.CheckName("plan", body.Plan); err != nil {
		return err
	}
	if err := a.options.Keys.PlanOrganization(r.Context(), actor(r, l), organization, body.Plan); err != nil {
		return err
	}
	return write(w, http.StatusOK, organizationPlan{organization, body.Plan})
}

func (a *API) unplanOrganization(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	if err := a.options.Keys.PlanOrganization(r.Context(), actor(r, l), r.PathValue("organization_id"), ""); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
