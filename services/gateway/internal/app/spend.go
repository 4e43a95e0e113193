package app

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/service"
)

// startSpend aggregates the ledger for reports of spend, and measures how far that is behind.
func startSpend(s *service.Service, pool *pgxpool.Pool) error {
	store := postgres.NewSpend(pool)
	sums := spend.NewAggregator(store, s.Log)
	s.Runner.Go("spend", sums.Run)
	s.Runner.Go("spend expiry", sums.Upkeep)
	return measureSpend(s.Meter, store)
}

// lagTime bounds the reading of the gauge.
const lagTime = 2 * time.Second

// measureSpend registers the gauge of the aggregation, which every replica reports alike.
func measureSpend(meter metric.Meter, store *postgres.Spend) error {
	_, err := meter.Float64ObservableGauge("switchyard.gateway.spend.lag",
		metric.WithUnit("s"), metric.WithDescription("Age of the oldest row of the ledger that the sums of spend do not include yet."),
		metric.WithFloat64Callback(func(ctx context.Context, o metric.Float64Observer) error {
			ctx, cancel := context.WithTimeout(ctx, lagTime)
			defer cancel()
			lag, err := store.Lag(ctx)
			if err != nil {
				return err
			}
			o.Observe(lag.Seconds())
			return nil
		}))
	return err
}
