package dispatch

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// meters holds the metrics of the dispatcher. They are counted in memory, never in the database.
type meters struct {
	deliveries metric.Int64Counter
	attempts   metric.Float64Histogram
	lost       metric.Int64Counter
	held       metric.Int64Counter
	moves      metric.Int64Counter
	// labels caches attribute sets, because making one costs more than counting.
	mu     sync.RWMutex
	labels map[ending]labels
}

// ending holds the attributes of a settled result.
type ending struct{ outcome, fault string }

// labels holds the options of a result's measurements.
type labels struct{ delivery, attempt metric.MeasurementOption }

func (m *meters) label(of ending) labels {
	m.mu.RLock()
	known, ok := m.labels[of]
	m.mu.RUnlock()
	if ok {
		return known
	}
	outcome := attribute.String("outcome", of.outcome)
	made := labels{
		delivery: metric.WithAttributeSet(attribute.NewSet(outcome, attribute.String("fault", of.fault))),
		attempt:  metric.WithAttributeSet(attribute.NewSet(outcome)),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.labels[of] = made
	return made
}

func newMeters(meter metric.Meter, r *inflight) (*meters, error) {
	m := &meters{labels: make(map[ending]labels)}
	var err error
	if m.deliveries, err = meter.Int64Counter("switchyard.webhook.deliveries",
		metric.WithDescription("Settled attempts and ends of deliveries, by outcome and fault.")); err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	if m.attempts, err = meter.Float64Histogram("switchyard.webhook.attempt.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30),
		metric.WithDescription("Duration of requests to targets, by outcome.")); err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	if m.lost, err = meter.Int64Counter("switchyard.webhook.leases.lost",
		metric.WithDescription("Results that arrived after their lease had passed to another replica.")); err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	if m.held, err = meter.Int64Counter("switchyard.webhook.held",
		metric.WithDescription("Deliveries held back because the service lacks something, by reason.")); err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	if m.moves, err = meter.Int64Counter("switchyard.webhook.breaker.moves",
		metric.WithDescription("Changes of circuits by this replica, by circuit (host or flow) and new phase.")); err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	_, err = meter.Int64ObservableGauge("switchyard.webhook.in_memory", metric.WithUnit("By"),
		metric.WithDescription("Bodies of the deliveries in flight."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(r.inMemory()))
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	_, err = meter.Int64ObservableGauge("switchyard.webhook.in_flight",
		metric.WithDescription("Deliveries that this replica is sending or settling."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(r.count()))
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	_, err = meter.Int64ObservableGauge("switchyard.webhook.backlogged_flows",
		metric.WithDescription("Flows of which this replica knows that due deliveries wait in the store."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(r.backlogged()))
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("dispatch: instruments: %w", err)
	}
	return m, nil
}

// moved counts a change of a circuit.
func (m *meters) moved(ctx context.Context, move breaker.Move) {
	to := string(move.State.Phase)
	if move.State.Phase == breaker.Closed {
		to = "closed"
	}
	circuit := "flow"
	if move.Target.Flow == 0 {
		circuit = "host"
	}
	m.moves.Add(ctx, 1, metric.WithAttributes(attribute.String("circuit", circuit), attribute.String("to", to)))
}

// settled counts a committed result.
func (m *meters) settled(ctx context.Context, r Result, held bool) {
	if !held {
		m.lost.Add(ctx, 1)
	}
	if r.Step.Held {
		m.held.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", string(r.Step.Fault))))
		return
	}
	outcome := string(r.Step.Outcome)
	switch {
	case !held:
		outcome = string(delivery.OutcomeLate)
	case r.Attempt == nil:
		outcome = string(r.Step.Status)
	}
	label := m.label(ending{outcome, string(r.Step.Fault)})
	m.deliveries.Add(ctx, 1, label.delivery)
	if r.Attempt != nil {
		m.attempts.Record(ctx, r.Attempt.Timing.Total.Seconds(), label.attempt)
	}
}
