package stack

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// events records what a Reporter receives.
type events chan any

type ended struct {
	Exit

	again bool
}

type restarted struct{ name string }

func (e events) Ended(exit Exit, _ time.Duration, again bool) { e <- ended{exit, again} }

func (e events) Ready(name string, _ time.Duration, err error) {
	if err != nil {
		e <- err
		return
	}
	e <- restarted{name}
}

// next returns what the Reporter receives next, as T.
func next[T any](t *testing.T, seen events) T {
	t.Helper()
	var got T
	select {
	case event := <-seen:
		var ok bool
		if got, ok = event.(T); !ok {
			t.Fatalf("received %+v, want a %T", event, got)
		}
	case <-time.After(waitTimeout):
		t.Fatalf("received nothing in time, want a %T", got)
	}
	return got
}

// die ends a member in a way that the stack doesn't expect.
func die(t *testing.T, s *Stack, name string) {
	t.Helper()
	pid, err := s.PID(name)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// supervise runs Supervise until the returned function ends it.
func supervise(t *testing.T, s *Stack) (seen events, result <-chan error, stop func()) {
	t.Helper()
	seen = make(events, maxExits)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() { done <- s.Supervise(ctx, seen) }()
	return seen, done, stop
}

func wantEnd(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(waitTimeout):
		t.Fatal("Supervise goes on")
		return nil
	}
}

func TestSuperviseStartsAgainWhatEnds(t *testing.T) {
	o := options(t)
	s := startStack(t, o)
	seen, result, stop := supervise(t, s)
	for _, name := range []string{"gateway", "control", Fakes} {
		die(t, s, name)
		if end := next[ended](t, seen); end.Name != name || !end.Killed() || end.again {
			t.Errorf("received %+v, want the first end of %s, by a signal", end, name)
		}
		if back := next[restarted](t, seen); back.name != name {
			t.Errorf("%s is back, want %s", back.name, name)
		}
	}
	if !ready(t, s, "gateway") {
		t.Error("the gateway is not ready")
	}

	// One that can't be started is tried again, later.
	program := filepath.Join(o.Bin, "notify")
	if err := os.Rename(program, program+".away"); err != nil {
		t.Fatal(err)
	}
	die(t, s, "notify")
	if end := next[ended](t, seen); end.Name != "notify" || end.again {
		t.Errorf("received %+v, want the first end of notify", end)
	}
	if end := next[ended](t, seen); end.Name != "notify" || !end.again || end.Killed() || !strings.Contains(end.How(), "no such file") {
		t.Errorf("received %+v, want that notify can't be started", end)
	}
	if err := os.Rename(program+".away", program); err != nil {
		t.Fatal(err)
	}
	for {
		event := next[any](t, seen)
		if back, ok := event.(restarted); ok && back.name == "notify" {
			break
		}
		if end, ok := event.(ended); !ok || !end.again {
			t.Fatalf("received %+v, want that notify is back", event)
		}
	}

	stop()
	if err := wantEnd(t, result); err != nil {
		t.Errorf("Supervise = %v, want none when its context ends", err)
	}
}

func TestSuperviseEndsWithAStore(t *testing.T) {
	s := startStack(t, options(t))
	seen, result, _ := supervise(t, s)
	die(t, s, Postgres)
	err := wantEnd(t, result)
	if err == nil || !strings.Contains(err.Error(), "postgres ended by itself (signal: killed), and no service works without it") {
		t.Errorf("Supervise = %v, want that Postgres ended", err)
	}
	if len(seen) > 0 {
		t.Errorf("received %+v, want nothing", <-seen)
	}
}
