package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// subscribed makes an endpoint with a flow, and a job of it.
func subscribed(t *testing.T, s *postgres.Store, pool *pgxpool.Pool) func(outcome delivery.Outcome, test bool) {
	t.Helper()
	d := draft("acme")
	enqueue(t, s, leaseOf(1, false), d)
	testkit.Exec(t, pool, `INSERT INTO endpoints (id, organization_id, url, flow_id, event_types, signing_mode, sealed_secret, created_at, updated_at)
		SELECT $1, 'acme', 'https://moved.example.com/', flow_id, '{*}', 'endpoint_body', '\x01', now(), now() FROM flow`, d.ID.String())
	testkit.Exec(t, pool, "UPDATE flow SET endpoint_id = $1", d.ID.String())
	testkit.Exec(t, pool, "UPDATE deliveries SET endpoint_id = $1, signing_mode = 'endpoint_body'", d.ID.String())
	job := claim(t, s, 1, 1).Jobs[0]
	want := job
	want.URL, want.Endpoint = "https://moved.example.com/", &delivery.JobEndpoint{ID: d.ID, Secret: []byte{1}, Signatures: []string{"spec", "v1"}}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Fatalf("job (-want +got):\n%s", diff)
	}
	return func(outcome delivery.Outcome, test bool) {
		testkit.Exec(t, pool, "INSERT INTO delivery_queue SELECT $1, now(), flow_id, now(), 1 FROM flow ON CONFLICT DO NOTHING", d.ID.String())
		result := delivered(job)
		result.Job.Test = test
		result.Attempt.Outcome, result.Step.Outcome = outcome, outcome
		if outcome == delivery.OutcomeRetry {
			result.Step.Status, result.Step.Delay, result.Step.Attempts = delivery.StatusRetrying, time.Second, 1
		}
		if outcome == delivery.OutcomeGone {
			result.Step.Status = delivery.StatusFailed
		}
		testkit.Exec(t, pool, "UPDATE delivery_queue SET lease_seq = 1")
		if held := settle(t, s, []dispatch.Result{result}...); !held[0] {
			t.Fatal("the lease is lost")
		}
	}
}

