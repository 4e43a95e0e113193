package send

import (
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
)

// Log is the delivery log of a notification.
type Log struct {
	ID           uuid.UUID
	Organization string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// Channels are in the order of the request.
	Channels []ChannelLog
	// Attempts is a page of the attempts of all channels, oldest first.
	Attempts []Attempt
	// More reports that further attempts follow the last one.
	More bool
	// Updates are the logs of its updates, in order, without attempts. Those of a list have none.
	Updates []UpdateLog
	// Of is the notification that it updates; nil if it is no update.
	Of *uuid.UUID
}

// UpdateLog is the log of an update.
type UpdateLog struct {
	Log

	// Number is its place among the updates of the notification, from 1.
	Number int
}

// State is the state of a channel of a notification.
type State string

// The states of a channel. The last three are final. Superseded means that a newer update was accepted before it was sent
// to any recipient.
const (
	StateQueued    State = "queued"
	StateSending   State = "sending"
	StateRetrying  State = "retrying"
	StateDelivered State = "delivered"
	StateFailed    State = "failed"

	StateSuperseded State = "superseded"
)

// Status is the state of a whole notification.
type Status string

// The statuses. Pending means that a channel has not ended; the others are final: every channel has delivered, some
// have, none has, or all are superseded. Otherwise those that are superseded do not count.
const (
	StatusPending   Status = "pending"
	StatusDelivered Status = "delivered"
	StatusPartial   Status = "partial"
	StatusFailed    Status = "failed"

	StatusSuperseded Status = "superseded"
)

// ChannelLog is the log of one channel.
type ChannelLog struct {
	Channel channel.Name
	State   State
	// Outcome is that of the last attempt; nil before the first.
	Outcome   *string
	Attempts  int
	LastError *string
	// DueAt is when the next attempt is planned, or when the lease of the present one ends; nil once the channel has
	// ended.
	DueAt                                *time.Time
	Targeted, Delivered, Failed, Removed int
	// Superseded is how many recipients a newer update was sent to instead. Failed does not count them.
	Superseded int
	// ActionsShown is how many of the message's actions the channel shows.
	ActionsShown int
	Truncated    bool
	// Replaced reports that an update has changed the earlier message in place.
	Replaced bool
	// PossiblyDuplicated reports that an attempt was made after one whose response was lost.
	PossiblyDuplicated bool
	// DeliveryID is that of webhook egress; nil for other channels.
	DeliveryID *string
	FinishedAt *time.Time
}

// NextAttemptAt returns when the next attempt is planned; nil when none is.
func (c ChannelLog) NextAttemptAt() *time.Time {
	if c.State == StateSending {
		return nil
	}
	return c.DueAt
}

// Attempt is one attempt to reach one recipient.
type Attempt struct {
	// Seq is its position in the log.
	Seq     int64
	Channel channel.Name
	// Subscription is the device for web push; nil for other channels.
	Subscription *uuid.UUID
	Number       int
	Outcome      string
	// Code is the HTTP or SMTP status; nil without a response.
	Code  *int32
	Error *string
	// Detail is the receiver's text, shortened; nil for none.
	Detail *string
	// RetryAfter is the wait that the receiver asked for, in seconds.
	RetryAfter *float64
	StartedAt  time.Time
	// Milliseconds is the duration of the attempt.
	Milliseconds float64
}

// Status summarizes the channels.
func (l Log) Status() Status {
	delivered, counted := 0, len(l.Channels)
	for _, c := range l.Channels {
		switch c.State {
		case StateDelivered:
			delivered++
		case StateFailed:
		case StateSuperseded:
			counted--
		case StateQueued, StateSending, StateRetrying:
			return StatusPending
		}
	}
	switch {
	case counted == 0 && len(l.Channels) > 0:
		return StatusSuperseded
	case delivered == 0:
		return StatusFailed
	case delivered == counted:
		return StatusDelivered
	}
	return StatusPartial
}

// LogQuery is a request for the log of a notification with a page of its attempts.
type LogQuery struct {
	ID           uuid.UUID
	Organization string
	// After is the Seq after which the page begins.
	After int64
	Limit int
}
