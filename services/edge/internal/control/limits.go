package control

import (
	"context"
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
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

// planUse is the plan of an organization with what was used of it.
type planUse struct {
	Organization string     `json:"organization_id"`
	Plan         string     `json:"plan"`
	Limits       []limitUse `json:"limits"`
}

// limits returns what an organization has used of its present plan, in the windows of a moment or of now, by what was
// counted for good.
func (a *API) limits(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	organization, err := organizationOf(r)
	if err != nil {
		return err
	}
	at, err := readMoment(r)
	if err != nil {
		return err
	}
	own, err := a.options.Keys.OrganizationPlan(r.Context(), organization)
	if err != nil {
		return err
	}
	p, found, err := a.options.Plans.Of(r.Context(), own)
	switch {
	case err != nil:
		return err
	case !found:
		return apierr.NotFound("plan")
	}
	used, err := a.used(r.Context(), organization, p, at)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, planUse{organization, p.Name, used})
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

func (a *API) used(ctx context.Context, organization string, p plan.Plan, at time.Time) ([]limitUse, error) {
	windows := make([]quota.Window, len(p.Limits))
	for i, l := range p.Limits {
		windows[i] = quota.WindowAt(organization, "", l.Meter, l.Period, at)
	}
	amounts, err := a.options.Windows.Used(ctx, windows)
	if err != nil {
		return nil, err
	}
	all := make([]limitUse, len(p.Limits))
	for i, l := range p.Limits {
		all[i] = limitUse{Limit: l, Used: quota.InUnits(l.Meter, amounts[i]), StartsAt: windows[i].Start, EndsAt: windows[i].End}
		if l.Kind == plan.Metered {
			units, pico := l.Overage(all[i].Used)
			all[i].Overage, all[i].OveragePico = &units, new(pico.String())
		}
	}
	return all, nil
}
