package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// outcomeFailed is a request that no provider served; it has no ledger entry.
const outcomeFailed ledger.Outcome = "failed"

// metrics are the pipeline's instruments. None has the organization as a label: the number of organizations is
// unbounded. Models are a label; see Engine.modelLabel.
type metrics struct {
	requests, failures, attempts, skips, retries, hedges, tokens, cost, beyond *counter

	calls    *callMetrics
	queue    metric.Float64Histogram
	refusals metric.Int64Counter
}

// label is a set of labels: always the provider; its host, a model and operation where the convention wants them; and
// one more, by its key.
type label struct {
	provider, host, model, operation string
	key                              attribute.Key
	value                            string
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	var m metrics
	var errs []error
	count := func(into **counter, name, what string) {
		var err error
		*into, err = newCounter(meter, name, what)
		errs = append(errs, err)
	}
	count(&m.requests, "switchyard.gateway.requests", "Completions by the provider that ended them and by outcome.")
	count(&m.failures, "switchyard.gateway.attempt.failures", "Attempts that failed, by provider and error class.")
	count(&m.tokens, "switchyard.gateway.tokens", "Tokens metered, by provider and bucket.")
	count(&m.attempts, "switchyard.gateway.attempts", "Calls to providers; kind is failover where the request had called another before, and hedge where another call was still in flight.")
	count(&m.skips, "switchyard.gateway.skips", "Candidates not called, by provider and cause: breaker, bulkhead, rest of a credential.")
	count(&m.retries, "switchyard.gateway.retries", "Calls repeated at the same provider, and those that the retry budget refused.")
	count(&m.hedges, "switchyard.gateway.hedges", "Second calls of requests whose first call was slow, by the provider of the second call and outcome: won, lost, failed, or why there was none (no_budget, no_room, no_reservation).")
	count(&m.beyond, "switchyard.gateway.usage.implausible", "Usage reports and streams that exceed what the request can use, by provider and part; the excess is not billed.")
	var err error
	m.calls, err = newCallMetrics(meter)
	errs = append(errs, err)
	m.queue, err = meter.Float64Histogram("switchyard.gateway.queue.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that requests waited until limits had room, by outcome: served, refused or left."),
		metric.WithExplicitBucketBoundaries(waitBuckets...))
	errs = append(errs, err)
	m.refusals, err = meter.Int64Counter("switchyard.gateway.quota.refusals",
		metric.WithDescription("Requests that a limit refused, by what it applies to (credential, organization, key, or the queue) and cause."))
	errs = append(errs, err)
	m.cost, err = newCostCounter(meter)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("instruments: %w", err)
	}
	return &m, nil
}

// option returns the label as an option of a measurement, with further attributes.
func (l label) option(further ...attribute.KeyValue) metric.MeasurementOption {
	var set []attribute.KeyValue
	if l.operation != "" {
		set = append(set, attrProvider.String(l.host), attrConfigured.String(l.provider), attrRequestModel.String(l.model), attrOperation.String(l.operation))
	} else {
		set = append(set, attribute.String("provider", l.provider))
	}
	if l.key != "" {
		set = append(set, l.key.String(l.value))
	}
	return metric.WithAttributeSet(attribute.NewSet(append(set, further...)...))
}

func by(name string, key attribute.Key, value string) label {
	return label{provider: name, key: key, value: value}
}

func (m *metrics) request(name string, outcome ledger.Outcome) {
	m.requests.add(by(name, "outcome", string(outcome)), 1)
}

func (m *metrics) attemptFailed(name string, class apierr.Class) {
	m.failures.add(by(name, "error_class", string(class)), 1)
}

// Kinds of an attempt.
const (
	attemptFirst    = "first"
	attemptFailover = "failover"
	attemptHedge    = "hedge"
)

// attempt counts a call of a request.
func (m *metrics) attempt(name, kind string) {
	m.attempts.add(by(name, "kind", kind), 1)
}

func (m *metrics) skipped(name string, cause health.Cause) {
	m.skips.add(by(name, "cause", string(cause)), 1)
}

func (m *metrics) retry(name string, granted bool) {
	outcome := "granted"
	if !granted {
		outcome = "refused"
	}
	m.retries.add(by(name, "budget", outcome), 1)
}

func (m *metrics) hedge(name string, outcome hedgeOutcome) {
	m.hedges.add(by(name, "outcome", string(outcome)), 1)
}

// queued records a request that waited until limits had room.
func (m *metrics) queued(ctx context.Context, waited time.Duration, outcome string) {
	m.queue.Record(ctx, waited.Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
}

// refused counts a request that a limit refused.
func (m *metrics) refused(ctx context.Context, e *quota.RefusedError) {
	limit := cmp.Or(e.Subject.Kind(), "queue")
	m.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("limit", limit), attribute.String("cause", string(e.Cause))))
}

// implausible counts a report, or a stream, of more than the request can use.
func (m *metrics) implausible(name string, part excess) {
	m.beyond.add(by(name, "part", string(part)), 1)
}

// spent counts what was billed for a call to a model of this label.
func (m *metrics) spent(model string, r *ledger.Report) {
	m.cost.add(by(r.Provider, "model", model), int64(r.Cost))
	for _, b := range provider.Buckets() {
		if tokens := *b.Of(&r.Usage); tokens > 0 && b.Side() != provider.SidePieces {
			m.tokens.add(by(r.Provider, "bucket", b.Name()), tokens)
		}
	}
}
