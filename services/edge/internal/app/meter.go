package app

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/service"
)

// autoMode lets the spool's volume decide.
const autoMode meter.Mode = "auto"

// usageMode returns what responses wait for: a write to the spool's disk is enough where the spool survives its pod.
func usageMode(setting meter.Mode, durable bool) meter.Mode {
	switch {
	case setting != autoMode:
		return setting
	case durable:
		return meter.ModeSynced
	}
	return meter.ModeCommitted
}

// usageStore is the store of the meter.
type usageStore struct {
	*postgres.Usage
	*pgdb.Announcer
}

// startMeter starts the meter. Its loops end after the face has drained, and it closes after them.
func startMeter(ctx context.Context, s *service.Service, cfg Config, pool *pgxpool.Pool) (*meter.Meter, error) {
	counts, durable, err := s.Spool(ctx, cfg.SpoolDir, cfg.SpoolLimit)
	if err != nil {
		return nil, err
	}
	announcer, err := postgres.NewAnnouncer(pool)
	if err != nil {
		return nil, err
	}
	usage, mode := postgres.NewUsage(pool), usageMode(meter.Mode(cfg.UsageMode), durable)
	s.Log.InfoContext(ctx, "meter opened", "mode", mode)
	counter := meter.New(usageStore{usage, announcer}, counts, mode, s.Log)
	s.Runner.OnClose("meter", func(ctx context.Context) error {
		defer announcer.Close()
		return counter.Close(ctx)
	})
	s.Runner.Go("meter", counter.Write)
	s.Runner.Go("meter replay", counter.Replay)
	s.Runner.Go("meter of ended processes", counter.Adopt)
	s.Runner.Check("meter", func(context.Context) error { return counter.Admit() })
	return counter, measureWaiting(s.Meter, counter, mode)
}

// measureWaiting adds the gauge of what waits on disk, which also says what responses wait for.
func measureWaiting(m metric.Meter, counter *meter.Meter, mode meter.Mode) error {
	attributes := metric.WithAttributes(attribute.String("mode", string(mode)))
	_, err := m.Int64ObservableGauge("switchyard.edge.usage.waiting",
		metric.WithUnit("By"), metric.WithDescription("Bytes of counts on disk that are not in the database yet."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(counter.Waiting(), attributes)
			return nil
		}))
	return err
}
