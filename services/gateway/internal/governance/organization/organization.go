// Package organization is what operators set of an organization as a whole:
// whether it may call at all, and how much it may spend in a period. It is pure;
// package admission enforces it, internal/postgres keeps it, package api serves it.
package organization

import (
	"time"

	"switchyard.dev/services/platform/apierr"
)

// ReasonSuspended is that of every call of a suspended organization.
const ReasonSuspended apierr.Reason = "organization_suspended"

// ErrSuspended refuses the calls of a suspended organization, and ends those in
// flight.
var ErrSuspended = &apierr.Error{
	Kind: apierr.KindForbidden, Reason: ReasonSuspended, Class: apierr.ClassPolicy, Text: "the organization is suspended",
}

// Period is what a budget's ceiling is for.
type Period string

// The periods, in UTC.
const (
	PeriodDay   Period = "day"
	PeriodMonth Period = "month"
	PeriodTotal Period = "total"
)

// DefaultPeriod is that of a budget which names none at first.
const DefaultPeriod = PeriodMonth

// Bounds of the period that a moment is in: from start on, until end. PeriodTotal
// has neither.
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

// Status says whether an organization may call.
type Status struct {
	Suspended bool
	// Reason of the last change, if it had one, and when that was; zero: never.
	Reason    string
	UpdatedAt time.Time
	// SuspendedAt and SuspendedBy are empty while it is not suspended.
	SuspendedAt time.Time
	SuspendedBy string
}

// Change is what an operator asks for.
type Change struct {
	Suspended  bool
	By, Reason string
	At         time.Time
}

// Apply makes a change; false means that there was nothing to change.
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

// Budget is a ceiling of spending.
type Budget struct {
	// CeilingCents of a period; 0 is none.
	CeilingCents float64
	Period       Period
}

// Organization is all that is set of one. The zero value but for ID is one of
// which nothing was ever set.
type Organization struct {
	ID     string
	Status Status
	Budget Budget
}

// Spend is what an organization has spent in the present period of its budget,
// in cents.
type Spend struct {
	Organization Organization
	// SpentCents by what the ledger has, ReservedCents for calls in flight under a limit.
	SpentCents, ReservedCents float64
	// ActiveSessions are in flight or were called of late; what they have spent so
	// far, in any period.
	ActiveSessions      int
	ActiveSessionsCents float64
	// Start and End of the period; zero for PeriodTotal.
	Start, End time.Time
}

// Remaining is what is left of the ceiling; false where there is none.
func (s Spend) Remaining() (cents float64, limited bool) {
	ceiling := s.Organization.Budget.CeilingCents
	return max(ceiling-s.SpentCents-s.ReservedCents, 0), ceiling > 0
}
