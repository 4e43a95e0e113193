// Package event owns the events by which the gateway tells organizations and operators what happened: a budget that is
// nearly spent, an approval that waits, a circuit that opened. They are recorded in an outbox; package houseevent of platform
// has their types, and the relay that sends them. [Budgets] and [Observer] find what no transaction by itself can see.
package event

import "time"

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
