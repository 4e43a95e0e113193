// Package event owns the events by which the gateway tells organizations and operators what happened: a budget that is
// nearly spent, an approval that waits, a circuit that opened. They are recorded in an outbox, and [Relay] sends them to
// webhook-egress until it has them. [Budgets] and [Observer] find what no transaction by itself can see.
package event

import (
	"context"
	"time"
)

// The types of events. docs/events.md has their data.
const (
	BudgetThreshold = "switchyard.budget.threshold"
	RunExhausted    = "switchyard.run.exhausted"
	ApprovalPending = "switchyard.approval.pending"
	ApprovalDecided = "switchyard.approval.decided"
	PriceDrift      = "switchyard.price.drift"
	ModelDeprecated = "switchyard.model.deprecated"
	ModelRetiring   = "switchyard.model.retiring"
	CircuitOpened   = "switchyard.circuit.opened"
	CircuitClosed   = "switchyard.circuit.closed"
)

// Source is the source of the gateway's events.
const Source = "/switchyard/gateway"

// Report is an event that is not recorded yet.
type Report struct {
	// Organization is empty for what concerns no single organization.
	Organization string
	Type         string
	Subject      string
	// Transition distinguishes the subject's events of this type; empty where there is only one.
	Transition string
	// Keep is how long the record stays, and with it the memory that this was reported; zero for 30 days.
	Keep time.Duration
	Data map[string]any
}

// Event is a recorded event.
type Event struct {
	// ID is the same for the same organization, type, subject and transition.
	ID, Organization, Type, Subject string
	OccurredAt                      time.Time
	// Data is a JSON object.
	Data []byte
	// Attempts is how often it has been sent, with the present one.
	Attempts int
}

// Outbox holds the events until they are sent.
type Outbox interface {
	// Take leases at most limit events that are due, oldest first: for that long no other replica takes them.
	Take(ctx context.Context, limit int, lease time.Duration) ([]Event, error)
	// Sent records that events have arrived.
	Sent(ctx context.Context, ids []string) error
	// Postpone makes each event due after its delay.
	Postpone(ctx context.Context, delays map[string]time.Duration) error
	// GiveUp gives up the events of that age that have not been sent, and returns how many.
	GiveUp(ctx context.Context, age time.Duration) (int, error)
	// Purge deletes at most limit records that need not be kept, and returns how many.
	Purge(ctx context.Context, limit int) (int, error)
}

// Sender sends an event to webhook-egress. Sending it again changes nothing.
type Sender interface {
	Send(ctx context.Context, e Event) error
}
