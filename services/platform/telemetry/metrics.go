package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Bounds of the metrics endpoint, which needs no authentication.
const (
	scrapesInFlight = 8
	scrapeTimeout   = 10 * time.Second
)

func (t *Telemetry) setupMetrics(ctx context.Context, res *resource.Resource) error {
	t.Registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	exposed, err := otelprom.New(otelprom.WithRegisterer(t.Registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(exposed)}
	exported, err := metrics.exported()
	if err != nil {
		return err
	}
	if exported {
		exporter, err := otlpmetricgrpc.New(ctx)
		if err != nil {
			return err
		}
		t.exported = sdkmetric.NewPeriodicReader(exporter)
		options = append(options, sdkmetric.WithReader(t.exported))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	t.MeterProvider = provider
	t.closers = append(t.closers, func(ctx context.Context) error {
		if err := provider.Shutdown(ctx); !errors.Is(err, sdkmetric.ErrReaderShutdown) { // StopMetrics has ended it.
			return err
		}
		return nil
	})
	return nil
}

// StopMetrics exports the metrics for the last time, if they are exported. Call it while what they are read from, such
// as a pool, is still open.
func (t *Telemetry) StopMetrics(ctx context.Context) error {
	if t.exported == nil {
		return nil
	}
	return t.exported.Shutdown(ctx)
}

// MetricsHandler serves the metrics in the format that the scraper requests. A collector that fails is logged and left
// out.
func (t *Telemetry) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(t.Registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(t.Log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesInFlight,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}
