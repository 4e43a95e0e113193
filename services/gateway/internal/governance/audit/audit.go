// Package audit is the append-only record of changes: who changed what, when,
// from which request. The code that makes a change makes an Entry of the call's
// context; internal/postgres writes it in the change's own transaction, and
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

// RoleSystem is the role of changes that no caller made, as an expiry.
const RoleSystem = "system"

// Entry is one change.
type Entry struct {
	// ID and OccurredAt are given when it is stored.
	ID         int64
	OccurredAt time.Time
	// Actor is the principal that the caller spoke for, or else the caller.
	Actor, ActorRole string
	// Action is "<noun>.<verb>", as "byok.rotate".
	Action string
	// Organization that it concerns; empty for none.
	Organization         string
	SubjectType, Subject string
	RequestID, Reason    string
	// Details are what changed, a JSON object without secrets; nil is an empty one.
	Details json.RawMessage
}

// Subject is what was changed.
type Subject struct{ Type, ID, Organization string }

// New is the entry of a change that the call of ctx makes.
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
	// Action, or a group of them when it ends in a full stop.
	Action       string
	Since, Until time.Time
	// Before is the id of the last entry of the page before; 0 for the first page.
	Before int64
	// Limit of the page, at least 1.
	Limit int
}
