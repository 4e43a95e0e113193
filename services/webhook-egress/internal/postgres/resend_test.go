package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestResend(t *testing.T) {
	s, pool := open(t)
	id := ended(t, s, "acme", 1, delivery.StatusFailed, nil)[0]
	testkit.Exec(t, pool, "DELETE FROM flow") // it had been idle for long
	deadline := time.Now().Add(time.Hour)
	ask := delivery.Resend{Organization: "acme", ID: id, MaxAttempts: 7, Deadline: deadline, Key: "k", Fingerprint: [32]byte{1}}
	if resent, err := s.Resend(t.Context(), ask); err != nil || resent.Deduplicated {
		t.Fatalf("%+v, %v", resent, err)
	}
	record := statusIs(t, s, "acme", id, delivery.StatusQueued)
	want := record
	want.Generation, want.Attempts, want.MaxAttempts, want.LastError, want.Finished = 2, 0, 7, "", time.Time{}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if record.Deadline.Sub(deadline).Abs() > time.Millisecond {
		t.Errorf("deadline %s, want %s", record.Deadline, deadline)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	if again, err := s.Resend(t.Context(), ask); err != nil || !again.Deduplicated {
		t.Errorf("repeat: %+v, %v", again, err)
	}
	ask.Fingerprint = [32]byte{2}
	if _, err := s.Resend(t.Context(), ask); !errors.Is(err, delivery.ErrKeyReused) {
		t.Errorf("the key for another: %v", err)
	}
	ask.Key = ""
	if _, err := s.Resend(t.Context(), ask); apierr.From(err).Reason != delivery.ReasonInFlight {
		t.Errorf("in flight: %v", err)
	}
	// A result of the series before fits no more.
	old := delivered(draft("acme").Job(leased(delivery.Flow{ID: 1}, 1)))
	old.Job.ID, old.Job.LeaseSeq = id, 1
	if held := settle(t, s, old); held[0] {
		t.Error("a result of the first series was counted in the second")
	}
	jobs := claim(t, s, 2, 8).Jobs
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	if job := jobs[0]; job.Generation != 2 || job.Attempts != 0 {
		t.Fatalf("generation %d after %d attempts, want 2 after 0", job.Generation, job.Attempts)
	}
	if seq := jobs[0].LeaseSeq; seq <= 1 {
		t.Fatalf("lease %d, want a later one than the first", seq)
	}
	settle(t, s, delivered(jobs[0]))
	statusIs(t, s, "acme", id, delivery.StatusDelivered)
	if made, _, err := s.Attempts(t.Context(), id, 0, 10); err != nil || len(made) != 2 {
		t.Errorf("attempts %+v, %v", made, err)
	}
}

func TestCancel(t *testing.T) {
	s, _ := open(t)
	waiting, running := draft("acme"), draft("acme")
	flow := enqueue(t, s, leaseOf(1, false), waiting)[0].Flow
	enqueue(t, s, leaseOf(1, true), running)
	for _, d := range []*delivery.Draft{waiting, running} {
		for i, want := range []bool{true, false} {
			if got, err := s.Cancel(t.Context(), d.ID); err != nil || got != want {
				t.Errorf("cancel %d: %t, %v", i, got, err)
			}
		}
		statusIs(t, s, "acme", d.ID, delivery.StatusCancelled)
	}
	if held := settle(t, s, delivered(running.Job(leased(flow, 1)))); held[0] {
		t.Error("a cancelled delivery was settled")
	}
	statusIs(t, s, "acme", running.ID, delivery.StatusCancelled)
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: running.ID}); err != nil {
		t.Errorf("resend of a cancelled one: %v", err)
	}
}

// What a lease brings that was cancelled is not the next series'.
func TestResendOfACancelledLease(t *testing.T) {
	s, _ := open(t)
	d := draft("acme")
	flow := enqueue(t, s, leaseOf(1, true), d)[0].Flow
	if cancelled, err := s.Cancel(t.Context(), d.ID); err != nil || !cancelled {
		t.Fatalf("%t, %v", cancelled, err)
	}
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: d.ID}); err != nil {
		t.Fatal(err)
	}
	if held := settle(t, s, delivered(d.Job(leased(flow, 1)))); held[0] {
		t.Error("a result from before the cancellation was counted after the resend")
	}
	statusIs(t, s, "acme", d.ID, delivery.StatusQueued)
}

// A release before 00002 ended deliveries without noting their fence.
func TestResendOfTheReleaseBefore(t *testing.T) {
	s, pool := open(t)
	id := ended(t, s, "acme", 1, delivery.StatusFailed, nil)[0]
	testkit.Exec(t, pool, "UPDATE deliveries SET lease_seq = 0")
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: id}); err != nil {
		t.Fatal(err)
	}
	old := delivered(draft("acme").Job(leased(delivery.Flow{ID: 1}, 1)))
	old.Job.ID = id
	if held := settle(t, s, old); held[0] {
		t.Error("a result of the first series was counted in the second")
	}
}
