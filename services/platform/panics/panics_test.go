package panics_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

func faulty() error { panic("bug in a goroutine") }

func TestCall(t *testing.T) {
	plain := errors.New("plain")
	if err := panics.Call(func() error { return plain }); !errors.Is(err, plain) {
		t.Errorf("an error became %v", err)
	}
	if err := panics.Call(func() error { return nil }); err != nil {
		t.Errorf("success became %v", err)
	}
	err := panics.Call(faulty)
	if e, ok := errors.AsType[*panics.Error](err); !ok || !strings.Contains(string(e.Stack), "panics_test.faulty") {
		t.Errorf("%v, want a panic with the stack of where it was", err)
	}
}

// A panic in an errgroup is the group's error and doesn't end the process.
func TestGuard(t *testing.T) {
	var group errgroup.Group
	group.Go(panics.Guard(faulty))
	if err := group.Wait(); err == nil || !strings.Contains(err.Error(), "bug in a goroutine") {
		t.Errorf("%v, want the panic", err)
	}
}
