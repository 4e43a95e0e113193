package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

func TestClaimGivesWhatWasEnqueued(t *testing.T) {
	s, _ := open(t)
	d := draft("acme")
	d.Owner, d.Headers, d.Sealed = "ann", map[string]string{"X-A": "b"}, []byte{1, 2}
	d.Deadline, d.Traceparent = time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC(), "00-a-b-01"
	flow := enqueue(t, s, leaseOf(1, false), d)[0].Flow
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	jobs[0].Deadline = jobs[0].Deadline.UTC()
	if diff := cmp.Diff(d.Job(leased(flow, 1)), jobs[0]); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if again := claim(t, s, 2, 8).Jobs; len(again) != 0 {
		t.Errorf("a leased row was claimed: %v", again)
	}
}

// Headers that are none hold back their own delivery, and no claim.
func TestClaimOfUnreadableHeaders(t *testing.T) {
	s, pool := open(t)
	bad, good := draft("acme"), draft("acme")
	bad.Headers = map[string]string{"X-A": "b"}
	enqueue(t, s, leaseOf(1, false), bad, good)
	testkit.Exec(t, pool, "UPDATE deliveries SET headers = '[1]' WHERE headers IS NOT NULL")
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 2 {
		t.Fatalf("%d jobs claimed, want 2", len(jobs))
	}
	for _, job := range jobs {
		if want := job.ID == bad.ID; job.HeadersUnreadable != want {
			t.Errorf("headers of %s unreadable: %v, want %v", job.ID, job.HeadersUnreadable, want)
		}
	}
}

func TestLeasedRowsAreNotClaimed(t *testing.T) {
	s, pool := open(t)
	stored := enqueue(t, s, leaseOf(1, true), draft("acme"))
	if stored[0].LeaseSeq != 1 || len(claim(t, s, 2, 8).Jobs) != 0 {
		t.Errorf("stored = %+v", stored)
	}
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now()") // the lease ends
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	if jobs := claim(t, s, 2, 8).Jobs; len(jobs) != 1 || jobs[0].LeaseSeq != 2 {
		t.Errorf("jobs = %+v", jobs)
	}
}

func TestRoundRobin(t *testing.T) {
	s, _ := open(t)
	for _, organization := range []string{"a", "b", "c"} {
		var drafts []*delivery.Draft
		for range 10 {
			drafts = append(drafts, draft(organization))
		}
		enqueue(t, s, leaseOf(1, false), drafts...)
	}
	taken := map[string]int{}
	for _, job := range claim(t, s, 1, 4).Jobs {
		taken[job.Organization]++
	}
	if diff := cmp.Diff(map[string]int{"a": 4, "b": 4, "c": 4}, taken); diff != "" {
		t.Errorf("rows per organization (-want +got):\n%s", diff)
	}
}

// Flows for which a claim has no room come first at the next one, else those
// with the longest queues would take it all, every time.
func TestNoRoomCostsNoTurn(t *testing.T) {
	s, _ := open(t)
	const flows, rows = 9, 3
	for i := range flows {
		var drafts []*delivery.Draft
		for range rows {
			drafts = append(drafts, draft(strconv.Itoa(i)))
		}
		enqueue(t, s, leaseOf(1, false), drafts...)
	}
	for i := range flows { // Each time two flows are looked at, fewer than are ready, and there is room for one row.
		claimed, err := s.Claim(t.Context(), dispatch.Claim{
			Replica: 1, Lease: time.Minute, Flows: 2, Bytes: 1 << 20, FullFlows: []int64{}, FullOrganizations: []string{},
			Grant: func(_ context.Context, picked []dispatch.Picked) []dispatch.Grant {
				grants := make([]dispatch.Grant, len(picked))
				grants[0].Rows = 1
				return grants
			},
		})
		if err != nil || len(claimed.Jobs) != 1 {
			t.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
		}
		if of := claimed.Jobs[0].Organization; of != strconv.Itoa(i) {
			t.Errorf("claim %d went to flow %s", i, of)
		}
	}
}

