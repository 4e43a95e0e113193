package send

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
)

// ListQuery selects notifications; an empty field matches all.
type ListQuery struct {
	Organization string
	// Every selects all organizations; then Organization is empty.
	Every    bool
	Statuses []Status
	Channel  channel.Name
	// From (inclusive) and To (exclusive) bound the time of acceptance.
	From, To time.Time
	// Before is the place below which the page begins; the zero Position is the beginning of the list.
	Before Position
	Limit  int
}

// Position is a place in a list, newest first: that of the notification that was accepted at At.
type Position struct {
	At time.Time
	ID uuid.UUID
}

// IsZero reports whether p is the zero Position.
func (p Position) IsZero() bool { return p == Position{} }

// top is above every notification. Its time is the last that RFC 3339 can represent.
var top = Position{At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), ID: uuid.Max}

// Begin returns the place below which the query's page begins.
func (q ListQuery) Begin() Position {
	begin := q.Before
	if begin.IsZero() {
		begin = top
	}
	if q.To.IsZero() {
		return begin
	}
	if to := (Position{At: q.To}); to.below(begin) {
		return to
	}
	return begin
}

// below reports whether p comes after other in a list.
func (p Position) below(other Position) bool {
	if p.At.Equal(other.At) {
		return bytes.Compare(p.ID[:], other.ID[:]) < 0
	}
	return p.At.Before(other.At)
}

// Matches reports whether the query selects a notification with these channels.
func (q ListQuery) Matches(channels []ChannelLog) bool {
	if q.Channel != "" && !slices.ContainsFunc(channels, func(c ChannelLog) bool { return c.Channel == q.Channel }) {
		return false
	}
	return len(q.Statuses) == 0 || slices.Contains(q.Statuses, Log{Channels: channels}.Status())
}

// OnlyFailures reports whether a channel has failed in every notification that the query selects.
func (q ListQuery) OnlyFailures() bool {
	return len(q.Statuses) > 0 && !slices.ContainsFunc(q.Statuses, func(s Status) bool { return s != StatusFailed && s != StatusPartial })
}

// All reports whether the query selects every notification of its organizations and its time.
func (q ListQuery) All() bool { return len(q.Statuses) == 0 && q.Channel == "" }
