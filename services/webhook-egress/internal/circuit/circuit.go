// Package circuit lists the targets of deliveries with the states of their circuits: the host's circuit, and the
// circuits of endpoints and paths there. The store knows the targets and which of their flows wait; the breaker knows
// the state of each circuit.
package circuit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// State is the state of a circuit.
type State string

// The states.
const (
	StateClosed   State = "closed"
	StateOpen     State = "open"
	StateHalfOpen State = "half_open"
)

// Circuit is the state of one target. Times are zero where there is none.
type Circuit struct {
	Target breaker.Target
	// Host is the state of the host's circuit. If that is closed and Flows has circuits, State is open if one of them is,
	// and otherwise half-open; OpenedAt, NextAttemptAt and Openings are taken from Flows. In all other cases State is
	// Host.
	Host, State State
	// Flows has the circuits of endpoints and paths that are not closed, in the order in which they opened: at most
	// MaxFlows of WaitingFlows.
	Flows        []Flow
	WaitingFlows int
	// OpenedAt is when it opened, after it was closed; NextAttemptAt when an open one lets a delivery try the target.
	OpenedAt, NextAttemptAt time.Time
	// Openings is how often in a row it has opened; 0 while it is closed.
	Openings int
	// Failures is how many attempts have failed since the last delivery.
	Failures                      int
	LastFailedAt, LastDeliveredAt time.Time
	// Endpoints is how many active endpoints the target has.
	Endpoints int
}

// MaxFlows is the largest number of flows that a Circuit lists.
const MaxFlows = 20

// Flow is the circuit of an endpoint, or of a path of deliveries without an endpoint.
type Flow struct {
	// Endpoint is zero for a path.
	Endpoint delivery.ID
	State    State
	// The other fields have the same meaning as in Circuit.
	OpenedAt, NextAttemptAt       time.Time
	Openings, Failures            int
	LastFailedAt, LastDeliveredAt time.Time
}

// StoredFlow is what the store knows about a flow that waits for its own circuit.
type StoredFlow struct {
	ID int64
	// Circuit is its number, as in breaker.Target.
	Circuit                       int
	Endpoint                      delivery.ID
	OpenedAt, ParkedUntil         time.Time
	Openings, Failures            int
	LastFailedAt, LastDeliveredAt time.Time
}

// Stored is what the store knows of a target.
type Stored struct {
	Target breaker.Target
	// WaitingFlows is how many flows wait for their own circuits. Flows has the first MaxFlows of them.
	Flows        []StoredFlow
	WaitingFlows int
	// Waiting reports whether a flow of the target waits for the host's circuit. ParkedUntil is until when.
	Waiting               bool
	OpenedAt, ParkedUntil time.Time
	Openings, Failures    int
	LastFailedAt          time.Time
	LastDeliveredAt       time.Time
	Endpoints             int
}

// Filter selects circuits; an empty field matches all.
type Filter struct {
	Organization string
	// Every selects all organizations; then Organization is empty.
	Every  bool
	States []State
}

// Store finds targets.
type Store interface {
	// Targets returns up to limit targets after one, in the order of organization, host and port, of an organization or,
	// with every, of all. With waiting it returns only targets with a flow that waits for a circuit.
	Targets(ctx context.Context, organization string, every, waiting bool, after breaker.Target, limit int) ([]Stored, error)
}

// Breaker knows the states of circuits.
type Breaker interface {
	// States returns the states of targets, in their order; the zero State of those that it does not know.
	States(ctx context.Context, targets []breaker.Target) []breaker.State
}

// Service lists circuits.
type Service struct {
	store   Store
	breaker Breaker
}

// NewService returns a Service.
func NewService(store Store, breaker Breaker) *Service { return &Service{store, breaker} }

const (
	// listWindow is how many targets are filtered at a time, listWindows how many such windows one page examines.
	listWindow, listWindows = 200, 10
)

