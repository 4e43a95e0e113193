package apikey

import "time"

// The actions in the audit.
const (
	ActionCreate      = "key.create"
	ActionRotate      = "key.rotate"
	ActionUpdate      = "key.update"
	ActionRevoke      = "key.revoke"
	ActionLimit       = "organization.limit"
	ActionRemoveLimit = "organization.remove_limit"
	ActionPlan        = "organization.plan"
	ActionRemovePlan  = "organization.remove_plan"
)

// Actor is the author of a change: the name of a service token or of a user of the command line, and the request, if
// any. Key is the product key of a customer's request, empty for others.
type Actor struct{ Name, Request, Key string }

// Entry is an audit entry, stored in the transaction of its change.
type Entry struct {
	ID           int64
	At           time.Time
	Actor        Actor
	Action       string
	Organization string
	Key          string // empty without a key
	// Details describe the change, without secrets.
	Details map[string]any
}

// AuditQuery selects entries, newest first: those of an organization, of a key, or all if these are empty, with ids
// below Before unless it is 0.
type AuditQuery struct {
	Organization, Key string
	Before            int64
	Limit             int
}
