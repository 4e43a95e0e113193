// Package devtest stops what tests of the development stack started, and finds the programs that they need. Only tests
// import it.
package devtest

import (
	"context"
	"os"
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

// Tool returns the path of a program that a variable names; make sets it.
func Tool(tb testing.TB, setting string) string {
	tb.Helper()
	path := os.Getenv(setting)
	if path == "" {
		tb.Fatalf("%s names no program: run `make k8s`", setting)
	}
	return path
}
