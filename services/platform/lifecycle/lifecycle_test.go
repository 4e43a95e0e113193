package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSignal = errors.New("terminated")

// trace records events, each with the time since the trace was made.
type trace struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func newTrace() *trace { return &trace{start: time.Now()} }

func (tr *trace) add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, fmt.Sprintf("%v ", time.Since(tr.start))+fmt.Sprintf(format, args...))
}

func (tr *trace) diff(want ...string) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return cmp.Diff(want, tr.lines)
}

// step returns a function that runs for d or until its context ends, and then returns err or the context's cause.
func (tr *trace) step(name string, d time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		tr.add("%s begins", name)
		select {
		case <-time.After(d):
			tr.add("%s done", name)
			return err
		case <-ctx.Done():
			tr.add("%s cut off", name)
			return ctx.Err()
		}
	}
}

// part returns a part that runs until its context ends.
func (tr *trace) part(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		tr.add("%s ends: %v", name, context.Cause(ctx))
		return ctx.Err()
	}
}

func newRunner(opts lifecycle.Options) *lifecycle.Runner {
	return lifecycle.New(slog.New(slog.DiscardHandler), opts)
}

func ready(t *testing.T, r *lifecycle.Runner) string {
	t.Helper()
	var lines []string
	for _, result := range r.Ready(t.Context()) {
		lines = append(lines, fmt.Sprintf("%s: %v", result.Name, result.Err))
	}
	return strings.Join(lines, "; ")
}

func TestRunStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		r := newRunner(lifecycle.Options{DrainDelay: 5 * time.Second, Grace: 25 * time.Second})
		r.OnClose("telemetry", tr.step("telemetry", time.Second, nil))
		r.OnClose("postgres", tr.step("postgres", time.Second, nil))
		r.OnClose("redis", tr.step("redis", 0, nil))
		r.Go("worker", tr.part("worker"))
		r.Go("migration check", func(context.Context) error { tr.add("check done"); return nil })
		r.OnDrain("claims", tr.step("claims", time.Second, nil))
		r.OnDrain("grpc", tr.step("grpc", 3*time.Second, nil))
		r.OnDrain("leases", func(context.Context) error { tr.add("leases; %s", ready(t, r)); return nil })

		ctx, stop := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(10 * time.Second)
			tr.add("signal; %s", ready(t, r))
			stop(errSignal)
			synctest.Wait()
			tr.add("%s", ready(t, r))
		}()
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		if diff := tr.diff(
			"0s check done",
			"10s signal; lifecycle: <nil>",
			"10s lifecycle: draining",
			"15s claims begins",
			"16s claims done",
			"16s grpc begins",
			"19s grpc done",
			"19s leases; lifecycle: draining",
			"19s worker ends: asked to stop: terminated",
			"19s redis begins",
			"19s redis done",
			"19s postgres begins",
			"20s postgres done",
			"20s telemetry begins",
			"21s telemetry done",
		); diff != "" {
			t.Errorf("trace (-want +got):\n%s", diff)
		}
	})
}

// A failing part stops the service as a signal would. No failure on the way keeps the rest from running, and every
// failure is returned.
func TestRunReportsEveryFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		r := newRunner(lifecycle.Options{Grace: 10 * time.Second})
		lost, refused := errors.New("listener lost"), errors.New("refused")
		r.OnClose("postgres", tr.step("postgres", 0, nil))
		r.OnClose("redis", tr.step("redis", 0, refused))
		r.Go("http", tr.step("http", 3*time.Second, lost))
		r.Go("worker", tr.part("worker"))
		r.Go("sloppy", func(ctx context.Context) error { <-ctx.Done(); return errors.New("flush failed") })
		r.Go("honest", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		r.OnDrain("claims", tr.step("claims", 0, refused))
		r.OnDrain("grpc", tr.step("grpc", 0, nil))

		err := r.Run(t.Context())
		if !errors.Is(err, lost) || !errors.Is(err, refused) {
			t.Errorf("Run = %v, want it to wrap both errors", err)
		}
		want := "part http: listener lost\npart sloppy: flush failed\ndrain claims: refused\nclose redis: refused"
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		if diff := tr.diff(
			"0s http begins",
			"3s http done",
			"3s claims begins",
			"3s claims done",
			"3s grpc begins",
			"3s grpc done",
			"3s worker ends: part http: listener lost",
			"3s redis begins",
			"3s redis done",
			"3s postgres begins",
			"3s postgres done",
		); diff != "" {
			t.Errorf("trace (-want +got):\n%s", diff)
		}
	})
}

