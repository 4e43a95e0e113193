package export

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Waiting is what has not been exported to a destination yet.
type Waiting struct {
	// Rows counts increments of usage counters that are not exported yet; ledger rows are not included.
	Rows int64
	// Oldest is how long the oldest of them has waited, or how long exports have been failing if that is longer.
	Oldest time.Duration
	// Refused counts the events that the destination refused and that are kept.
	Refused int64
}

// Backlog reads what waits for a destination.
type Backlog interface {
	Waiting(ctx context.Context, destination string) (Waiting, error)
}

// measureTime bounds the reading of the gauges.
const measureTime = 2 * time.Second

// Measure registers the gauges of the destinations of settings, which every replica reports alike.
func Measure(m metric.Meter, settings Settings, backlog Backlog) error {
	rows, err := m.Int64ObservableGauge("switchyard.edge.exports.waiting", metric.WithUnit("{row}"),
		metric.WithDescription("Increments of usage counters that have not been exported to a destination yet."))
	if err != nil {
		return fmt.Errorf("gauge of waiting rows: %w", err)
	}
	oldest, err := m.Float64ObservableGauge("switchyard.edge.exports.oldest", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest row has waited for a destination, or how long exports have been failing if that is longer."))
	if err != nil {
		return fmt.Errorf("gauge of the oldest row: %w", err)
	}
	refused, err := m.Int64ObservableGauge("switchyard.edge.exports.refused", metric.WithUnit("{event}"),
		metric.WithDescription("Events that a destination refused and that are kept."))
	if err != nil {
		return fmt.Errorf("gauge of refused events: %w", err)
	}
	_, err = m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, measureTime)
		defer cancel()
		for _, d := range settings.Destinations {
			w, err := backlog.Waiting(ctx, d.Name)
			if err != nil {
				return fmt.Errorf("read what waits for %s: %w", d.Name, err)
			}
			of := metric.WithAttributes(attribute.String("destination", d.Name))
			o.ObserveInt64(rows, w.Rows, of)
			o.ObserveFloat64(oldest, w.Oldest.Seconds(), of)
			o.ObserveInt64(refused, w.Refused, of)
		}
		return nil
	}, rows, oldest, refused)
	return err
}
