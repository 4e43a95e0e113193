package lifecycle

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/panics"
)

// Protect runs a job and returns its error. A panic of the job is returned as an error too, a wrapped *panics.Error, so
// that one job can't end the process. It is counted in switchyard.panics by work, the name of the work. The caller logs
// the error and ends the job, so that a job that panics is not retried forever. Protect does not recover a panic in a
// goroutine that the job starts.
func Protect(ctx context.Context, work string, job func() error) error {
	err := panics.Call(job)
	if panicked, ok := err.(*panics.Error); ok { //nolint:errorlint // A panic recovered deeper is an ordinary error.
		count(ctx, work)
		return fmt.Errorf("%s: %w", work, panicked)
	}
	return err
}

// count adds a panic to the process's global meter provider, which package telemetry sets.
func count(ctx context.Context, work string) {
	counter, err := otel.Meter("switchyard").Int64Counter("switchyard.panics",
		metric.WithDescription("Panics of background work that ended one job, by the work."))
	if err != nil { // The name is valid: only a provider that has been shut down refuses it.
		return
	}
	counter.Add(ctx, 1, metric.WithAttributes(attribute.String("work", work)))
}
