package apikey

import "time"

// Actions that the audit knows.
const (
	ActionCreate      = "key.create"
	ActionRotate      = "key.rotate"
	ActionUpdate      = "key.update"
	ActionRevoke      = "key.revoke"
	ActionLimit       = "organization.limit"
	ActionRemoveLimit = "organization.remove_limit"
)

// Actor is who changes something: the name of a service token or of a user of
// the command line, and the request it came by, if any.
type Actor struct{ Name, Request string }

// Entry is what the audit keeps of a change, in the change's own transaction.
type Entry struct {
	ID           int64
	At           time.Time
	Actor        Actor
	Action       string
	Organization string
	Key          string // empty where it concerns none
	// Details say what changed, without secrets.
	Details map[string]any
}

// AuditQuery selects entries, newest first: of an organization, of a key, of all
// where those are empty, and only those before an id unless it is 0.
type AuditQuery struct {
	Organization, Key string
	Before            int64
	Limit             int
}
