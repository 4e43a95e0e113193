// Package service starts what all services have in common: telemetry, the runner, the stores, and the open paths of the
// HTTP face. A service's app package calls Run and wires the rest in the function that it passes. Each step returns what
// it made, and takes as parameters what it needs of the steps before it.
package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/telemetry"
)

// Options of a service.
type Options struct {
	// Name of the service, such as "notify", in its logs, metrics and traces.
	Name string
	// LogLevel is the lowest level that is logged.
	LogLevel slog.Level
	// LogDropped is the share of successful calls without a line in the log; see telemetry.Options.
	LogDropped telemetry.Share
	// StoreSpans makes a span of each statement and command to a store, where traces are exported.
	StoreSpans bool
	// DrainDelay and DrainGrace are the times of the shutdown; see lifecycle.Options.
	DrainDelay, DrainGrace time.Duration
}

// Service is what the steps of the wiring share. What a step opens, it registers on Runner to be closed.
type Service struct {
	// Name of the service, Version of the build.
	Name, Version string
	Log           *slog.Logger
	Tracer        trace.Tracer
	Meter         metric.Meter
	Runner        *lifecycle.Runner
	// Metrics is the handler of GET /metrics.
	Metrics http.Handler

	// storeTracers makes the spans of the stores; nil for none.
	storeTracers trace.TracerProvider
}

// Run opens telemetry, builds the service, and runs it until ctx ends or a part of it fails; then it drains the service.
// When build fails, Run closes what build has registered on the Runner and returns build's error. If ctx has ended
// before everything had started, and build failed with [context.Canceled], Run returns nil.
func Run(ctx context.Context, o Options, build func(context.Context, *Service) error) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: o.Name, LogLevel: o.LogLevel, LogDropped: o.LogDropped})
	if err != nil {
		return err
	}
	t.Install()
	lifecycle.LimitMemory(ctx, t.Log)
	s := &Service{
		Name: o.Name, Version: t.Version, Log: t.Log, Metrics: t.MetricsHandler(),
		Tracer: t.TracerProvider.Tracer(o.Name), Meter: t.MeterProvider.Meter(o.Name),
		Runner: lifecycle.New(t.Log, lifecycle.Options{DrainDelay: o.DrainDelay, Grace: o.DrainGrace}),
	}
	if o.StoreSpans {
		s.storeTracers = innerTracers{t.TracerProvider}
	}
	s.Runner.OnClose("telemetry", t.Shutdown)
	if err := s.Runner.Start(ctx, func(ctx context.Context) error { return build(ctx, s) }); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	s.Runner.OnClose("metrics", t.StopMetrics) // The first step: some metrics are read from the stores.
	return s.Runner.Run(ctx)
}
