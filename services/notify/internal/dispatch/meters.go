package dispatch

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/notify/internal/channel"
)

// meters count by channel, outcome and class; none of them names a recipient.
type meters struct {
	name     attribute.KeyValue
	attempts metric.Float64Histogram
	ended    metric.Int64Counter
	inFlight metric.Int64UpDownCounter
	opens    metric.Int64Counter
	late     metric.Int64Counter
}

func newMeters(meter metric.Meter, name channel.Name) (m meters, err error) {
	m.name = attribute.String("channel", string(name))
	keep := func(e error) {
		if err == nil && e != nil {
			err = fmt.Errorf("dispatch meters: %w", e)
		}
	}
	var e error
	m.attempts, e = meter.Float64Histogram("notify.attempt.duration", metric.WithUnit("s"), metric.WithDescription("attempts by outcome and class"))
	keep(e)
	m.ended, e = meter.Int64Counter("notify.recipients.ended", metric.WithDescription("recipients that ended, by status"))
	keep(e)
	m.inFlight, e = meter.Int64UpDownCounter("notify.attempts.in_flight", metric.WithDescription("attempts in flight"))
	keep(e)
	m.opens, e = meter.Int64Counter("notify.breaker.opened", metric.WithDescription("circuits that opened, of hosts and of lanes"))
	keep(e)
	m.late, e = meter.Int64Counter("notify.settle.late", metric.WithDescription("results whose lease had passed to another replica"))
	keep(e)
	return m, err
}

func (m *meters) begin(ctx context.Context) { m.inFlight.Add(ctx, 1, metric.WithAttributes(m.name)) }

func (m *meters) end(ctx context.Context) { m.inFlight.Add(ctx, -1, metric.WithAttributes(m.name)) }

func (m *meters) opened(ctx context.Context, circuit string) {
	m.opens.Add(ctx, 1, metric.WithAttributes(m.name, attribute.String("circuit", circuit)))
}

func (m *meters) settled(ctx context.Context, r *Result, held bool) {
	if !held {
		m.late.Add(ctx, 1, metric.WithAttributes(m.name))
		return
	}
	for _, t := range r.Tries {
		m.attempts.Record(ctx, t.Took.Seconds(), metric.WithAttributes(m.name,
			attribute.String("outcome", string(t.Outcome.Kind)), attribute.String("class", string(t.Outcome.Class))))
	}
	if r.Step.Ended {
		status := "failed"
		switch {
		case r.Step.Delivered:
			status = "delivered"
		case r.Superseded:
			status = "superseded"
		}
		m.ended.Add(ctx, 1, metric.WithAttributes(m.name, attribute.String("status", status)))
	}
}
