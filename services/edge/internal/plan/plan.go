// Package plan owns the plans of customers: what an organization or a key may use in a minute, a day or a month.
//
// Package api serves operators over Manager, package quota holds calls to the plans that a Watcher keeps current.
package plan

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Meter is what a limit counts.
type Meter string

// The meters. A call counts when a service has answered it with success.
const (
	// Calls are all calls that are billed.
	Calls Meter = "calls"
	// Deliveries are calls that send webhooks. A batch, an event and a replay count once each.
	Deliveries Meter = "deliveries"
	// Notifications are calls that send a notification.
	Notifications Meter = "notifications"
	// Tokens are those of models, as they are billed. They are known after a call.
	Tokens Meter = "tokens"
	// Cents are US cents that models cost, as they are billed. They are known after a call.
	Cents Meter = "cents"
	// Credits are prepaid. No limit can have this meter, but prepaid plans have one of their own.
	Credits Meter = "credits"
)

// Period is the length of a limit's window, which begins at a whole minute, day or month in UTC.
type Period string

// The periods.
const (
	Minute Period = "minute"
	Day    Period = "day"
	Month  Period = "month"
)

// Window returns the window of a moment: from start, inclusive, to end.
func (p Period) Window(now time.Time) (start, end time.Time) {
	now = now.UTC()
	switch p {
	case Day:
		start = now.Truncate(24 * time.Hour)
		return start, start.AddDate(0, 0, 1)
	case Month:
		start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0)
	case Minute:
	}
	start = now.Truncate(time.Minute)
	return start, start.Add(time.Minute)
}

// Kind is what happens beyond a limit.
type Kind string

// The kinds.
const (
	// Hard refuses calls.
	Hard Kind = "hard"
	// Soft allows them, and says so in the answer.
	Soft Kind = "soft"
	// Metered allows them as overage, which is billed.
	Metered Kind = "metered"
)

// Limit is an amount for each window of a period.
type Limit struct {
	Meter  Meter  `json:"meter"`
	Period Period `json:"period"`
	Amount int64  `json:"amount"`
	Kind   Kind   `json:"kind"`
	// Price is what a unit beyond a metered limit costs, in pico-USD; zero if that is not known here.
	Price int64 `json:"price_pico_usd,omitempty"`
}

// Overage returns how much of what was used is beyond the limit, and what that costs in pico-USD; zero unless the limit is
// metered.
func (l Limit) Overage(used int64) (units int64, pico *big.Int) {
	if l.Kind == Metered {
		units = max(0, used-l.Amount)
	}
	return units, new(big.Int).Mul(big.NewInt(units), big.NewInt(l.Price))
}

// Plan is a named set of limits, which all hold at once.
type Plan struct {
	Name        string
	Description string
	// Prepaid reports that calls which cost something are refused when the organization's credits are used up.
	Prepaid bool
	// Limits are in the order of meter, period and kind.
	Limits               []Limit
	CreatedAt, UpdatedAt time.Time
}

const (
	// mostPlans and mostLimits bound what every replica holds in memory.
	mostPlans  = 1000
	mostLimits = 20

	maxName        = 128
	maxDescription = 1000
	maxAmount      = 1_000_000_000_000
	maxCents       = 900_000_000 // as pico-USD within 64 bits
	maxPrice       = 1_000_000_000_000_000
)

// The values that fields may have.
var (
	meters  = []Meter{Calls, Deliveries, Notifications, Tokens, Cents}
	periods = []Period{Minute, Day, Month}
	kinds   = []Kind{Hard, Soft, Metered}
)

// prepaid is the limit of a prepaid plan: what was spent beyond the credits must be less than nothing.
var prepaid = Limit{Meter: Credits, Period: Month, Kind: Hard}

// CheckName returns an error that names the field unless the name can be a plan's.
func CheckName(field, name string) error {
	if name == "" || len(name) > maxName || !caller.Printable(name) {
		return apierr.Invalid(field, "must have 1 to 128 characters of printable ASCII without spaces")
	}
	return nil
}

// check returns the error of the first field that violates its rule.
func (p *Plan) check() error {
	if err := CheckName("plan", p.Name); err != nil {
		return err
	}
	switch {
	case len(p.Description) > maxDescription || !printable(p.Description):
		return apierr.Invalid("description", "must have at most 1000 bytes of UTF-8 without control characters")
	case len(p.Limits) > mostLimits:
		return apierr.Invalid("limits", fmt.Sprintf("must hold at most %d limits", mostLimits))
	}
	for i, l := range p.Limits {
		if err := l.check("limits[" + strconv.Itoa(i) + "]"); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Limits[:i], l.same) {
			return apierr.Invalid("limits["+strconv.Itoa(i)+"]", "must not have the meter, period and kind of another limit")
		}
	}
	return nil
}

// same reports whether two limits differ in their amounts and prices at most.
func (l Limit) same(other Limit) bool {
	other.Amount, other.Price = l.Amount, l.Price
	return l == other
}

func (l Limit) check(field string) error {
	switch {
	case !slices.Contains(meters, l.Meter):
		return apierr.Invalid(field+".meter", "must be calls, tokens, cents, deliveries or notifications")
	case !slices.Contains(periods, l.Period):
		return apierr.Invalid(field+".period", "must be minute, day or month")
	case !slices.Contains(kinds, l.Kind):
		return apierr.Invalid(field+".kind", "must be hard, soft or metered")
	case l.Amount < 1 || l.Amount > maxAmount:
		return apierr.Invalid(field+".amount", "must be from 1 to "+strconv.Itoa(maxAmount))
	case l.Meter == Cents && l.Amount > maxCents:
		return apierr.Invalid(field+".amount", "must be at most "+strconv.Itoa(maxCents)+" cents")
	case l.Price < 0 || l.Price > maxPrice:
		return apierr.Invalid(field+".price_pico_usd", "must be from 0 to "+strconv.Itoa(maxPrice))
	case l.Price > 0 && l.Kind != Metered:
		return apierr.Invalid(field+".price_pico_usd", "is for metered limits only")
	}
	return nil
}
