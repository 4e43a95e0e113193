// Package inbox owns the in-app records that people are shown. The in_app channel creates them, internal/postgres
// stores them, and internal/api serves them.
package inbox

import (
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/apierr"
)

// ErrNotFound reports that a record does not exist or is in another inbox.
var ErrNotFound = apierr.NotFound("notification")

// MaxData bounds the data of a record, in bytes: a page holds up to 200 of them.
const MaxData = 16 << 10

// Address identifies an inbox: that of one user or, with an empty User, the notices to the whole organization.
type Address struct {
	Organization string
	User         string
}

// Action is a button of a message.
type Action struct {
	// ID names it within the message.
	ID    string `json:"id"`
	Label string `json:"label"`
	// Style is default, primary or danger; empty for default.
	Style string `json:"style,omitempty"`
	// URL is where a click leads; empty for none.
	URL string `json:"url,omitempty"`
	// Value is opaque; it goes back to the caller, and is not shown.
	Value string `json:"value,omitempty"`
}

// Draft is a record that is not stored yet.
type Draft struct {
	Inbox   Address
	Subject string
	Message string
	// URL is what a click opens; empty for nothing.
	URL string
	// Data is a JSON object, stored byte for byte; nil for none.
	Data    []byte
	Actions []Action
}

// Record is a stored draft.
type Record struct {
	Draft

	ID uuid.UUID
	// Send is the notification that stored it.
	Send uuid.UUID
	// Seq is its position in its inbox: it grows in the order of the commits.
	Seq       int64
	CreatedAt time.Time
	// ReadAt is nil while the record is unread.
	ReadAt *time.Time
	// UpdatedAt is when an update changed it last; nil if none has.
	UpdatedAt *time.Time
}

// Query is a request for a page of an inbox, newest first.
type Query struct {
	Inbox      Address
	UnreadOnly bool
	// Before is the Seq that the page is below; zero begins at the newest.
	Before int64
	Limit  int
}

// Page is the result of a Query.
type Page struct {
	Records []Record
	// More reports that further records follow the last one.
	More bool
	// Unread counts the whole inbox at the time of the page.
	Unread int
}

// Target identifies a record within its caller's scope.
type Target struct {
	ID           uuid.UUID
	Organization string
	// User, when not empty, must be the record's.
	User string
}
