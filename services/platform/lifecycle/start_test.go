package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"switchyard.dev/services/platform/lifecycle"
)

// A start that fails half-way closes what it opened, and goes no further.
func TestBuildUndoesAFailedStart(t *testing.T) {
	tr := newTrace()
	r := newRunner(lifecycle.Options{})
	refused := errors.New("old schema")
	opens := func(name string, err error) lifecycle.Step {
		return lifecycle.Step{Name: name, Do: func(context.Context) error {
			if err == nil {
				r.OnClose(name, func(context.Context) error { tr.lines = append(tr.lines, "close "+name); return nil })
			}
			tr.lines = append(tr.lines, "open "+name)
			return err
		}}
	}
	err := r.Build(t.Context(), opens("postgres", nil), opens("redis", nil), opens("schema", refused), opens("servers", nil))
	if !errors.Is(err, refused) || err.Error() != "schema: old schema" {
		t.Errorf("Build = %v", err)
	}
	if diff := tr.diff("open postgres", "open redis", "open schema", "close redis", "close postgres"); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	if err := newRunner(lifecycle.Options{}).Build(t.Context(), opens("a", nil)); err != nil {
		t.Errorf("Build = %v", err)
	}
}
