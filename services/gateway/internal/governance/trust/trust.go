// Package trust holds the levels of trust that organizations assign to MCP servers. VERIFIED and FIRST_PARTY take
// effect only after a principal other than the one that assigned them has approved. Package api serves it;
// internal/postgres stores it.
package trust

import (
	"context"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/apierr"
)

// Level is a level of trust.
type Level string

// The levels, from the lowest to the highest.
const (
	Untrusted  Level = "UNTRUSTED"
	Community  Level = "COMMUNITY"
	Verified   Level = "VERIFIED"
	FirstParty Level = "FIRST_PARTY"
)

var levels = []Level{Untrusted, Community, Verified, FirstParty}

func (l Level) rank() int { return slices.Index(levels, l) }

// Reviewed reports whether the level needs a review to take effect.
func (l Level) Reviewed() bool { return l.rank() > Community.rank() }

// AtLeast reports whether the level is the minimum or a higher one. A level that is none of these is below all, and
// nothing reaches a minimum that is none.
func (l Level) AtLeast(minimum Level) bool {
	return minimum.rank() >= 0 && l.rank() >= minimum.rank()
}

// Status is the status of a record's review.
type Status string

// The statuses. A record that is pending when the next one is assigned stays pending in the history: it was never
// reviewed, and can't be reviewed any more.
const (
	NotRequired Status = "not_required"
	Pending     Status = "pending"
	Approved    Status = "approved"
	Rejected    Status = "rejected"
)

// transitions holds all valid transitions of a review.
var transitions = map[Status]map[Verdict]Status{
	Pending: {Approve: Approved, Reject: Rejected},
}

// Record is one assignment of a level to a server, with its review. The newest record of a server is its current one.
type Record struct {
	Organization, Server string
	Level                Level
	// Effective is the level in force while the record is the current one.
	Effective Level
	Status    Status

	AssignedBy, AssignReason string
	AssignedAt               time.Time
	ReviewedBy, ReviewReason string
	ReviewedAt               time.Time
	// Version grows by one with each assignment, starting at 1.
	Version int
}

// Assignment is a request to assign a trust level to a server.
type Assignment struct {
	Organization, Server string
	Level                Level
	By, Reason           string
}

// Verdict is the result of a review.
type Verdict string

// The verdicts.
const (
	Approve Verdict = "approve"
	Reject  Verdict = "reject"
)

// Review is a reviewer's verdict on a record.
type Review struct {
	Verdict    Verdict
	By, Reason string
	// Version is the version of the record that the reviewer saw; 0 means the current one, whatever its version.
	Version int
	// User is the user for whom the caller acts, from its headers; empty for none.
	User string
}

// Reasons of refused reviews.
const (
	ReasonVersionConflict        apierr.Reason = "version_conflict"
	ReasonReviewerNotIndependent               = principal.ReasonNotIndependent
)

// Errors of reviews and of the store.
var (
	ErrNotFound = apierr.NotFound("trust record")
	// ErrVersion: the current record has another version than the reviewer saw.
	ErrVersion = apierr.New(apierr.KindConflict, ReasonVersionConflict, "expected_version: the present record is of another version; read it again")
	// ErrNotPending: there is nothing to review.
	ErrNotPending = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "no review of the present record is pending")
	// ErrNotIndependent: the principal that assigned a level can't review it.
	ErrNotIndependent = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: ReasonReviewerNotIndependent, Class: apierr.ClassPolicy,
		Text: "reviewed_by: must be another principal than assigned the level",
	}
)

// Assign returns a server's next record. before is the current one, nil for the first. A level that needs a review
// leaves the level in force unchanged, unless that is higher than the new one: lower trust takes effect at once.
func Assign(before *Record, a Assignment, now time.Time) Record {
	r := Record{
		Organization: a.Organization, Server: a.Server, Level: a.Level, Effective: a.Level, Status: NotRequired,
		AssignedBy: a.By, AssignReason: a.Reason, AssignedAt: now, Version: 1,
	}
	inForce := Untrusted
	if before != nil {
		inForce, r.Version = before.Effective, before.Version+1
	}
	if a.Level.Reviewed() {
		r.Status = Pending
		if inForce.rank() < a.Level.rank() {
			r.Effective = inForce
		}
	}
	return r
}

// Review returns the current record with a verdict. A rejected record leaves the level in force unchanged.
func (r Record) Review(v Review, now time.Time) (Record, error) {
	next, ok := transitions[r.Status][v.Verdict]
	switch {
	case v.Version != 0 && v.Version != r.Version:
		return r, ErrVersion
	case !ok:
		return r, ErrNotPending
	case principal.Same(v.By, r.AssignedBy), v.User != "" && principal.Same(v.User, r.AssignedBy):
		return r, ErrNotIndependent
	}
	r.Status, r.ReviewedBy, r.ReviewReason, r.ReviewedAt = next, v.By, v.Reason, now
	if next == Approved {
		r.Effective = r.Level
	}
	return r, nil
}

// Store stores records.
type Store interface {
	// Assign creates and stores a server's next record, with its audit entry.
	Assign(ctx context.Context, a Assignment, now time.Time, entry *audit.Entry) (Record, error)
	// Review reviews a server's current record, with its audit entry.
	Review(ctx context.Context, organization, server string, v Review, now time.Time, entry *audit.Entry) (Record, error)
	// Present returns an organization's current records with a status, sorted by server, starting after the server
	// after; an empty status is any.
	Present(ctx context.Context, organization string, status Status, after string, limit int) ([]Record, error)
	// History returns a server's records below a version, newest first; 0 starts at the newest.
	History(ctx context.Context, organization, server string, below, limit int) ([]Record, error)
}
