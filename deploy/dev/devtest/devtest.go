// Package devtest stops what tests of the development stack started. Only tests import it.
package devtest

import (
	"context"
	"testing"
	"time"
)

// Stop calls stop, which may take as long as limit, also when the test's own context has
// ended. An error fails the test.
func Stop(tb testing.TB, limit time.Duration, stop func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), limit)
	defer cancel()
	if err := stop(ctx); err != nil {
		tb.Error(err)
	}
}
