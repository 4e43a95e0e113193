package houseevent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"switchyard.dev/services/platform/houseevent"
)

func TestMeasure(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("")
	var failure error
	err := houseevent.Measure(meter, "switchyard.test", func(ctx context.Context) (int64, time.Duration, error) {
		if _, bound := ctx.Deadline(); !bound {
			t.Error("the reading has no bound")
		}
		return 3, 90 * time.Second, failure
	})
	if err != nil {
		t.Fatal(err)
	}
	// read returns the value of each gauge.
	read := func() map[string]float64 {
		var all metricdata.ResourceMetrics
		_ = reader.Collect(t.Context(), &all) // It returns the failure of a callback.
		values := map[string]float64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch data := m.Data.(type) {
				case metricdata.Gauge[int64]:
					values[m.Name] = float64(data.DataPoints[0].Value)
				case metricdata.Gauge[float64]:
					values[m.Name] = data.DataPoints[0].Value
				}
			}
		}
		return values
	}
	if got := read(); got["switchyard.test.events.waiting"] != 3 || got["switchyard.test.events.oldest"] != 90 || len(got) != 2 {
		t.Errorf("gauges %v", got)
	}
	failure = errors.New("away")
	if got := read(); len(got) != 0 {
		t.Errorf("gauges of an outbox that can't be read: %v", got)
	}
}
