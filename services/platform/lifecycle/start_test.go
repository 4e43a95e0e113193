package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"switchyard.dev/services/platform/lifecycle"
)

// A start that fails half-way closes what it opened, in reverse order.
func TestStartUndoesAFailedBuild(t *testing.T) {
	tr := newTrace()
	r := newRunner(lifecycle.Options{})
	refused := errors.New("old schema")
	err := r.Start(t.Context(), func(context.Context) error {
		for _, name := range []string{"postgres", "redis"} {
			r.OnClose(name, func(context.Context) error { tr.lines = append(tr.lines, "close "+name); return nil })
		}
		return refused
	})
	if !errors.Is(err, refused) || err.Error() != "old schema" {
		t.Errorf("Start = %v, want %v", err, refused)
	}
	if diff := tr.diff("close redis", "close postgres"); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

func TestStartKeepsWhatABuildOpened(t *testing.T) {
	r := newRunner(lifecycle.Options{})
	err := r.Start(t.Context(), func(context.Context) error {
		r.OnClose("postgres", func(context.Context) error { t.Error("closed"); return nil })
		return nil
	})
	if err != nil {
		t.Errorf("Start = %v", err)
	}
}