// A failure during the drain neither stops the drain nor gets lost.
func TestRunReportsPartsThatFailInTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, errSignal)
		defer stop()
		r := newRunner(lifecycle.Options{DrainDelay: 5 * time.Second, Grace: 10 * time.Second})
		r.Go("http", tr.step("http", 3*time.Second, errors.New("listener lost")))
		r.OnDrain("claims", tr.step("claims", time.Second, nil))
		if err := r.Run(ctx); fmt.Sprint(err) != "part http: listener lost" {
			t.Errorf("Run = %v", err)
		}
		if diff := tr.diff("0s http begins", "3s http done", "6s claims begins", "7s claims done"); diff != "" {
			t.Errorf("trace (-want +got):\n%s", diff)
		}
	})
}

// A part that is cancelled by its own context has failed.
func TestRunTakesAnEarlyCancelForAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(lifecycle.Options{})
		r.Go("worker", func(context.Context) error { return context.Canceled })
		if err := r.Run(t.Context()); fmt.Sprint(err) != "part worker: context canceled" {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestRunBoundsTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrace()
		r := newRunner(lifecycle.Options{Grace: 10 * time.Second})
		release := make(chan struct{})
		deaf := func(name string) func(context.Context) error {
			return func(context.Context) error { tr.add("%s begins", name); <-release; return nil }
		}
		r.Go("deaf part", func(context.Context) error { <-release; return nil })
		r.Go("worker", tr.part("worker"))
		r.OnDrain("in time", tr.step("in time", 4*time.Second, nil))
		r.OnDrain("obedient", tr.step("obedient", time.Hour, nil))
		r.OnDrain("late, quick", tr.step("late, quick", 0, nil))
		r.OnDrain("deaf", deaf("deaf"))
		r.OnDrain("forced", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(500 * time.Millisecond); return nil })
		r.OnClose("deaf pool", deaf("pool"))

		ctx, stop := context.WithCancelCause(t.Context())
		stop(errSignal)
		err := r.Run(ctx)
		tr.add("Run returns")
		want := []string{
			"part deaf part: still running when the grace ended",
			"drain obedient: context deadline exceeded",
			"drain deaf: not finished within 1s: context deadline exceeded",
			"drain forced: not finished within 1s: context deadline exceeded",
			"close deaf pool: not finished within 5s: context deadline exceeded",
		}
		if diff := cmp.Diff(want, strings.Split(fmt.Sprint(err), "\n")); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		synctest.Wait()
		if diff := tr.diff(
			"0s in time begins",
			"4s in time done",
			"4s obedient begins",
			"10s obedient cut off",
			"10s late, quick begins",
			"10s late, quick done",
			"10s deaf begins",
			"13.5s worker ends: asked to stop: terminated",
			"14.5s pool begins",
			"20.5s Run returns",
		); diff != "" {
			t.Errorf("trace (-want +got):\n%s", diff)
		}
		close(release)
	})
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(lifecycle.Options{})
		release := make(chan struct{})
		r.Check("postgres", func(context.Context) error { time.Sleep(1900 * time.Millisecond); return nil })
		r.Check("redis", func(context.Context) error { return errors.New("refused") })
		r.Check("slow", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		r.Check("deaf", func(context.Context) error { <-release; return nil })
		start := time.Now()
		got := ready(t, r)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("checks took %v, want the 2s of the slowest", took)
		}
		late := "not finished within 2s: context deadline exceeded"
		want := "lifecycle: <nil>; postgres: <nil>; redis: refused; slow: " + late + "; deaf: " + late
		if got != want {
			t.Errorf("Ready = %s, want %s", got, want)
		}
		close(release)
	})
}

// A part that panics stops the service in order: other parts and all steps end as usual, and the error contains the
// stack.
func TestPanicOfAPartDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, r := newTrace(), newRunner(lifecycle.Options{Grace: time.Second})
		r.Go("bug", func(context.Context) error { panic("bug in a part") })
		r.Go("other", tr.part("other"))
		r.OnDrain("faces", tr.step("faces", 0, nil))
		r.OnDrain("broken", func(context.Context) error { panic("bug in a step") })
		r.OnClose("pool", tr.step("pool", 0, nil))
		err := r.Run(t.Context())
		for _, want := range []string{"part bug: panic: bug in a part", "drain broken: panic: bug in a step", "lifecycle_test.TestPanicOfAPartDrains"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error lacks %q: %v", want, err)
			}
		}
		for _, want := range []string{"faces", "pool", "other"} {
			if !strings.Contains(strings.Join(tr.lines, "\n"), want) {
				t.Errorf("%s did not end in order", want)
			}
		}
	})
}
