package inference

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/health"
	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

// outcomeFailed is a request that no provider served; it has no ledger entry.
const outcomeFailed ledger.Outcome = "failed"

// metrics are the pipeline's instruments. None has the organization or a free
// model name as a label: their number has no bound.
type metrics struct {
	requests   metric.Int64Counter
	failures   metric.Int64Counter
	attempts   metric.Int64Counter
	skips      metric.Int64Counter
	retries    metric.Int64Counter
	tokens     metric.Int64Counter
	cost       metric.Float64Counter
	firstToken metric.Float64Histogram
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	var m metrics
	var errs [8]error
	m.requests, errs[0] = meter.Int64Counter("switchyard.gateway.requests",
		metric.WithDescription("Completions by the provider that ended them and by outcome."))
	m.failures, errs[1] = meter.Int64Counter("switchyard.gateway.attempt.failures",
		metric.WithDescription("Attempts that failed, by provider and error class."))
	m.tokens, errs[2] = meter.Int64Counter("switchyard.gateway.tokens",
		metric.WithDescription("Tokens metered, by provider and bucket."))
	m.cost, errs[3] = meter.Float64Counter("switchyard.gateway.cost",
		metric.WithUnit("USD"), metric.WithDescription("Cost metered, by provider."))
	m.firstToken, errs[4] = meter.Float64Histogram("switchyard.gateway.first_token",
		metric.WithUnit("s"), metric.WithDescription("Time to the first content of a stream, by provider."),
		metric.WithExplicitBucketBoundaries(.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 60))
	m.attempts, errs[len(errs)-3] = meter.Int64Counter("switchyard.gateway.attempts",
		metric.WithDescription("Calls to providers; kind is failover where the request had called another before."))
	m.skips, errs[len(errs)-2] = meter.Int64Counter("switchyard.gateway.skips",
		metric.WithDescription("Candidates not called, by provider and cause: breaker, bulkhead, rest of a credential."))
	m.retries, errs[len(errs)-1] = meter.Int64Counter("switchyard.gateway.retries",
		metric.WithDescription("Calls repeated at the same provider, and those that the retry budget refused."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("instruments: %w", err)
	}
	return &m, nil
}

func byProvider(name string, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(more, attribute.String("provider", name))...)
}

func (m *metrics) request(ctx context.Context, name string, outcome ledger.Outcome) {
	m.requests.Add(ctx, 1, byProvider(name, attribute.String("outcome", string(outcome))))
}

func (m *metrics) attemptFailed(ctx context.Context, name string, class apierr.Class) {
	m.failures.Add(ctx, 1, byProvider(name, attribute.String("error_class", string(class))))
}

// attempt counts a call, the request's nth.
func (m *metrics) attempt(ctx context.Context, name string, n int) {
	kind := "first"
	if n > 1 {
		kind = "failover"
	}
	m.attempts.Add(ctx, 1, byProvider(name, attribute.String("kind", kind)))
}

func (m *metrics) skipped(ctx context.Context, name string, cause health.Cause) {
	m.skips.Add(ctx, 1, byProvider(name, attribute.String("cause", string(cause))))
}

func (m *metrics) retry(ctx context.Context, name string, granted bool) {
	outcome := "granted"
	if !granted {
		outcome = "refused"
	}
	m.retries.Add(ctx, 1, byProvider(name, attribute.String("budget", outcome)))
}

func (m *metrics) first(ctx context.Context, name string, after time.Duration) {
	m.firstToken.Record(ctx, after.Seconds(), byProvider(name))
}

func (m *metrics) served(ctx context.Context, r Report, u provider.Usage, outcome ledger.Outcome) {
	m.request(ctx, r.Provider, outcome)
	m.cost.Add(ctx, r.Cost.Cents()/100, byProvider(r.Provider))
	for _, bucket := range []struct {
		name   string
		tokens int64
	}{
		{"input", u.Input},
		{"cache_read", u.CacheRead},
		{"cache_write", u.CacheWrite},
		{"output", u.Output},
		{"reasoning", u.Reasoning},
	} {
		if bucket.tokens > 0 {
			m.tokens.Add(ctx, bucket.tokens, byProvider(r.Provider, attribute.String("bucket", bucket.name)))
		}
	}
}
