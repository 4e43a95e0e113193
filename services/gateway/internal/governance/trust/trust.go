// Package trust is how far organizations trust MCP servers. VERIFIED and
// FIRST_PARTY take effect only once another principal than the one that
// assigned them has approved. Package api serves it; internal/postgres keeps it.
package trust

import (
	"context"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/apierr"
)

// Level of trust.
type Level string

// The levels, from the least to the most.
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

// Status of a record's review.
type Status string

// The statuses. A record that is pending when the next one is assigned stays so
// in the history: it was never reviewed, and can't be any more.
const (
	NotRequired Status = "not_required"
	Pending     Status = "pending"
	Approved    Status = "approved"
	Rejected    Status = "rejected"
)

// transitions of a review are all that there are.
var transitions = map[Status]map[Verdict]Status{
	Pending: {Approve: Approved, Reject: Rejected},
}

// Record is one assignment of a level to a server, with its review. The newest
// one of a server is the present one.
type Record struct {
	Organization, Server string
	Level                Level
	// Effective is the level in force while the record is the present one.
	Effective Level
	Status    Status

	AssignedBy, AssignReason string
	AssignedAt               time.Time
	ReviewedBy, ReviewReason string
	ReviewedAt               time.Time
	// Version grows by one with each assignment, from 1.
	Version int
}

// Assignment is a trust level to assign to a server.
type Assignment struct {
	Organization, Server string
	Level                Level
	By, Reason           string
}

// Verdict of a review.
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
	// Version of the record that the reviewer saw; 0: whichever is the present one.
	Version int
	// User is the one for whom the caller speaks, by its headers; empty for none.
	User string
}

// Reasons of reviews that are refused.
const (
	ReasonVersionConflict        apierr.Reason = "version_conflict"
	ReasonReviewerNotIndependent               = principal.ReasonNotIndependent
)

// Errors of reviews and of the store.
var (
	ErrNotFound = apierr.NotFound("trust record")
	// ErrVersion: the present record is another one than the reviewer saw.
	ErrVersion = apierr.New(apierr.KindConflict, ReasonVersionConflict, "expected_version: the present record is of another version; read it again")
	// ErrNotPending: there is nothing to review.
	ErrNotPending = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "no review of the present record is pending")
	// ErrNotIndependent: who assigned a level can't review it.
	ErrNotIndependent = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: ReasonReviewerNotIndependent, Class: apierr.ClassPolicy,
		Text: "reviewed_by: must be another principal than assigned the level",
	}
)

// Assign makes a server's next record; before is the present one, nil for the
// first. A level that needs a review leaves what is in force as it is, unless
// that is more than the new one: less trust takes effect at once.
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

// Review decides on the present record. What is rejected leaves in force what was.
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

// Store keeps records.
type Store interface {
	// Assign makes the next record of a server and stores it with its audit entry.
	Assign(ctx context.Context, a Assignment, now time.Time, entry *audit.Entry) (Record, error)
	// Review decides on the present record of a server, with its audit entry.
	Review(ctx context.Context, organization, server string, v Review, now time.Time, entry *audit.Entry) (Record, error)
	// Present lists an organization's present records by server, from after one on;
	// an empty status is any.
	Present(ctx context.Context, organization string, status Status, after string, limit int) ([]Record, error)
	// History lists a server's records, newest first, below a version; 0 is from
	// the newest on.
	History(ctx context.Context, organization, server string, below, limit int) ([]Record, error)
}
