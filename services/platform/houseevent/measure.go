package houseevent

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// measureTime bounds the reading of the gauges.
const measureTime = 2 * time.Second

// Measure registers the gauges of a service's outbox, which every replica reports alike: <prefix>.events.waiting and
// <prefix>.events.oldest. waiting returns how many events are not sent, and the age of the oldest.
func Measure(meter metric.Meter, prefix string, waiting func(context.Context) (events int64, oldest time.Duration, err error)) error {
	count, err := meter.Int64ObservableGauge(prefix+".events.waiting",
		metric.WithUnit("{event}"), metric.WithDescription("Events that webhook egress has not taken yet."))
	if err != nil {
		return err
	}
	age, err := meter.Float64ObservableGauge(prefix+".events.oldest",
		metric.WithUnit("s"), metric.WithDescription("Age of the oldest event that webhook egress has not taken yet."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, measureTime)
		defer cancel()
		events, oldest, err := waiting(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(count, events)
		o.ObserveFloat64(age, oldest.Seconds())
		return nil
	}, count, age)
	return err
}
