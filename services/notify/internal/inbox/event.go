package inbox

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// EventKind says what an event is about.
type EventKind string

// The kinds. The first four are changes of an inbox; the others only a stream has.
const (
	EventCreated EventKind = "created"
	EventRead    EventKind = "read"
	EventDeleted EventKind = "deleted"
	EventReadAll EventKind = "read_all"
	// EventReady is the first of a stream: where it begins, and the count there.
	EventReady EventKind = "ready"
	// EventReset says that changes were missed: the reader lists again.
	EventReset EventKind = "reset"
)

// Event is one change of an inbox, or a word of the stream itself.
type Event struct {
	// Seq numbers the changes of an inbox without gaps, from 1.
	Seq  int64
	Kind EventKind
	// RecordID is the record changed; the nil id when the event is about all.
	RecordID uuid.UUID
	// Record after `created` and `read`; nil otherwise, and when it is deleted by now.
	Record *Record
	// Unread records of the inbox after the change.
	Unread int
	At     time.Time
}

// Place is where an inbox stands: its last change, and the count after it.
type Place struct {
	Seq    int64
	Unread int
}

// Events reads the changes of inboxes.
type Events interface {
	// Place tells where an inbox stands; the zero Place for one without changes.
	Place(ctx context.Context, at Address) (Place, error)
	// Events reads the changes after a place, in their order, at most limit.
	Events(ctx context.Context, at Address, after int64, limit int) ([]Event, error)
	// Changed gives those of many inboxes that stand elsewhere than known, with
	// where they stand.
	Changed(ctx context.Context, known map[Address]int64) (map[Address]int64, error)
}

// OfRecord reports whether events of the kind are about one record.
func (k EventKind) OfRecord() bool {
	return k == EventCreated || k == EventRead || k == EventDeleted
}