// An enqueue that waits, here for a key, must not use up the lease of its rows.
func TestLeaseBeginsAtTheInsert(t *testing.T) {
	s, pool := open(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	d := draft("acme")
	d.Key = "k"
	hash := sha256.Sum256([]byte(d.Key))
	_, err = tx.Exec(t.Context(), `INSERT INTO idempotency VALUES ('acme', $1, '', gen_random_uuid(), now())`, hash[:])
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Enqueue(t.Context(), []*delivery.Draft{d}, leaseOf(1, true))
		done <- err
	}()
	for testkit.Value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'", t.Name()) == 0 {
		runtime.Gosched()
	}
	var waited time.Time
	if err := tx.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&waited); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tx.Rollback(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue WHERE due_at >= $1", waited.Add(time.Minute)); n != 1 {
		t.Error("the lease began before the wait")
	}
}

func TestFence(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	first := claim(t, s, 1, 8).Jobs[0]
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now()")
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	second := claim(t, s, 2, 8).Jobs[0]

	failed := delivered(first)
	failed.Step = delivery.Step{Status: delivery.StatusFailed, Outcome: delivery.OutcomeFailed, Attempts: 1, Fault: delivery.FaultServer}
	failed.Attempt.Outcome = delivery.OutcomeFailed
	for _, step := range []struct {
		name   string
		result dispatch.Result
		held   bool
		status delivery.Status
	}{
		{"the lease before", failed, false, delivery.StatusDelivering},
		{"the lease", delivered(second), true, delivery.StatusDelivered},
		{"the lease again", delivered(second), false, delivery.StatusDelivered},
		{"the lease before again", failed, false, delivery.StatusDelivered},
	} {
		held, err := s.Settle(t.Context(), []dispatch.Result{step.result})
		if err != nil || held[0] != step.held {
			t.Errorf("%s: held %v, %v", step.name, held, err)
		}
		record, err := s.Get(t.Context(), "acme", "", first.ID, false)
		if err != nil || record.Status != step.status {
			t.Errorf("%s: %s, %v", step.name, record.Status, err)
		}
	}
	outcomes := map[delivery.Outcome]int{}
	page, _, err := s.Attempts(t.Context(), first.ID, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range page {
		outcomes[a.Outcome]++
	}
	if diff := cmp.Diff(map[delivery.Outcome]int{delivery.OutcomeLate: 1, delivery.OutcomeDelivered: 1}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// A parked flow costs nothing but itself, then one delivery tries it.
func TestParkedFlow(t *testing.T) {
	s, pool := open(t)
	var drafts []*delivery.Draft
	for range 20 {
		drafts = append(drafts, draft("acme"))
	}
	enqueue(t, s, leaseOf(1, false), drafts...)
	job := claim(t, s, 1, 1).Jobs[0]
	hold := dispatch.Result{Job: job, Step: delivery.Step{Status: delivery.StatusQueued, Fault: "why", Delay: time.Hour, Held: true}}
	if held, err := s.Settle(t.Context(), []dispatch.Result{hold}); err != nil || !held[0] {
		t.Fatalf("held %v, %v", held, err)
	}
	if claimed := claim(t, s, 1, 8); claimed.Flows != 0 || claimed.Next < 59*time.Minute {
		t.Errorf("claimed %+v", claimed)
	}
	fresh := enqueue(t, s, leaseOf(1, false), draft("acme"))
	record, err := s.Get(t.Context(), "acme", "", fresh[0].ID, false)
	if err != nil {
		t.Fatal(err)
	}
	if !fresh[0].Flow.Metered {
		t.Error("a parked flow is not metered")
	}
	if record.LastError != "why" || record.Attempts != 0 {
		t.Errorf("last error %q after %d attempts, want why after 0", record.LastError, record.Attempts)
	}
	if due := time.Until(record.NextAttempt); due < 59*time.Minute {
		t.Errorf("due in %s, want with its flow in an hour", due)
	}
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now(), parked_until = now()")
	probe := claim(t, s, 1, 8).Jobs
	if len(probe) != 1 || claim(t, s, 2, 8).Flows != 0 {
		t.Fatalf("%d probes", len(probe))
	}
	if _, err := s.Settle(t.Context(), []dispatch.Result{delivered(probe[0])}); err != nil {
		t.Fatal(err)
	}
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 8 {
		t.Errorf("%d rows after the probe got through, want 8", len(jobs))
	}
}

func TestFlowsSleep(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	first := claim(t, s, 1, 8)
	if len(first.Jobs) != 1 || first.Next < 59*time.Second {
		t.Fatalf("claimed %+v; a flow without further due rows sleeps to the end of the lease", first)
	}
	if _, err := s.Settle(t.Context(), []dispatch.Result{delivered(first.Jobs[0])}); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	if claimed := claim(t, s, 1, 8); claimed.Flows != 1 || len(claimed.Drained) != 1 || claimed.Next >= 0 {
		t.Errorf("claimed %+v", claimed)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE ready_at = 'infinity'"); n != 1 {
		t.Error("the idle flow does not sleep")
	}
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 {
		t.Error("an enqueue did not wake the flow")
	}
}

// While an enqueue is under way, its flow can be claimed from but not put to sleep.
func TestEnqueueKeepsItsFlowAwake(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	claim(t, s, 1, 8)
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM flow FOR KEY SHARE"); err != nil {
		t.Fatal(err)
	}
	if claimed := claim(t, s, 1, 8); claimed.Flows != 1 {
		t.Errorf("claimed %+v", claimed)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE ready_at <= now()"); n != 1 {
		t.Error("the flow was put to sleep under an enqueue")
	}
}

// A flow without an endpoint probes its host with each of its paths in turn, although one path has many deliveries that
// were due earlier or at the same time. Each claim continues from the chosen delivery.
func TestPathsOfAFlowTakeTurns(t *testing.T) {
	for name, bad := range map[string][]int{
		"alone": {0, 0}, "one transaction": {0, 50}, "another is older": {300, 0}, "both": {300, 50},
	} {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			ordered := func(path string, n int) *delivery.Draft {
				d := draftTo(t, "acme", path+"?n="+strconv.Itoa(n))
				d.Target, d.OrderingKey = d.Target.Ordered(), path+strconv.Itoa(n)
				return d
			}
			for batch, n := range bad {
				var drafts []*delivery.Draft
				for i := range n {
					drafts = append(drafts, ordered("/bad", 1000*batch+i))
				}
				if batch == len(bad)-1 {
					drafts = append(drafts, ordered("/b", 0), ordered("/good", 0))
				}
				if len(drafts) > 0 {
					enqueue(t, s, delivery.Lease{Reserve: func(delivery.Flow, int) bool { return false }}, drafts...)
				}
			}
			paths := make(map[string]bool)
			for opened := range 3 {
				testkit.Exec(t, pool, "UPDATE flow SET state = 'open', parked_reason = 'breaker_open', parked_by_host = true, ready_at = now(), opened = $1", opened)
				claimed, err := s.Claim(t.Context(), dispatch.Claim{
					Replica: 1, Lease: time.Minute, Flows: 10, Bytes: 1 << 20, FullFlows: []int64{}, FullOrganizations: []string{},
					Grant: func(context.Context, []dispatch.Picked) []dispatch.Grant {
						return []dispatch.Grant{{Rows: 1, AdmittedByHost: true}}
					},
				})
				if err != nil || len(claimed.Jobs) != 1 {
					t.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
				}
				job := claimed.Jobs[0]
				path, _, _ := strings.Cut(job.URL, "?")
				paths[path] = true
				settle(t, s, retried(job, 0))
			}
			want := map[string]bool{"https://example.com/b": true, "https://example.com/good": true, "https://example.com/bad": true}
			if bad[0]+bad[1] == 0 {
				delete(want, "https://example.com/bad")
			}
			if diff := cmp.Diff(want, paths); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}
