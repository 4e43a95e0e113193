package postgres_test

import (
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// A claim reads the flows that are ready, however many sleep beside them.
func TestSleepingFlowsAreNotRead(t *testing.T) {
	s, pool := openOne(t)
	testkit.Exec(t, pool, "INSERT INTO flow (organization_id, scheme, host, port) SELECT 'o' || n, 'https', 'h', 443 FROM generate_series(1, 2000) n")
	before := workOf(t, pool, "^flow$")
	const claims = 20
	for range claims {
		enqueue(t, s, leaseOf(1, false), draft("acme"))
		if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 {
			t.Fatalf("%d jobs", len(jobs))
		}
	}
	after := workOf(t, pool, "^flow$")
	if read := after.Read + after.Sequential - before.Read - before.Sequential; read > 20*claims {
		t.Errorf("%d flows read by %d claims", read, claims)
	}
}

// Who looks for the leases of dead replicas reads none of the living ones'.
func TestLivingLeasesAreNotRead(t *testing.T) {
	s, pool := openOne(t)
	var replicas []int64
	for _, name := range []string{"dead", "a", "dead too", "b"} {
		id, err := s.Join(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, id)
		for range 50 {
			enqueue(t, s, leaseOf(id, true), draft("acme"))
		}
	}
	before := workOf(t, pool, "^delivery_queue")
	for range 10 {
		if freed, err := s.RemoveSilent(t.Context(), replicas[1], 30*time.Second); freed != 0 || err != nil {
			t.Fatalf("freed %d, %v", freed, err)
		}
	}
	after := workOf(t, pool, "^delivery_queue")
	if read := after.Read + after.Sequential - before.Read - before.Sequential; read > 0 {
		t.Errorf("%d leases of living replicas were read", read)
	}
	testkit.Exec(t, pool, "UPDATE replica SET seen_at = now() - interval '1 minute' WHERE name LIKE 'dead%'")
	if freed, err := s.RemoveSilent(t.Context(), replicas[1], 30*time.Second); freed != 100 || err != nil {
		t.Errorf("freed %d, want those of the two that are dead, %v", freed, err)
	}
}

// The second version of a delivery's row finds room in its page, so that no index is
// written for it.
func TestDeliveriesHaveRoomForUpdates(t *testing.T) {
	s, pool := openOne(t)
	const rounds, rows = 4, 100
	for range rounds {
		var drafts []*delivery.Draft
		for range rows {
			drafts = append(drafts, draft("acme"))
		}
		enqueue(t, s, leaseOf(1, false), drafts...)
		var results []dispatch.Result
		for _, job := range claim(t, s, 1, rows).Jobs {
			results = append(results, delivered(job))
		}
		settle(t, s, results...)
	}
	var updates, inPlace int
	testkit.Exec(t, pool, "SELECT pg_stat_force_next_flush()")
	const query = "SELECT sum(n_tup_upd)::int, sum(n_tup_hot_upd)::int FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname ~ '^deliveries_'"
	if err := pool.QueryRow(t.Context(), query).Scan(&updates, &inPlace); err != nil {
		t.Fatal(err)
	}
	if updates != rounds*rows || inPlace*10 < updates*9 {
		t.Errorf("%d of %d updates were in place", inPlace, updates)
	}
}