func endpointOf(t *testing.T, pool *pgxpool.Pool) (text string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT format('active=%s failures=%s failing=%s reported=%s reason=%s paused=%s events=%s',
		active, failures, failing_since IS NOT NULL, failing_reported_at IS NOT NULL, disabled_reason, f.paused,
		(SELECT string_agg(replace(type, 'switchyard.', ''), ',' ORDER BY operational_event_id) FROM operational_event WHERE endpoint_id IS NOT NULL AND delivery_id IS NULL))
		FROM endpoints e JOIN flow f USING (flow_id)`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEndpointHealth(t *testing.T) {
	s, pool := open(t)
	settled := subscribed(t, s, pool)
	check := func(what, want string) {
		t.Helper()
		if diff := cmp.Diff(want, endpointOf(t, pool)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	settled(delivery.OutcomeRetry, false)
	check("a failure", "active=t failures=1 failing=t reported=f reason= paused=f events=")
	settled(delivery.OutcomeRetry, true)
	check("a failed test", "active=t failures=1 failing=t reported=f reason= paused=f events=")
	testkit.Exec(t, pool, "UPDATE endpoints SET failures = 9, failing_since = now() - interval '31 minutes'")
	settled(delivery.OutcomeRetry, false)
	check("failing", "active=t failures=10 failing=t reported=t reason= paused=f events=endpoint.failing")
	settled(delivery.OutcomeRetry, false)
	check("still failing", "active=t failures=11 failing=t reported=t reason= paused=f events=endpoint.failing")
	settled(delivery.OutcomeDelivered, false)
	check("recovered", "active=t failures=0 failing=f reported=f reason= paused=f events=endpoint.failing,endpoint.recovered")
	settled(delivery.OutcomeRetry, false)
	testkit.Exec(t, pool, "UPDATE endpoints SET failures = 80, failing_since = now() - interval '6 days', failing_reported_at = now()")
	settled(delivery.OutcomeRetry, false)
	check("disabled", "active=f failures=81 failing=t reported=t reason=failing paused=t events=endpoint.failing,endpoint.recovered,endpoint.disabled")
	settled(delivery.OutcomeRetry, false)
	check("disabled once", "active=f failures=82 failing=t reported=t reason=failing paused=t events=endpoint.failing,endpoint.recovered,endpoint.disabled")
}

func TestGoneDisablesTheEndpoint(t *testing.T) {
	s, pool := open(t)
	subscribed(t, s, pool)(delivery.OutcomeGone, false)
	want := "active=f failures=1 failing=t reported=f reason=gone paused=t events=endpoint.disabled"
	if diff := cmp.Diff(want, endpointOf(t, pool)); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	if claimed := claim(t, s, 1, 8); claimed.Flows != 0 {
		t.Errorf("claimed %+v", claimed)
	}
}

// Failures belong to the URL at which they happened. If an endpoint gets another scheme, host, port or path, or is
// resumed, it has a new circuit and no failures. Attempts that were in flight then don't change the circuit, and those at
// another URL don't count as failures.
func TestFailuresBelongToTheURL(t *testing.T) {
	resumed := []endpoint.Change{{Active: new(false)}, {Active: new(true)}}
	for name, tt := range map[string]struct {
		changes []endpoint.Change
		anew    bool
	}{
		"path":               {[]endpoint.Change{{URL: new("https://example.com/other")}}, true},
		"scheme":             {[]endpoint.Change{{URL: new("http://example.com:443/hook")}}, true},
		"host":               {[]endpoint.Change{{URL: new("https://other.example/hook")}}, true},
		"port":               {[]endpoint.Change{{URL: new("https://example.com:8443/hook")}}, true},
		"there and back":     {[]endpoint.Change{{URL: new("https://example.com/other")}, {URL: new("https://example.com/hook")}}, true},
		"resumed":            {resumed, true},
		"path, then resumed": {[]endpoint.Change{resumed[0], {URL: new("https://example.com/other")}, resumed[1]}, true},
		"query":              {[]endpoint.Change{{URL: new("https://example.com/hook?v=2")}}, false},
		"other field":        {[]endpoint.Change{{Description: new("a"), RatePerSecond: new(5.0)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			e := subscription("acme", "", "*")
			e.URL = "https://example.com/hook"
			e = register(t, s, e)
			for range 6 {
				emit(t, s, happening("acme", "", "a"))
			}
			old := claim(t, s, 1, 3).Jobs
			open := breaker.State{Phase: breaker.Open, Opened: 6, Until: time.Now().Add(10 * time.Minute)}
			settle(t, s, movedFlow(old[0], open))
			testkit.Exec(t, pool, "UPDATE endpoints SET failures = 60, failing_since = now() - interval '6 days', failing_reported_at = now()")
			for _, c := range tt.changes {
				e = change(t, s, e, c)
			}
			if failing := e.Status() == endpoint.StatusFailing; failing == tt.anew {
				t.Errorf("status %s", e.Status())
			}
			if stored := testkit.Value[int](t, pool, "SELECT failures FROM endpoints"); (stored == 0) != tt.anew {
				t.Errorf("%d failures are left", stored)
			}
			if !tt.anew {
				if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 0 {
					t.Errorf("%d jobs, although the circuit is open", len(jobs))
				}
				return
			}
			late := movedFlow(old[1], open)
			if e.URL != old[1].URL {
				late.Step.Status, late.Step.Outcome = delivery.StatusFailed, delivery.OutcomeGone
			}
			held := dispatch.Result{Job: old[2], Step: delivery.Park(&old[2], delivery.FaultBreakerOpen, 10*time.Minute)}
			settle(t, s, late, held)
			jobs := claim(t, s, 1, 1).Jobs
			if len(jobs) != 1 || jobs[0].Circuit == old[0].Circuit || jobs[0].URL != e.URL {
				t.Fatalf("jobs %+v", jobs)
			}
			settle(t, s, moved(jobs[0], breaker.State{}))
			if active := testkit.Value[bool](t, pool, "SELECT active FROM endpoints"); !active {
				t.Error("one failure disabled the endpoint")
			}
		})
	}
}
