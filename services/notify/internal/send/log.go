package send

import (
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
)

// Log is what became of a notification.
type Log struct {
	ID           uuid.UUID
	Organization string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// Channels in the order of the request.
	Channels []ChannelLog
	// Attempts is a page of the attempts by all channels, oldest first.
	Attempts []Attempt
	// More tells that further attempts follow the last one.
	More bool
}

// State is where a channel of a notification stands.
type State string

// The states of a channel. The last two are ends.
const (
	StateQueued    State = "queued"
	StateSending   State = "sending"
	StateRetrying  State = "retrying"
	StateDelivered State = "delivered"
	StateFailed    State = "failed"
)

// ChannelLog is what became of one channel.
type ChannelLog struct {
	Channel channel.Name
	State   State
	// Outcome of the last attempt; nil before the first.
	Outcome   *string
	Attempts  int
	LastError *string
	// DueAt is when the next attempt is planned, or when the lease of the
	// present one ends; nil once the channel ended.
	DueAt                                *time.Time
	Targeted, Delivered, Failed, Removed int
	Truncated                            bool
	// PossiblyDuplicated: an attempt was made after one whose answer was lost.
	PossiblyDuplicated bool
	// DeliveryID is the webhook delivery that carries it; nil for other channels.
	DeliveryID *string
	FinishedAt *time.Time
}

// NextAttemptAt is when the next attempt is planned; nil when none is.
func (c ChannelLog) NextAttemptAt() *time.Time {
	if c.State == StateSending {
		return nil
	}
	return c.DueAt
}

// Attempt is one attempt to reach one recipient.
type Attempt struct {
	// Seq places it in the log.
	Seq     int64
	Channel channel.Name
	// Subscription reached by web push; nil for others.
	Subscription *uuid.UUID
	Number       int
	Outcome      string
	// Code is the HTTP or SMTP status; nil without an answer.
	Code  *int32
	Error *string
	// Detail is what the receiver said, shortened; nil for nothing.
	Detail *string
	// RetryAfter is the wait that the receiver asked for, in seconds.
	RetryAfter *float64
	StartedAt  time.Time
	// Milliseconds it took.
	Milliseconds float64
}

// Status sums the channels up in one word: pending, delivered, partial or failed.
func (l Log) Status() string {
	delivered := 0
	for _, c := range l.Channels {
		switch c.State {
		case StateDelivered:
			delivered++
		case StateFailed:
		case StateQueued, StateSending, StateRetrying:
			return "pending"
		}
	}
	switch delivered {
	case 0:
		return "failed"
	case len(l.Channels):
		return "delivered"
	}
	return "partial"
}

// LogQuery asks for the log of a notification with a page of its attempts.
type LogQuery struct {
	ID           uuid.UUID
	Organization string
	// After is the Seq that the page begins after.
	After int64
	Limit int
}
