package app

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/service"
	platform "switchyard.dev/services/platform/service"
)

// startUsage starts what adds the services' counts to the usage counters and what merges old counters, and returns the
// counters' reader.
func startUsage(ctx context.Context, s *platform.Service, cfg Config, stores stores, billed *billing.Tail) (*meter.Reader, error) {
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return nil, err
	}
	client := service.New(transport, &cfg.WebhookURL, &cfg.NotifyURL, cfg.ControlToken)
	feeds := make(map[string]meter.Feed)
	for name, base := range cfg.services() {
		feeds[name] = client.Counts(base)
	}
	usage := postgres.NewUsage(stores.pool)
	follower := meter.NewFollower(feeds, usage, s.Log)
	s.Runner.Go("usage", follower.Run)
	s.Runner.Go("usage upkeep", meter.NewUpkeep(usage, cfg.retention(), s.Log).Run)
	if len(feeds) == 0 {
		s.Log.InfoContext(ctx, "no usage is read: no URL of a service is set")
	}
	return meter.NewReader(follower, usage), measureUsage(s.Meter, follower, billed)
}

// charges is the gateway's billed feed in the gauge of measureUsage.
const charges = "gateway charges"

// measureUsage adds the gauge of how old is what control knows: the counters, and what the gateway bills.
func measureUsage(m metric.Meter, f *meter.Follower, billed *billing.Tail) error {
	_, err := m.Float64ObservableGauge("switchyard.control.usage.age", metric.WithUnit("s"),
		metric.WithDescription("Time since the counts of a service, or the charges of the gateway, were last read to their end, by service."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for name, age := range f.Age(time.Now()) {
				o.Observe(age.Seconds(), metric.WithAttributes(attribute.String("service", name)))
			}
			if billed == nil {
				return nil
			}
			if age, followed := billed.Age(time.Now()); followed {
				o.Observe(age.Seconds(), metric.WithAttributes(attribute.String("service", charges)))
			}
			return nil
		}))
	return err
}
