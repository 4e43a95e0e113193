package app

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/notify/internal/postgres"
)

// backlogTimeout bounds how long a scrape waits for the query.
const backlogTimeout = 2 * time.Second

// backlogMeter registers gauges, read at each scrape, for the recipients that have not ended and how late they are.
func backlogMeter(meter metric.Meter, queue *postgres.Queue) error {
	waiting, err := meter.Int64ObservableGauge("notify.backlog", metric.WithDescription("recipients that have not ended"))
	if err != nil {
		return fmt.Errorf("backlog meter: %w", err)
	}
	late, err := meter.Float64ObservableGauge("notify.backlog.late", metric.WithUnit("s"), metric.WithDescription("how long the recipient that is due longest has waited"))
	if err != nil {
		return fmt.Errorf("backlog meter: %w", err)
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
		defer cancel()
		backlogs, err := queue.Backlogs(ctx)
		for _, one := range backlogs {
			name := metric.WithAttributes(attribute.String("channel", string(one.Channel)))
			o.ObserveInt64(waiting, one.Waiting, name)
			o.ObserveFloat64(late, one.Oldest.Seconds(), name)
		}
		return err
	}, waiting, late)
	if err != nil {
		return fmt.Errorf("backlog meter: %w", err)
	}
	return nil
}
