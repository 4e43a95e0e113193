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

// planUse is the plan of an organization with what was used of it.
type planUse struct {
	Organization string     `json:"organization_id"`
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

// used returns what was used of the limits of a plan whose windows of a moment are kept.
func (a *API) used(ctx context.Context, organization string, p plan.Plan, at time.Time) ([]limitUse, error) {
	var windows []quota.Window
	all := []limitUse{}
	for _, l := range p.Limits {
		w := quota.WindowAt(organization, "", l.Meter, l.Period, at)
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
