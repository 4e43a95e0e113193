package control

import (
	"context"
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/spend"
	"switchyard.dev/services/platform/apierr"
)

// Windows reads what was used in windows, see threshold.Store.
type Windows interface {
	Used(ctx context.Context, windows []quota.Window) ([]int64, error)
}

// limitUse is a limit of a plan with what was used in the window of a moment.
type limitUse struct {
	plan.Limit

	Used        int64     `json:"used"`
	StartsAt    time.Time `json:"starts_at"`
	EndsAt      time.Time `json:"ends_at"`
	Overage     *int64    `json:"overage,omitempty"`
	OveragePico *string   `json:"overage_pico_usd,omitempty"`
}

// planUse is the plan of an organization or a key with what was used of it.
type planUse struct {
	Organization string     `json:"organization_id"`
	Key          string     `json:"key_id,omitempty"`
	Plan         string     `json:"plan"`
	Limits       []limitUse `json:"limits"`
}

// limits returns what an organization has used of its present plan, in the windows of a moment or of now, by what was
// counted for good. Windows that are no longer kept are left out.
func (a *API) limits(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization, err := organizationOf(r)
	if err != nil {
		return err
	}
	at, err := readMoment(r)
	if err != nil {
		return err
	}
	p, found, err := a.planOf(r.Context(), organization)
	switch {
	case err != nil:
		return err
	case !found:
		return apierr.NotFound("plan")
	}
	used, err := a.used(r.Context(), organization, "", p, at)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, planUse{Organization: organization, Plan: p.Name, Limits: used})
}

// planOf returns the plan that an organization is on, its own or the default plan. It reports false if there is none.
func (a *API) planOf(ctx context.Context, organization string) (p plan.Plan, found bool, err error) {
	own, err := a.options.Keys.OrganizationPlan(ctx, organization)
	if err != nil {
		return plan.Plan{}, false, err
	}
	return a.options.Plans.Of(ctx, own)
}

// keyLimits returns what a key, with its rotations, has used of its own plan, as limits does for organizations.
func (a *API) keyLimits(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	at, err := readMoment(r)
	if err != nil {
		return err
	}
	key, err := a.options.Keys.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if key.Plan == "" {
		return apierr.NotFound("plan")
	}
	p, err := a.options.Plans.Get(r.Context(), key.Plan)
	if err != nil {
		return err
	}
	used, err := a.used(r.Context(), key.Organization, key.Chain(), p, at)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, planUse{key.Organization, key.ID, p.Name, used})
}

// readMoment returns the moment of a request, now if it has none.
func readMoment(r *http.Request) (time.Time, error) {
	q, _, err := readPage[string](r, "at")
	if err != nil {
		return time.Time{}, err
	}
	at, err := moment(q, "at")
	if at.IsZero() {
		at = time.Now().UTC()
	}
	return at, err
}

// used returns what was used of the limits of a plan whose windows of a moment are kept. key is empty for the whole
// organization.
func (a *API) used(ctx context.Context, organization, key string, p plan.Plan, at time.Time) ([]limitUse, error) {
	var windows []quota.Window
	all := []limitUse{}
	for _, l := range p.Limits {
		w := quota.WindowAt(organization, key, l.Meter, l.Period, at)
		if kept := keptFor(l.Period, a.options.Retention); time.Since(w.Start) < kept {
			windows, all = append(windows, w), append(all, limitUse{Limit: l, StartsAt: w.Start, EndsAt: w.End})
		}
	}
	amounts, err := a.options.Windows.Used(ctx, windows)
	if err != nil {
		return nil, err
	}
	for i := range all {
		l := &all[i]
		l.Used = quota.InUnits(l.Meter, amounts[i])
		if l.Kind == plan.Metered {
			units, pico := l.Limit.Overage(l.Used)
			l.Overage, l.OveragePico = &units, new(pico.String())
		}
	}
	return all, nil
}

// keptFor returns how long windows of a period are kept: later, counts are merged into longer ones, and spending is dropped.
func keptFor(p plan.Period, r meter.Retention) time.Duration {
	switch p {
	case plan.Minute:
		return min(r.Minutes, spend.KeepMinutes)
	case plan.Day:
		return min(r.Days, spend.KeepDays)
	case plan.Month:
	}
	return r.Days
}
