package quota

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// Measure reports the state of the books through a meter.
func (b *Books) Measure(meter metric.Meter) error {
	waiting, err := meter.Int64ObservableGauge("switchyard.gateway.quota.waiting",
		metric.WithDescription("Requests that wait on this replica until limits of tokens or requests have room."))
	if err != nil {
		return fmt.Errorf("quota gauge: %w", err)
	}
	shared, err := meter.Int64ObservableGauge("switchyard.gateway.quota.shared",
		metric.WithDescription("1 while the replica uses the books that all replicas share, 0 while it keeps to its part of every limit."))
	if err != nil {
		return fmt.Errorf("quota gauge: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(waiting, int64(b.Waiting()))
		using := int64(0)
		if b.Shared() {
			using = 1
		}
		o.ObserveInt64(shared, using)
		return nil
	}, waiting, shared)
	if err != nil {
		return fmt.Errorf("quota gauges: %w", err)
	}
	return nil
}
