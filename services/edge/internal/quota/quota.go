// Package quota holds calls to the plans of their key and organization over all replicas, without a remote call in the
// path of a request.
//
// Each replica counts what it admits in the windows of a plan's limits, and settles with the fleet asynchronously, as
// package limit does: it reports what it counted and receives what all replicas have. Between settlements a replica may
// count only a lease of a limit, so that R replicas together admit at most R leases too many. The first call of a holder
// waits for the count of its windows.
//
// What is counted for good is in the meter's counters. A window that Redis does not know is rebuilt from them, and while
// Redis is away, replicas learn from them what others count. A call that fails is given back, so that in the end a window
// holds what the meter has.
//
// What calls cost in tokens and cents is known after them. It comes from the gateway's billed feed (package spend), and
// replicas read it every second while calls are made. So a limit of these may be exceeded by what calls cost that are in
// flight or begin in the seconds until their records are read.
//
// Package api calls Take and GiveBack, package app runs the settling.
package quota

import (
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/platform/apierr"
)

// The reasons of refused calls: a hard limit, or the organization's credits, are used up.
const (
	ReasonExceeded         apierr.Reason = "quota_exceeded"
	ReasonCreditsExhausted apierr.Reason = "credits_exhausted"
)

// leaseShare: a replica may count 1/leaseShare of a limit unsettled.
const leaseShare = 50

// Use is the set of meters on which a call counts; zero for a call that counts nowhere.
type Use uint8

// UseOf returns the meters of a call by the metric under which it is billed, empty for none.
func UseOf(metric string) (u Use) {
	for i, m := range meters {
		if metric != "" && (m.name == plan.Calls || slices.Contains(holds[metric], m.name)) {
			u |= 1 << i
		}
	}
	return u
}

func (u Use) has(meter int) bool { return u&(1<<meter) != 0 }

// spending lists the meters that limit calls whose cost the gateway's ledger records.
var spending = []plan.Meter{plan.Tokens, plan.Cents, plan.Credits}

// holds lists, for each metric under which calls are billed, the meters that limit them besides plan.Calls. It has
// every metric of the route table; metrics of the contract's BilledOperation have spending.
var holds = map[string][]plan.Meter{
	"deliveries":         {plan.Deliveries},
	"delivery_batches":   {plan.Deliveries},
	"events":             {plan.Deliveries},
	"replays":            {plan.Deliveries},
	"notifications_sent": {plan.Notifications},
	"llm_requests":       spending,
	"tool_requests":      spending,
}

// Holds returns the meters that limit calls billed under a metric, besides plan.Calls; nil for an unknown metric.
func Holds(metric string) []plan.Meter { return slices.Clone(holds[metric]) }

// meters are all meters. The index of one is its number in windows and in a Use.
var meters = [...]meterOf{
	{name: plan.Calls, unit: 1},
	{name: plan.Deliveries, metrics: heldBy(plan.Deliveries), unit: 1},
	{name: plan.Notifications, metrics: heldBy(plan.Notifications), unit: 1},
	{name: plan.Tokens, metrics: heldBy(plan.Tokens), spent: true, unit: 1},
	{name: plan.Cents, metrics: heldBy(plan.Cents), spent: true, unit: PicoPerCent},
	// What was spent of credits is what they lack: less than nothing while any are left.
	{name: plan.Credits, metrics: heldBy(plan.Credits), spent: true, unit: 1},
}

// heldBy returns the metrics that a meter counts, sorted.
func heldBy(m plan.Meter) (metrics []string) {
	for metric, by := range holds {
		if slices.Contains(by, m) {
			metrics = append(metrics, metric)
		}
	}
	slices.Sort(metrics)
	return metrics
}

// PicoPerCent is how many pico-USD, in which costs are counted, a US cent is.
const PicoPerCent = 10_000_000_000

// meterOf is a meter with the metrics of the calls that it counts; nil means all.
type meterOf struct {
	name    plan.Meter
	metrics []string
	// spent reports that the meter counts what calls have cost, in fractions of which unit make one of a limit's amount.
	spent bool
	unit  int64
}

