// Package alive remembers which flows of a host got an answer lately, so that the host's circuit opens only when every
// flow with traffic there fails. Services store this in the circuit's state, which replicas share as text. Its size is
// bounded, however many flows a host has.
package alive

import "time"

// most is how many flows are remembered: those that were answered last. If all of these fail while no other flow gets
// an answer, the host is down.
const most = 8

// Flows holds the flows whose last attempt got an answer. The zero Flows holds none.
type Flows [most]Flow

// Flow is a flow and the time of its last answer.
type Flow struct {
	ID uint64    `json:"id,omitzero"`
	At time.Time `json:"at,omitzero"`
}

// With returns f after a flow got an answer at a time. The answer replaces the flow's previous one, or else the oldest
// in f. If that one is not older, f stays unchanged.
func (f Flows) With(id uint64, at time.Time) Flows {
	place := 0
	for i, flow := range f {
		if flow.ID == id && !flow.At.IsZero() {
			place = i
			break
		}
		if flow.At.Before(f[place].At) {
			place = i
		}
	}
	if f[place].At.Before(at) {
		f[place] = Flow{id, at}
	}
	return f
}

// Last returns when a flow last got an answer, or the zero time if f doesn't hold the flow.
func (f Flows) Last(id uint64) time.Time {
	for _, flow := range f {
		if flow.ID == id {
			return flow.At
		}
	}
	return time.Time{}
}

// Without returns f without a flow, which has failed.
func (f Flows) Without(id uint64) Flows {
	for i, flow := range f {
		if flow.ID == id {
			f[i] = Flow{}
		}
	}
	return f
}

// Merge returns f with the answers from other that are later than since.
func (f Flows) Merge(other Flows, since time.Time) Flows {
	for _, flow := range other {
		if flow.At.After(since) {
			f = f.With(flow.ID, flow.At)
		}
	}
	return f
}

// Others reports whether a flow other than id got an answer at since or later.
func (f Flows) Others(id uint64, since time.Time) bool {
	for _, flow := range f {
		if flow.ID != id && !flow.At.IsZero() && !flow.At.Before(since) {
			return true
		}
	}
	return false
}
