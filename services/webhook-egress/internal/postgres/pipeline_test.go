package postgres_test

import (
	"errors"
	"testing"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// What a transaction's statements say shows only with the next answer, and nothing
// of it stays: neither rows nor a transaction on the connection.
func TestAFailureRollsAllBack(t *testing.T) {
	s, pool := open(t)
	first, second := draft("acme"), draft("acme")
	second.SigningMode = "none" // no value of the column
	_, err := s.Enqueue(t.Context(), []*delivery.Draft{first, second}, leaseOf(1, false))
	if !errors.Is(err, delivery.ErrRejected) {
		t.Fatalf("err = %v", err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow"); n != 0 {
		t.Errorf("%d flows stayed", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' AND application_name = current_setting('application_name')"); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
	enqueue(t, s, leaseOf(1, false), first)
	job := claim(t, s, 1, 8).Jobs[0]
	bad := dispatch.Result{Job: job, Step: delivery.Step{Status: "none", Attempts: 1}}
	if _, err := s.Settle(t.Context(), []dispatch.Result{bad}); !errors.Is(err, delivery.ErrRejected) {
		t.Fatalf("err = %v", err)
	}
	done := dispatch.Result{Job: job, Step: delivery.Step{Status: delivery.StatusDelivered, Outcome: delivery.OutcomeDelivered, Attempts: 1}}
	if held, err := s.Settle(t.Context(), []dispatch.Result{done}); err != nil || !held[0] {
		t.Errorf("held %v, %v", held, err)
	}
	statusIs(t, s, "acme", first.ID, delivery.StatusDelivered)
}