// Spends reports whether a meter counts what calls have cost, which is known after them.
func Spends(m plan.Meter) bool { return meters[meterIndex(m)].spent }

// InUnits returns an amount of the stores in whole units of a meter's limits, rounded down.
func InUnits(m plan.Meter, amount int64) int64 {
	if of := &meters[meterIndex(m)]; of.spent {
		return amount / of.unit
	}
	return amount
}

// WindowAt returns the window of a moment in the stores; key is empty for the whole organization.
func WindowAt(organization, key string, m plan.Meter, p plan.Period, at time.Time) Window {
	start, end := p.Window(at)
	return Window{Organization: organization, Key: key, Meter: m, Period: p, Metrics: meters[meterIndex(m)].metrics, Start: start, End: end}
}

// periods are all periods. The index of one is its number in windows.
var periods = [...]plan.Period{plan.Minute, plan.Day, plan.Month}

func meterIndex(m plan.Meter) int {
	switch m {
	case plan.Deliveries:
		return 1
	case plan.Notifications:
		return 2
	case plan.Tokens:
		return 3
	case plan.Cents:
		return 4
	case plan.Credits:
		return 5
	case plan.Calls:
	}
	return 0
}

func periodIndex(p plan.Period) int {
	switch p {
	case plan.Day:
		return 1
	case plan.Month:
		return 2
	case plan.Minute:
	}
	return 0
}

// Caller is on whose behalf a call is made. Key and Organization name what the call counts under: the first key of a
// chain of rotations, and the organization.
type Caller struct {
	Key, Organization string
	// KeyPlan and OrganizationPlan are the names of their plans, empty for none.
	KeyPlan, OrganizationPlan string
}

// State is the state of a limit after a call. The zero State has no limit.
type State struct {
	*plan.Limit

	// OfKey reports that the limit is the key's, otherwise the organization's.
	OfKey bool
	// Used is what the window holds, in whole units of the limit.
	Used int64
	// start and end bound the window, in Unix seconds.
	start, end int64
}

// Start returns the beginning of the window.
func (s State) Start() time.Time { return time.Unix(s.start, 0).UTC() }

// End returns the end of the window.
func (s State) End() time.Time { return time.Unix(s.end, 0).UTC() }

// Remaining returns how much of the limit is left.
func (s State) Remaining() int64 { return max(0, s.Amount-s.Used) }

// Exceeded reports whether the window holds more than the limit.
func (s State) Exceeded() bool { return s.Used > s.Amount }

// tighter reports whether less of the limit is left than of another, in proportion to their amounts.
func (s State) tighter(other State) bool {
	return float64(s.Remaining())*float64(other.Amount) < float64(other.Remaining())*float64(s.Amount)
}

// Verdict is what calls are told of the quotas; the zero Verdict without any.
type Verdict struct {
	// Tightest is the hard limit of which the least is left, if there is any.
	Tightest State
	// Refused is the hard limit that refused the call, if any did.
	Refused State
	// Exceeded are the soft and metered limits that the call exceeded; nil for none.
	Exceeded []State
}

// add takes a limit's state after an admitted call into the verdict.
func (v *Verdict) add(s State) {
	switch {
	case s.Meter == plan.Credits:
	case s.Kind != plan.Hard && s.Exceeded():
		v.Exceeded = append(v.Exceeded, s)
	case s.Kind == plan.Hard && (v.Tightest.Limit == nil || s.tighter(v.Tightest)):
		v.Tightest = s
	}
}

// refuse takes a hard limit that has no room for a call into the verdict. Named are credits, or else the limit whose window
// ends last: before that, no call is admitted.
func (v *Verdict) refuse(s State) {
	if v.Refused.Limit == nil || s.Meter == plan.Credits || v.Refused.Meter != plan.Credits && s.end > v.Refused.end {
		v.Refused = s
	}
}

// lease returns how much a replica may count before it has settled it.
func lease(amount int64) int64 { return max(1, amount/leaseShare) }
