// Package telemetry sets up structured logs, traces and metrics of a service. Each service's app package calls Setup
// first and Shutdown last, and passes the providers to the packages that need them.
//
// Lines are written to standard error and metrics are scraped through MetricsHandler. The standard variables of
// OpenTelemetry's SDK export signals over OTLP/gRPC besides: traces if OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set and OTEL_TRACES_EXPORTER is not "none", metrics if OTEL_METRICS_EXPORTER is
// "otlp", lines if OTEL_LOGS_EXPORTER is; OTEL_SDK_DISABLED=true exports nothing. The SDK reads the other OTEL_* variables
// itself.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Options identify the service and configure its log.
type Options struct {
	// Service is the name of the service, for example "webhook-egress".
	Service string
	// Version of the build; empty means the version that the build recorded.
	Version string
	// LogLevel is the lowest level that is logged; the zero value is info.
	LogLevel slog.Level
	// LogDropped is the share of successful calls without a line.
	LogDropped Share
	// LogWriter receives one JSON object per line, each at once; nil means standard error, which receives lines together.
	LogWriter io.Writer
}

// Telemetry is the logger, the tracing and the metrics of one process.
type Telemetry struct {
	// Version of the build.
	Version string
	// Log writes JSON with the keys ts, level, msg, service and version, and request_id and trace_id if the context has
	// them.
	Log *slog.Logger
	// TracerProvider makes spans. Without an OTLP endpoint it records nothing and propagates the caller's trace context
	// unchanged.
	TracerProvider trace.TracerProvider
	// MeterProvider makes instruments that Registry exposes.
	MeterProvider metric.MeterProvider
	// Propagator reads and writes W3C traceparent, tracestate and baggage.
	Propagator propagation.TextMapPropagator
	// Registry holds every metric of the process. It is not the global one.
	Registry *prometheus.Registry

	// exported reads the metrics that are exported over OTLP; nil if none are.
	exported *sdkmetric.PeriodicReader
	// lines are those that wait for standard error; nil with another writer.
	lines *lines
	// closers end the providers, and logClosers after them that of the log.
	closers, logClosers []func(context.Context) error
}

// Setup returns the telemetry of a process. It opens no connection. It fails if Check or CheckFiles does.
func Setup(ctx context.Context, opts Options) (*Telemetry, error) {
	if err := errors.Join(Check(), CheckFiles()); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	opts.Version = cmp.Or(opts.Version, Version())
	res, err := resource.New(
		ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(opts.Service), semconv.ServiceVersion(opts.Version)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	t := &Telemetry{
		Version:    opts.Version,
		Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
		Registry:   prometheus.NewRegistry(),
	}
	if err := t.setupLog(ctx, opts, res); err != nil {
		return nil, fmt.Errorf("telemetry: logs: %w", err)
	}
	if err := t.setupMetrics(ctx, res); err != nil {
		return nil, fmt.Errorf("telemetry: metrics: %w", err)
	}
	if err := t.setupTraces(ctx, res); err != nil {
		return nil, fmt.Errorf("telemetry: traces: %w", err)
	}
	return t, nil
}

// Install sets t's providers, propagator and log as OpenTelemetry's global ones, and t's log as the output of the
// standard logger, for libraries that accept no others. No other function of this package changes a global.
func (t *Telemetry) Install() {
	log.SetFlags(0)
	log.SetOutput(libraryLines{t.Log})
	otel.SetTracerProvider(t.TracerProvider)
	otel.SetMeterProvider(t.MeterProvider)
	otel.SetTextMapPropagator(t.Propagator)
	otel.SetLogger(logr.FromSlogHandler(t.Log.Handler()))
}

// Shutdown exports the remaining spans and stops the providers, until ctx ends. Call it once, after everything that may
// still log, trace or count.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Concat(t.closers, t.logClosers) {
		errs = append(errs, end(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("telemetry: shutdown: %w", err)
	}
	return nil
}

// release is set by image builds, which have no access to the repository's history: -ldflags "-X
// switchyard.dev/services/platform/telemetry.release=v1.2.3".
var release string

// Version returns the release, or the version that the Go toolchain recorded.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if release != "" || !ok {
		return cmp.Or(release, "unknown")
	}
	return info.Main.Version
}
