package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
)

func TestProtect(t *testing.T) {
	reader := sdk.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })

	refused := errors.New("refused")
	if err := lifecycle.Protect(t.Context(), "job", func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error of a job: %v, want its own", err)
	}
	if n := counted(t, reader); n != 0 {
		t.Errorf("counted %d panics, want none", n)
	}
	err := lifecycle.Protect(t.Context(), "job", func() error { panic("boom") })
	if !errors.Is(err, panics.Err) {
		t.Fatalf("error of a panic: %v, want panics.Err", err)
	}
	for _, part := range []string{"job: ", "boom", "TestProtect"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if n := counted(t, reader); n != 1 {
		t.Errorf("counted %d panics, want 1", n)
	}
}

// counted returns the value of switchyard.panics for the work "job".
func counted(t *testing.T, reader sdk.Reader) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != "switchyard.panics" || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				if work, _ := point.Attributes.Value("work"); work.AsString() == "job" {
					n += point.Value
				}
			}
		}
	}
	return n
}

// A part that panics stops the service in order, as one that fails does.
func TestPartThatPanicsDrains(t *testing.T) {
	r := newRunner(lifecycle.Options{})
	closed := false
	r.OnClose("pool", func(context.Context) error { closed = true; return nil })
	r.Go("part", func(context.Context) error { panic("boom") })
	if err := r.Run(t.Context()); !errors.Is(err, panics.Err) {
		t.Errorf("error %v, want panics.Err", err)
	}
	if !closed {
		t.Error("the pool was not closed")
	}
}