// List returns the matching circuits after a target (the zero Target for the first page), in the order of organization,
// host and port, and the target after which the next page begins; the zero Target on the last page. A page may be shorter
// than limit.
func (s *Service) List(ctx context.Context, f Filter, after breaker.Target, limit int) (page []Circuit, next breaker.Target, err error) {
	if err := delivery.CheckTexts(map[string]string{"organization_id": f.Organization, "cursor": after.Organization + after.Host}); err != nil {
		return nil, breaker.Target{}, err
	}
	if !f.Every && after.Organization != f.Organization {
		after = breaker.Target{Organization: f.Organization}
	}
	window := limit + 1
	if len(f.States) > 0 {
		window = max(window, listWindow)
	}
	for range listWindows {
		found, err := s.store.Targets(ctx, f.Organization, f.Every, f.onlyBroken(), after, window)
		if err != nil {
			return nil, breaker.Target{}, fmt.Errorf("list circuits: %w", err)
		}
		for i, circuit := range s.complete(ctx, found) {
			if len(f.States) > 0 && !slices.Contains(f.States, circuit.State) {
				continue
			}
			if page = append(page, circuit); len(page) == limit {
				if i == len(found)-1 && len(found) < window {
					return page, breaker.Target{}, nil
				}
				return page, circuit.Target, nil
			}
		}
		if len(found) < window {
			return page, breaker.Target{}, nil
		}
		after = found[len(found)-1].Target
	}
	return page, after, nil
}

// onlyBroken reports whether the filter selects no closed circuit.
func (f Filter) onlyBroken() bool {
	return len(f.States) > 0 && !slices.Contains(f.States, StateClosed)
}

// complete adds the states that the breaker knows.
func (s *Service) complete(ctx context.Context, found []Stored) []Circuit {
	var targets []breaker.Target
	for _, one := range found {
		targets = append(targets, one.Target)
		for _, flow := range one.Flows {
			target := one.Target
			target.Flow, target.Circuit = flow.ID, flow.Circuit
			targets = append(targets, target)
		}
	}
	circuits := make([]Circuit, len(found))
	if len(found) == 0 {
		return circuits
	}
	states := s.breaker.States(ctx, targets)
	for i, one := range found {
		circuits[i] = circuitOf(one, states[0], states[1:1+len(one.Flows)])
		states = states[1+len(one.Flows):]
	}
	return circuits
}

// circuitOf combines what the store knows about a target with the breaker's states of its host and of stored.Flows, in
// their order. If the breaker doesn't know a circuit, a waiting flow shows that it is open: the breaker starts from
// there, too.
func circuitOf(stored Stored, ofHost breaker.State, ofFlows []breaker.State) Circuit {
	host := flowOf(StoredFlow{
		OpenedAt: stored.OpenedAt, ParkedUntil: stored.ParkedUntil, Openings: stored.Openings,
	}, ofHost, stored.Waiting)
	c := Circuit{
		Target: stored.Target, Host: host.State, State: host.State, OpenedAt: host.OpenedAt, NextAttemptAt: host.NextAttemptAt,
		Openings: host.Openings, Failures: stored.Failures, Endpoints: stored.Endpoints,
		LastFailedAt: stored.LastFailedAt, LastDeliveredAt: stored.LastDeliveredAt, WaitingFlows: stored.WaitingFlows,
	}
	for i, state := range ofFlows {
		if one := flowOf(stored.Flows[i], state, true); one.State != StateClosed {
			c.Flows = append(c.Flows, one)
		} else {
			c.WaitingFlows--
		}
	}
	if host.State == StateClosed {
		c.follow()
	}
	return c
}

// follow sets the state of a target whose host's circuit is closed to the state of its flows.
func (c *Circuit) follow() {
	for _, flow := range c.Flows {
		if c.State != StateOpen {
			c.State = flow.State
		}
		c.OpenedAt, c.NextAttemptAt = earlier(c.OpenedAt, flow.OpenedAt), earlier(c.NextAttemptAt, flow.NextAttemptAt)
		c.Openings = max(c.Openings, flow.Openings)
	}
}

// earlier returns the earlier of two times. A zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func flowOf(stored StoredFlow, state breaker.State, waits bool) Flow {
	f := Flow{
		Endpoint: stored.Endpoint, State: StateClosed, Failures: stored.Failures,
		LastFailedAt: stored.LastFailedAt, LastDeliveredAt: stored.LastDeliveredAt,
	}
	if state.Changed.IsZero() && waits {
		state = breaker.State{Phase: breaker.Open, Opened: stored.Openings, Until: stored.ParkedUntil}
	}
	switch state.Phase {
	case breaker.Closed:
		return f
	case breaker.Open:
		f.State, f.NextAttemptAt = StateOpen, state.Until
	case breaker.HalfOpen:
		f.State = StateHalfOpen
	}
	f.Openings, f.OpenedAt = state.Opened, stored.OpenedAt
	if f.OpenedAt.IsZero() {
		f.OpenedAt = state.Since
	}
	return f
}
