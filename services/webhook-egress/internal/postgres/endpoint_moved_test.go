package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// acceptBoth stores an event and a test for an endpoint, by a replica with a clock.
func acceptBoth(t *testing.T, s *postgres.Store, e endpoint.Endpoint, clock time.Time) (both map[delivery.ID]bool) {
	t.Helper()
	fanned := happening("acme", "", "a")
	fanned.ID, fanned.Sealed = delivery.NewID(clock), []byte{1}
	test := draft("acme")
	test.ID, test.Sealed = delivery.NewID(clock), []byte{1}
	test.URL, test.Test, test.Endpoint = e.URL, true, &delivery.JobEndpoint{ID: e.ID, Moves: e.Moves}
	enqueue(t, s, leaseOf(1, false), test)
	return map[delivery.ID]bool{emit(t, s, fanned).Deliveries[0].Delivery: true, test.ID: true}
}

// If an endpoint has moved, an earlier delivery doesn't send its own credentials there, and an earlier test doesn't
// send the endpoint's new ones. Whatever the replicas' clocks say, later deliveries send all of them.
func TestMovedEndpointGetsNoOldCredentials(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"equal": 0, "an hour ahead": time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t)
			e := register(t, s, subscription("acme", "", "*"))
			old := acceptBoth(t, s, e, time.Now().Add(ahead))
			access := &endpoint.AuthChange{Info: &auth.Info{Kind: auth.Bearer}, Sealed: []byte{2}}
			moved := change(t, s, e, endpoint.Change{URL: new("https://mine.example/"), Auth: access, Headers: map[string][]byte{"X-A": {3}}})
			moved = change(t, s, moved, endpoint.Change{URL: new("https://mine.example/other")}) // doesn't move it again
			if moved.Moves != 1 {
				t.Errorf("%d moves, want 1", moved.Moves)
			}
			acceptBoth(t, s, moved, time.Now().Add(-ahead))
			jobs := claim(t, s, 1, 8).Jobs
			if len(jobs) != 4 {
				t.Fatalf("%d jobs, want 4", len(jobs))
			}
			for _, job := range jobs {
				own, ofEndpoint := job.Sealed != nil, job.Endpoint.Auth != nil && job.Endpoint.Headers != nil
				url := moved.URL
				if job.Test && old[job.ID] {
					url = e.URL
				}
				if job.URL != url || own == old[job.ID] || ofEndpoint == (old[job.ID] && job.Test) {
					t.Errorf("accepted before %t, test %t: to %s with its own credentials %t and the endpoint's %t",
						old[job.ID], job.Test, job.URL, own, ofEndpoint)
				}
			}
		})
	}
}

// The previous release accepts deliveries without the number of moves and moves endpoints without counting.
func TestMovesAmongReleases(t *testing.T) {
	move := func(t *testing.T, s *postgres.Store, _ *pgxpool.Pool, e endpoint.Endpoint) {
		t.Helper()
		change(t, s, e, endpoint.Change{URL: new("https://mine.example/")})
	}
	for name, tt := range map[string]struct {
		accepted string
		move     func(t *testing.T, s *postgres.Store, pool *pgxpool.Pool, e endpoint.Endpoint)
	}{
		"accepted by it": {"UPDATE deliveries SET endpoint_moves = NULL", move},
		"moved by it": {"SELECT 1", func(t *testing.T, _ *postgres.Store, pool *pgxpool.Pool, _ endpoint.Endpoint) {
			t.Helper()
			testkit.Exec(t, pool, "UPDATE endpoints SET url = 'https://mine.example/', moved_at = now() - interval '1 hour'")
			testkit.Exec(t, pool, "UPDATE endpoints SET description = 'moved_at as it was', moved_at = moved_at")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			e := register(t, s, subscription("acme", "", "*"))
			acceptBoth(t, s, e, time.Now().Add(-time.Second))
			testkit.Exec(t, pool, tt.accepted)
			tt.move(t, s, pool, e)
			if n := testkit.Value[int](t, pool, "SELECT moves FROM endpoints"); n != 1 {
				t.Errorf("%d moves, want 1", n)
			}
			jobs := claim(t, s, 1, 8).Jobs
			if len(jobs) != 2 {
				t.Fatalf("%d jobs, want 2", len(jobs))
			}
			for _, job := range jobs {
				if job.Sealed != nil {
					t.Errorf("test %t: it has its own credentials", job.Test)
				}
			}
		})
	}
}
