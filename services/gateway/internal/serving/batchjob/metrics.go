package batchjob

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// metrics count what becomes of jobs.
type metrics struct{ ended, postponed metric.Int64Counter }

func newMetrics(meter metric.Meter) (m metrics, err error) {
	m.ended, err = meter.Int64Counter("switchyard.gateway.batches",
		metric.WithDescription("Batches that have ended, by status: completed, cancelled, expired or failed."))
	if err != nil {
		return m, fmt.Errorf("batches: instruments: %w", err)
	}
	m.postponed, err = meter.Int64Counter("switchyard.gateway.batch.postponed",
		metric.WithDescription("Steps of batches that failed and are repeated later, by stage: making, running, settling or clearing."))
	if err != nil {
		return m, fmt.Errorf("batches: instruments: %w", err)
	}
	return m, nil
}

func (m metrics) end(ctx context.Context, status provider.BatchStatus) {
	m.ended.Add(ctx, 1, metric.WithAttributes(attribute.String("status", string(status))))
}

func (m metrics) postpone(ctx context.Context, stage Stage) {
	m.postponed.Add(ctx, 1, metric.WithAttributes(attribute.String("stage", string(stage))))
}
