package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

func (t *Telemetry) setupTraces(ctx context.Context, res *resource.Resource) error {
	exported, err := traces.exported()
	if err != nil {
		return err
	}
	// An SDK provider that never samples would clear the caller's sampled flag and so cut the trace off from downstream
	// services.
	if !exported {
		t.TracerProvider = noop.NewTracerProvider()
		return nil
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter))
	t.TracerProvider = provider
	// A provider that runs out of time leaves its exporter open and retrying, so the exporter is shut down too.
	t.closers = append(t.closers, provider.Shutdown, exporter.Shutdown)
	return nil
}
