// Package audit is the append-only record of changes: who changed what, when, and in which request. The code that makes
// a change creates an Entry from the call's context; internal/postgres writes it in the change's own transaction, and
// package api lists it.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/telemetry"
)

// RoleSystem is the role of changes without a caller, such as an expiry.
const RoleSystem = "system"

// Entry is one change.
type Entry struct {
	// ID and OccurredAt are set when the entry is stored.
	ID         int64
	OccurredAt time.Time
	// Actor is the principal for whom the caller acted, or else the caller.
	Actor, ActorRole string
	// Action is "<noun>.<verb>", such as "byok.rotate".
	Action string
	// Organization is the organization that the change concerns; empty for none.
	Organization         string
	SubjectType, Subject string
	RequestID, Reason    string
	// Details are what changed: a JSON object without secrets; nil is an empty object.
	Details json.RawMessage
}

// Subject identifies what was changed.
type Subject struct{ Type, ID, Organization string }

// New returns the entry of a change that the call of ctx makes.
func New(ctx context.Context, action string, subject Subject, reason string) Entry {
	c := caller.From(ctx)
	return Entry{
		Actor: cmp.Or(c.User, c.Name, RoleSystem), ActorRole: cmp.Or(string(c.Role), RoleSystem),
		Action: action, Organization: subject.Organization, SubjectType: subject.Type, Subject: subject.ID,
		RequestID: telemetry.RequestID(ctx), Reason: reason,
	}
}

// Filter selects entries; empty fields select all.
type Filter struct {
	Organization, Actor, Subject string
	// Action is an action, or a group of actions if it ends in a full stop.
	Action       string
	Since, Until time.Time
	// Before is the ID of the last entry of the previous page; 0 for the first page.
	Before int64
	// Limit is the size of the page, at least 1.
	Limit int
}
