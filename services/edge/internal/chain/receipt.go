package chain

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Receipts checks that services count the calls that they answer.
type Receipts struct {
	log       *slog.Logger
	uncounted metric.Int64Counter
}

// NewReceipts returns Receipts that report to a log and a metric.
func NewReceipts(log *slog.Logger, m metric.Meter) (*Receipts, error) {
	uncounted, err := m.Int64Counter("switchyard.edge.uncounted",
		metric.WithDescription("Calls of customers that a service has answered and not counted, by service."))
	if err != nil {
		return nil, fmt.Errorf("counter of uncounted calls: %w", err)
	}
	return &Receipts{log, uncounted}, nil
}

// Check reports a successful call on a billed route that the service has not counted. Services of earlier releases count
// no calls.
func (x *Receipts) Check(ctx context.Context, counted bool, service, path string) {
	if counted {
		return
	}
	x.uncounted.Add(ctx, 1, metric.WithAttributes(attribute.String("service", service)))
	x.log.ErrorContext(ctx, "a service has answered a call and not counted it: its release may be older than the edge's",
		"service", service, "route", path)
}
