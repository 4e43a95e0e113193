package inference

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// counter keeps sums that the SDK reads when metrics are collected: each request counts half a dozen values, and
// reporting each of them to the SDK costs ten times as much. Safe for concurrent use.
type counter struct {
	mu sync.RWMutex
	of map[label]*sum
}

// sum is the count of one set of labels.
type sum struct {
	atomic.Int64

	labels metric.MeasurementOption
}

func newCounter(meter metric.Meter, name, what string) (*counter, error) {
	c := &counter{of: make(map[label]*sum)}
	_, err := meter.Int64ObservableCounter(name, metric.WithDescription(what),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			c.each(func(n int64, labels metric.MeasurementOption) { o.Observe(n, labels) })
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("counter %s: %w", name, err)
	}
	return c, nil
}

// newCostCounter returns a counter of pico-USD that is exported in USD: up to nine million a process.
//
// Of the two metrics, switchyard.gateway.cost is deprecated: its unit stands in upper case in the name that Prometheus
// has for it. It is kept for one release.
func newCostCounter(meter metric.Meter) (*counter, error) {
	c := &counter{of: make(map[label]*sum)}
	observe := metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
		c.each(func(n int64, labels metric.MeasurementOption) { o.Observe(float64(n)/1e12, labels) })
		return nil
	})
	_, err := meter.Float64ObservableCounter("switchyard.gateway.cost.usd", observe,
		metric.WithUnit("{USD}"), metric.WithDescription("Cost metered, by provider and model."))
	_, oldErr := meter.Float64ObservableCounter("switchyard.gateway.cost", observe,
		metric.WithUnit("USD"), metric.WithDescription("Deprecated: switchyard.gateway.cost.usd replaces it."))
	if err := errors.Join(err, oldErr); err != nil {
		return nil, fmt.Errorf("counters of cost: %w", err)
	}
	return c, nil
}

func (c *counter) add(l label, n int64) {
	c.mu.RLock()
	s := c.of[l]
	c.mu.RUnlock()
	if s == nil {
		s = c.find(l)
	}
	s.Add(n)
}

func (c *counter) find(l label) *sum {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of[l]
	if s == nil {
		s = &sum{labels: l.option()}
		c.of[l] = s
	}
	return s
}

func (c *counter) each(visit func(n int64, labels metric.MeasurementOption)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.of {
		visit(s.Load(), s.labels)
	}
}
