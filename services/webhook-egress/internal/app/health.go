package app

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/webhook-egress/internal/eventtype"
	"switchyard.dev/services/webhook-egress/internal/filter"
)

// pingTimeout bounds the health check.
const pingTimeout = 2 * time.Second

// health answers 200 while the database can be reached, and 503 otherwise: without it no delivery can be accepted. It
// needs no authentication.
func health(ping func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
		defer cancel()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if err := ping(ctx); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":"unavailable","checks":{"database":"failing"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok","checks":{"database":"ok"}}`)
	})
}

// expiredMeter returns a counter of deliveries whose deadline passed while they were queued.
func expiredMeter(meter metric.Meter) func(context.Context, int) {
	counter, err := meter.Int64Counter("switchyard.webhook.expired",
		metric.WithDescription("Deliveries whose deadline passed while they waited."))
	if err != nil {
		return func(context.Context, int) {}
	}
	return func(ctx context.Context, n int) {
		counter.Add(ctx, int64(n), metric.WithAttributes(attribute.String("where", "queue")))
	}
}

// filterMeter returns a counter of evaluations of endpoints' filters by verdict.
func filterMeter(meter metric.Meter) func(filter.Verdict) {
	counter, err := meter.Int64Counter("switchyard.webhook.filters",
		metric.WithDescription("Evaluations of endpoints' filters, by verdict."))
	if err != nil {
		return func(filter.Verdict) {}
	}
	return func(verdict filter.Verdict) {
		counter.Add(context.Background(), 1, metric.WithAttributes(attribute.String("verdict", cmp.Or(string(verdict), "matched"))))
	}
}

// schemaMeter returns a counter of checks of payloads against the schemas of event types by verdict.
func schemaMeter(meter metric.Meter) func(eventtype.Verdict) {
	counter, err := meter.Int64Counter("switchyard.webhook.schema.checks",
		metric.WithDescription("Checks of events' payloads against the schemas of their types, by verdict."))
	if err != nil {
		return func(eventtype.Verdict) {}
	}
	return func(verdict eventtype.Verdict) {
		counter.Add(context.Background(), 1, metric.WithAttributes(attribute.String("verdict", string(verdict))))
	}
}
