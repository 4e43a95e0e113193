package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Status is a circuit with its state, its recent changes and its counts.
type Status struct {
	Circuit

	State
	// Changes are the last 8 changes of phase, the latest last.
	Changes []Change
	// InFlight is how many calls are in flight at the vendor, all families together, of Limit at most.
	InFlight, Limit int
	// Failures is how many calls in the window count towards opening while the circuit is closed.
	Failures int
	// Held is how many organizations are not let through because their own calls failed.
	Held int
	// OpenReplicas is how many replicas report the circuit as open, including this one.
	OpenReplicas int
}

// Snapshot returns the present status of every circuit that was ever called, by provider and family.
func (m *Monitor) Snapshot() []Status {
	var all []Status
	at := m.now().Sub(m.base)
	for _, c := range m.all() {
		m.mu.Lock()
		v := m.vendors[c.name.Provider]
		m.mu.Unlock()
		state, replicas := c.shown()
		c.history.Lock()
		changes := slices.Clone(c.changes)
		c.history.Unlock()
		all = append(all, Status{
			Circuit: c.name, State: state, Changes: changes, Held: c.heldNow(),
			InFlight: int(v.bulkhead.inFlight.Load()), Limit: v.bulkhead.limit,
			Failures: c.window.tally(at, m.Policy.Window).Failures, OpenReplicas: replicas,
		})
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Family, b.Family))
	})
	return all
}

// Measure registers the health metrics with meter. The family label is bounded: the families that policies list and at
// most maxUnlisted others for each provider.
func (m *Monitor) Measure(meter metric.Meter) error {
	state, err := meter.Int64ObservableGauge("switchyard.gateway.breaker.state",
		metric.WithDescription("Circuit breaker by provider and model family: 0 closed, 1 half-open, 2 open."))
	if err != nil {
		return fmt.Errorf("breaker gauge: %w", err)
	}
	held, err := meter.Int64ObservableGauge("switchyard.gateway.breaker.held",
		metric.WithDescription("Organizations held back for their own calls' failures, by provider and model family."))
	if err != nil {
		return fmt.Errorf("held gauge: %w", err)
	}
	inFlight, err := meter.Int64ObservableGauge("switchyard.gateway.bulkhead.in_flight",
		metric.WithDescription("Calls in flight, by provider."))
	if err != nil {
		return fmt.Errorf("bulkhead gauge: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		var last string
		for _, s := range m.Snapshot() {
			provider := attribute.String("provider", s.Provider)
			labels := metric.WithAttributes(provider, attribute.String("family", s.Family))
			o.ObserveInt64(state, int64(s.Phase), labels)
			o.ObserveInt64(held, int64(s.Held), labels)
			if s.Provider != last {
				o.ObserveInt64(inFlight, int64(s.InFlight), metric.WithAttributes(provider))
				last = s.Provider
			}
		}
		return nil
	}, state, held, inFlight)
	if err != nil {
		return fmt.Errorf("health metrics: %w", err)
	}
	return nil
}
