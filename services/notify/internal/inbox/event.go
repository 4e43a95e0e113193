package inbox

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds. The first five are changes of an inbox; the others occur in streams only.
const (
	EventCreated EventKind = "created"
	EventRead    EventKind = "read"
	EventUpdated EventKind = "updated"
	EventDeleted EventKind = "deleted"
	EventReadAll EventKind = "read_all"
	// EventReady is the first event of a stream: its position, and the unread count there.
	EventReady EventKind = "ready"
	// EventReset means that changes were missed: the reader has to list again.
	EventReset EventKind = "reset"
)

// Event is one change of an inbox, or an event of the stream itself.
type Event struct {
	// Seq numbers the changes of an inbox without gaps, from 1.
	Seq  int64
	Kind EventKind
	// RecordID is the changed record; the nil id if the event concerns all.
	RecordID uuid.UUID
	// Record is set after `created`, `read` and `updated`; nil otherwise, and if it has been deleted since.
	Record *Record
	// Unread is the number of unread records after the change.
	Unread int
	At     time.Time
}

// Place is the position of an inbox: its last change, and the unread count after it.
type Place struct {
	Seq    int64
	Unread int
}

// Events reads the changes of inboxes.
type Events interface {
	// Place returns the position of an inbox; the zero Place for one without changes.
	Place(ctx context.Context, at Address) (Place, error)
	// Events returns at most limit changes after a position, in order.
	Events(ctx context.Context, at Address, after int64, limit int) ([]Event, error)
	// Changed returns the inboxes whose position differs from the known one, with their position.
	Changed(ctx context.Context, known map[Address]int64) (map[Address]int64, error)
}

// OfRecord reports whether events of the kind concern one record.
func (k EventKind) OfRecord() bool {
	return k == EventCreated || k == EventRead || k == EventUpdated || k == EventDeleted
}
