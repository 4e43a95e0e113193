package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// relayed relays all notes, and returns those of targets.
func relayed(t *testing.T, s *postgres.Store) (notes []string) {
	t.Helper()
	for {
		taken, _, err := s.Relay(t.Context(), 2, func(o event.Operational) (event.Event, error) {
			if o.Target != (event.Target{}) {
				notes = append(notes, fmt.Sprintf("%s %s %s:%d", o.Organization, o.Type, o.Target.Host, o.Target.Port))
				if o.Target.Opened.IsZero() || o.Occurred.Before(o.Target.Opened) {
					t.Errorf("note %+v", o)
				}
			}
			return happening(o.Organization, "", o.Type), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if taken < 2 {
			slices.Sort(notes)
			return notes
		}
	}
}

// A circuit is recorded once when it opens and once when it closes, whatever replicas settle meanwhile, if deliveries
// without an endpoint go to its target.
func TestTargetsAreReported(t *testing.T) {
	s, pool := open(t)
	// Flow 1 is an endpoint's, of another organization than the direct ones.
	enqueue(t, s, leaseOf(1, false), draft("globex"))
	testkit.Exec(t, pool, "UPDATE flow SET endpoint_id = gen_random_uuid()")
	other := draft("acme")
	other.Target.Port = 8443
	enqueue(t, s, leaseOf(1, false), draft("acme"), other)
	jobs := map[string]delivery.Job{}
	for _, job := range claim(t, s, 3, 1).Jobs {
		jobs[fmt.Sprint(job.Organization, job.Port)] = job
	}
	acme, second, endpoint := jobs["acme443"], jobs["acme8443"], jobs["globex443"]
	if len(jobs) != 3 {
		t.Fatalf("jobs %v", jobs)
	}
	move := func(state breaker.State, of ...delivery.Job) {
		t.Helper()
		group, ctx := errgroup.WithContext(t.Context())
		for range 3 { // replicas
			group.Go(func() error {
				var results []dispatch.Result
				for _, job := range of {
					results = append(results, moved(job, state))
				}
				_, err := s.Settle(ctx, results)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	const opened, closed = "acme switchyard.target.circuit_opened example.com:", "acme switchyard.target.circuit_closed example.com:"
	for _, step := range []struct {
		name  string
		state breaker.State
		of    []delivery.Job
		want  []string
	}{
		{"opened", breaker.State{Phase: breaker.Open, Opened: 1, Until: time.Now().Add(time.Minute)}, []delivery.Job{second, acme, endpoint}, []string{opened + "443", opened + "8443"}},
		{"half-open", breaker.State{Phase: breaker.HalfOpen, Opened: 1, Level: 2}, []delivery.Job{acme, second}, nil},
		{"opened again", breaker.State{Phase: breaker.Open, Opened: 2, Until: time.Now().Add(time.Minute)}, []delivery.Job{acme}, nil},
		{"closed", breaker.State{Opened: 2}, []delivery.Job{acme, endpoint}, []string{closed + "443"}},
		{"opened after it closed", breaker.State{Phase: breaker.Open, Opened: 1, Until: time.Now().Add(time.Minute)}, []delivery.Job{acme}, []string{opened + "443"}},
	} {
		move(step.state, step.of...)
		if diff := cmp.Diff(step.want, relayed(t, s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}

	// What nothing has probed for an hour is closed, unless deliveries wait for it.
	testkit.Exec(t, pool, "UPDATE target_circuit SET seen_at = now() - interval '61 minutes'")
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = CASE WHEN port = 443 THEN 'infinity' ELSE now() END WHERE organization_id = 'acme'")
	for _, want := range []int{1, 0} {
		if n, err := s.CloseForgottenTargets(t.Context(), time.Hour, 9); err != nil || n != want {
			t.Errorf("closed %d, want %d (%v)", n, want, err)
		}
	}
	if diff := cmp.Diff([]string{closed + "443"}, relayed(t, s)); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
}
