// Package organization holds what operators set for an organization as a whole: whether it may call at all, and how
// much it may spend in a period. It does no I/O; package admission enforces the settings, internal/postgres stores
// them, package api serves them.
package organization

import (
	"time"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/platform/apierr"
)

// ReasonSuspended is the reason of every refusal of a suspended organization's calls.
const ReasonSuspended apierr.Reason = "organization_suspended"

// ErrSuspended refuses the calls of a suspended organization, and ends those in flight.
var ErrSuspended = &apierr.Error{
	Kind: apierr.KindForbidden, Reason: ReasonSuspended, Class: apierr.ClassPolicy, Text: "the organization is suspended",
}

// Period is the period of a budget's ceiling.
type Period string

// The periods, in UTC.
const (
	PeriodDay   Period = "day"
	PeriodMonth Period = "month"
	PeriodTotal Period = "total"
)

// DefaultPeriod is the period of a new budget that names none.
const DefaultPeriod = PeriodMonth

// Bounds returns the period that contains a moment, from start (inclusive) to end (exclusive). Both are zero for
// PeriodTotal.
func (p Period) Bounds(at time.Time) (start, end time.Time) {
	year, month, day := at.UTC().Date()
	switch p {
	case PeriodDay:
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC), time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
	case PeriodMonth:
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	case PeriodTotal:
	}
	return time.Time{}, time.Time{}
}

// Status reports whether an organization is suspended.
type Status struct {
	Suspended bool
	// Reason and UpdatedAt are those of the last change; a zero UpdatedAt means that there was none.
	Reason    string
	UpdatedAt time.Time
	// SuspendedAt and SuspendedBy are empty unless the organization is suspended.
	SuspendedAt time.Time
	SuspendedBy string
}

// Change is an operator's request to suspend or resume an organization.
type Change struct {
	Suspended  bool
	By, Reason string
	At         time.Time
}

// Apply returns the status after a change, or false if the change changes nothing.
func (s Status) Apply(c Change) (Status, bool) {
	if s.Suspended == c.Suspended {
		return s, false
	}
	next := Status{Suspended: c.Suspended, Reason: c.Reason, UpdatedAt: c.At}
	if c.Suspended {
		next.SuspendedAt, next.SuspendedBy = c.At, c.By
	}
	return next, true
}

// Budget is a ceiling for spending.
type Budget struct {
	// CeilingCents is the ceiling for a period, in cents; 0 is none.
	CeilingCents float64
	Period       Period
	// Thresholds are the percentages at which the organization is told, ascending; they hold for the budgets of its keys
	// and runs, too.
	Thresholds []int
}

// DefaultThresholds returns the thresholds of an organization that has set none.
func DefaultThresholds() []int { return []int{50, 80, 100} }

// Organization holds an organization's settings. Without settings all fields except ID are zero.
type Organization struct {
	ID     string
	Status Status
	Budget Budget
}

// Spend is what an organization has spent in the current period of its budget, in cents.
type Spend struct {
	Organization Organization
	// SpentCents is the sum of the ledger; ReservedCents is reserved for calls in flight under a limit.
	SpentCents, ReservedCents float64
	// ActiveSessions is the number of sessions in flight or called recently; ActiveSessionsCents is what they have
	// spent so far, in any period.
	ActiveSessions      int
	ActiveSessionsCents float64
	// Start and End are the bounds of the period; zero for PeriodTotal.
	Start, End time.Time
}

// Remaining returns what is left of the ceiling in cents, or false if there is no ceiling.
func (s Spend) Remaining() (cents float64, limited bool) {
	ceiling := s.Organization.Budget.CeilingCents
	left := amount.Nearest(ceiling).Minus(amount.Nearest(s.SpentCents)).Minus(amount.Nearest(s.ReservedCents))
	return max(left.Cents(), 0), ceiling > 0
}
