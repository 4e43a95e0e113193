// Package alive remembers which flows of a host were answered lately, so that the host's circuit opens only when every
// flow with traffic there fails. Services keep it in a circuit's state, which replicas share as text: its size is
// bounded, however many flows a host has.
package alive

import "time"

// most bounds the flows that are remembered. Of more flows, those that were answered last count: a host at which these
// fail, while no other is answered, is down.
const most = 8

// Flows holds the flows whose last outcome was an answer. The zero Flows holds none.
type Flows [most]Flow

// Flow is a flow and when it was answered.
type Flow struct {
	ID uint64    `json:"id,omitzero"`
	At time.Time `json:"at,omitzero"`
}

// With returns f after an answer to a flow at a time. It replaces the flow's earlier answer, or else the oldest one.
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

// Last returns when a flow was answered; the zero time if it is not remembered.
func (f Flows) Last(id uint64) time.Time {
	for _, flow := range f {
		if flow.ID == id {
			return flow.At
		}
	}
	return time.Time{}
}

// Without returns f after a flow failed.
func (f Flows) Without(id uint64) Flows {
	for i, flow := range f {
		if flow.ID == id {
			f[i] = Flow{}
		}
	}
	return f
}

// Merge adds the answers of other that are later than since.
func (f Flows) Merge(other Flows, since time.Time) Flows {
	for _, flow := range other {
		if flow.At.After(since) {
			f = f.With(flow.ID, flow.At)
		}
	}
	return f
}

// Others reports whether another flow than id was answered at since or later.
func (f Flows) Others(id uint64, since time.Time) bool {
	for _, flow := range f {
		if flow.ID != id && !flow.At.IsZero() && !flow.At.Before(since) {
			return true
		}
	}
	return false
}
