// Package inbox owns the in-app records that people are shown. The in_app
// channel drafts them, internal/postgres stores them, internal/api hands them out.
package inbox

import (
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/apierr"
)

// ErrNotFound says that a record doesn't exist or is in another inbox.
var ErrNotFound = apierr.NotFound("notification")

// Address names an inbox: that of one user, or, with User empty, the notices to
// the whole organization.
type Address struct {
	Organization string
	User         string
}

// Draft is a record that is not stored yet.
type Draft struct {
	Inbox   Address
	Subject string
	Message string
	// URL is what a click opens; empty for nothing.
	URL string
	// Data is a JSON object, kept byte for byte; nil for none.
	Data []byte
}

// Record is a stored draft.
type Record struct {
	Draft

	ID uuid.UUID
	// Send that stored it.
	Send uuid.UUID
	// Seq places it in its inbox: it grows in the order of the commits.
	Seq       int64
	CreatedAt time.Time
	// ReadAt is nil while the record is unread.
	ReadAt *time.Time
}

// Query asks for a page of an inbox, newest first.
type Query struct {
	Inbox      Address
	UnreadOnly bool
	// Before is the Seq that the page is below; zero begins at the newest.
	Before int64
	Limit  int
}

// Page is the answer to a Query.
type Page struct {
	Records []Record
	// More tells that further records follow the last one.
	More bool
	// Unread counts the whole inbox, at the moment of the page.
	Unread int
}

// Target names a record as its caller sees it.
type Target struct {
	ID           uuid.UUID
	Organization string
	// User, when not empty, must be the record's.
	User string
}
