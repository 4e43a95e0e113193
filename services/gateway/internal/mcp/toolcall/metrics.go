package toolcall

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// Outcomes of calls, as metrics have them.
const (
	outcomeOK        = "ok"
	outcomeToolError = "tool_error"
	outcomeFailed    = "failed"
	outcomeRefused   = "refused"
)

// metrics are the instruments of calls. None has the organization, the server or the tool as a label, since callers
// choose their names.
type metrics struct {
	calls    metric.Int64Counter
	overhead metric.Float64Histogram
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	calls, err := meter.Int64Counter("switchyard.gateway.tool.calls",
		metric.WithDescription("Calls of tools by outcome (ok, tool_error, failed, refused: nothing was sent) and by the reason of the error."))
	if err != nil {
		return nil, fmt.Errorf("toolcall: instruments: %w", err)
	}
	overhead, err := meter.Float64Histogram("switchyard.gateway.tool.overhead", metric.WithUnit("s"),
		metric.WithDescription("Time of all checks of a call, until it is sent to its server."),
		metric.WithExplicitBucketBoundaries(.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1))
	if err != nil {
		return nil, fmt.Errorf("toolcall: instruments: %w", err)
	}
	return &metrics{calls, overhead}, nil
}

// called records a call that has ended.
func (m *metrics) called(ctx context.Context, x *execution, isError bool, err error) {
	if !x.ready.IsZero() {
		m.overhead.Record(ctx, x.ready.Sub(x.started).Seconds())
	}
	outcome, reason := outcomeOK, ""
	switch _, answered := errors.AsType[*wire.Error](err); {
	case answered:
		outcome, reason = outcomeFailed, "server_error"
	case err != nil && x.sent:
		outcome, reason = outcomeFailed, string(apierr.From(err).Reason)
	case err != nil:
		outcome, reason = outcomeRefused, string(apierr.From(err).Reason)
	case x.shown != nil: // The page of its approval.
		outcome, reason = outcomeRefused, string(ReasonApprovalRequired)
	case isError && !x.sent:
		outcome, reason = outcomeRefused, "arguments"
	case isError:
		outcome = outcomeToolError
	}
	m.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome), attribute.String("reason", reason)))
}
