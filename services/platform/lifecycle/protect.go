package lifecycle

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/panics"
)

// Protect runs a job and returns its error. A panic of the job is an error as
// well, a *panics.Error, and is counted in switchyard.panics by the name of the
// work, so that one job can't end the process. The caller logs the error and ends
// the job, so that the job is not tried again for ever. A panic in a goroutine that
// the job starts is not covered.
func Protect(ctx context.Context, work string, job func() error) error {
	err := panics.Call(job)
	if panicked, ok := err.(*panics.Error); ok { //nolint:errorlint // One further down was recovered there, and is an error like others.
		count(ctx, work)
		return fmt.Errorf("%s: %w", work, panicked)
	}
	return err
}

// count adds a panic to the process's meter provider, which telemetry sets.
func count(ctx context.Context, work string) {
	counter, err := otel.Meter("switchyard").Int64Counter("switchyard.panics",
		metric.WithDescription("Panics of background work that ended one job, by the work."))
	if err != nil { // The name is valid: only a provider that is shut down refuses it.
		return
	}
	counter.Add(ctx, 1, metric.WithAttributes(attribute.String("work", work)))
}
