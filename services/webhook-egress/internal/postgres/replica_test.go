package postgres_test

import (
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

func TestReplicas(t *testing.T) {
	s, pool := open(t)
	dead, err := s.Join(t.Context(), "dead")
	if err != nil {
		t.Fatal(err)
	}
	alive, err := s.Join(t.Context(), "alive")
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, leaseOf(dead, true), draft("acme"), draft("acme"))
	enqueue(t, s, leaseOf(alive, true), draft("acme"))
	if freed, err := s.RemoveSilent(t.Context(), alive, time.Second*30); freed != 0 || err != nil {
		t.Errorf("freed %d of replicas that beat, %v", freed, err)
	}
	testkit.Exec(t, pool, "UPDATE replica SET seen_at = now() - interval '1 minute'")
	if freed, err := s.RemoveSilent(t.Context(), alive, time.Second*30); freed != 2 || err != nil {
		t.Errorf("freed %d, %v", freed, err)
	}
	if listed, err := s.Heartbeat(t.Context(), dead); listed || err != nil {
		t.Errorf("the dead beats: %v, %v", listed, err)
	}
	if listed, err := s.Heartbeat(t.Context(), alive); !listed || err != nil {
		t.Errorf("the living does not beat: %v, %v", listed, err)
	}
	if jobs := claim(t, s, alive, 8).Jobs; len(jobs) != 2 || jobs[0].LeaseSeq != 3 {
		t.Errorf("claimed %+v", jobs)
	}
}

// Each replica that ends with a delivery in hand makes it wait longer for the next one,
// until a result of it is stored.
func TestTakeoversAreCounted(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(0, false), draft("acme"))
	for n := range 4 {
		replica, err := s.Join(t.Context(), "short-lived")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now() - interval '1 second'")
		testkit.Exec(t, pool, "UPDATE flow SET ready_at = now() - interval '1 second'")
		jobs := claim(t, s, replica, 8).Jobs
		if len(jobs) != 1 || jobs[0].Takeovers != n {
			t.Fatalf("after %d replicas claimed %+v", n, jobs)
		}
		if n == 3 {
			break
		}
		testkit.Exec(t, pool, "UPDATE replica SET seen_at = now() - interval '1 minute'")
		if freed, err := s.RemoveSilent(t.Context(), 0, 30*time.Second); freed != 1 || err != nil {
			t.Fatalf("freed %d, %v", freed, err)
		}
		waits := []int{0, 5, 15, 30}
		wait := testkit.Value[int](t, pool, "SELECT ceil(extract(epoch FROM due_at - now()))::integer FROM delivery_queue")
		if wait > waits[n] || n > 0 && wait <= waits[n-1] {
			t.Errorf("after %d takeovers it waits %d s, want %d", n+1, wait, waits[n])
		}
	}
	// A lease that ran out is a takeover as well.
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now() - interval '1 second'")
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now() - interval '1 second'")
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 1 || jobs[0].Takeovers != 4 {
		t.Fatalf("after a lease that ran out claimed %+v, want the fourth takeover", jobs)
	}
	retry := dispatch.Result{Job: jobs[0], Step: delivery.Step{Status: delivery.StatusRetrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultServer}}
	if _, err := s.Settle(t.Context(), []dispatch.Result{retry}); err != nil {
		t.Fatal(err)
	}
	if testkit.Value[int](t, pool, "SELECT takeovers FROM delivery_queue") != 0 {
		t.Error("a stored result doesn't end the row of takeovers")
	}
}
