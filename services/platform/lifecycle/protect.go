package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// ErrPanic is wrapped by the error of work that panicked.
var ErrPanic = errors.New("panic")

// maxStack is how much of a stack such an error has, in bytes.
const maxStack = 4 << 10

// Protect runs a job and returns its error. A panic of the job is an error as
// well: it wraps ErrPanic, holds the beginning of the stack, and is counted in
// switchyard.panics by the name of the work, so that one job can't end the
// process. The caller logs the error and ends the job, so that the job is not
// tried again for ever. A panic in a goroutine that the job starts is not covered.
func Protect(ctx context.Context, work string, job func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			err = fmt.Errorf("%s: %w: %v\n%s", work, ErrPanic, p, stack[:min(len(stack), maxStack)])
			count(ctx, work)
		}
	}()
	return job()
}

// count adds a panic to the process's meter provider, which telemetry sets.
func count(ctx context.Context, work string) {
	panics, err := otel.Meter("switchyard").Int64Counter("switchyard.panics",
		metric.WithDescription("Panics of background work that ended one job, by the work."))
	if err != nil { // The name is valid: only a provider that is shut down refuses it.
		return
	}
	panics.Add(ctx, 1, metric.WithAttributes(attribute.String("work", work)))
}
