package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/migrations"
)

// soak reports whether the long forms of tests are asked for.
func soak() bool { return os.Getenv("SOAK") != "" }

// openOne is a store on a single connection, whose counters are therefore whole.
func openOne(t *testing.T) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool := testkit.Pool(t, pgdb.Options{
		URL: testkit.PostgresURL(t, migrations.FS), MaxConns: 1, ApplicationName: t.Name(), Settings: postgres.Settings(),
	})
	return postgres.New(pool, time.Hour), pool
}

// fill puts rows behind the flow of a draft, a hundred bytes each.
func fill(t *testing.T, s *postgres.Store, pool *pgxpool.Pool, organization string, rows int) {
	t.Helper()
	enqueue(t, s, leaseOf(1, false), draft(organization))
	testkit.Exec(t, pool, `WITH model AS (
			SELECT d.*, b.body FROM deliveries d JOIN delivery_body b ON b.delivery_id = d.id WHERE d.organization_id = $1 LIMIT 1
		), made AS (
			SELECT (lpad(to_hex((extract(epoch FROM created_at) * 1000)::bigint), 12, '0') || '7000' || 'a000' || lpad(to_hex(n), 12, '0'))::uuid AS id,
			       created_at, flow_id, url, organization_id, body FROM model, generate_series(1, $2) n
		), d AS (
			INSERT INTO deliveries (id, created_at, organization_id, flow_id, url, event_type, signing_mode, status, max_attempts, updated_at)
			SELECT id, created_at, organization_id, flow_id, url, 'e', 'org_timestamp', 'queued', 5, now() FROM made
		), b AS (
			INSERT INTO delivery_body (delivery_id, created_at, body) SELECT id, created_at, body FROM made
		)
		INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at, body_bytes)
		SELECT id, created_at, flow_id, now() - interval '1 minute', 100 FROM made`, organization, rows-1)
}

// work is what a table had to do so far.
type work struct{ Read, Sequential, Changed int }

func workOf(t *testing.T, pool *pgxpool.Pool, tables string) (w work) {
	t.Helper()
	testkit.Exec(t, pool, "SELECT pg_stat_force_next_flush()")
	err := pool.QueryRow(t.Context(), `SELECT coalesce(sum(idx_tup_fetch), 0)::int, coalesce(sum(seq_tup_read), 0)::int,
		sum(n_tup_ins + n_tup_upd + n_tup_del)::int
		FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname ~ $1`, tables).Scan(&w.Read, &w.Sequential, &w.Changed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func moved(job delivery.Job, state breaker.State) dispatch.Result {
	r := delivered(job)
	r.Attempt.Outcome, r.Attempt.ResponseCode = delivery.OutcomeRetry, 503
	r.Step = delivery.Step{Status: delivery.StatusRetrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultServer, Delay: time.Second}
	r.Host = breaker.Move{Target: breaker.Target{Organization: job.Organization, Host: job.Host, Port: job.Port}, State: state, Changed: true}
	return r
}

func settle(t *testing.T, s *postgres.Store, results ...dispatch.Result) []bool {
	t.Helper()
	held, err := s.Settle(t.Context(), results)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

type flowRow struct {
	State, Reason string
	Opened        int
	Parked, Ready int // seconds from now; a day and more for later
}

func flows(t *testing.T, pool *pgxpool.Pool) (all []flowRow) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT state, coalesce(parked_reason, ''), opened,
		round(extract(epoch FROM greatest(least(parked_until, now() + interval '1 day'), now()) - now()))::int,
		round(extract(epoch FROM greatest(least(ready_at, now() + interval '1 day'), now()) - now()))::int FROM flow ORDER BY flow_id`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var f flowRow
		if err := rows.Scan(&f.State, &f.Reason, &f.Opened, &f.Parked, &f.Ready); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// What the breaker decides about a target is what all its flows do, and no other.
func TestMovesOfATarget(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"), draft("acme"))
	testkit.Exec(t, pool, "UPDATE flow SET endpoint_id = gen_random_uuid()")
	enqueue(t, s, leaseOf(1, false), draft("acme"), draft("acme"))
	other := draft("acme")
	other.Target.Port = 8443
	enqueue(t, s, leaseOf(1, false), other, draft("globex"))
	jobs := map[int64]delivery.Job{}
	for _, job := range claim(t, s, 1, 1).Jobs {
		jobs[job.FlowID] = job
	}
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	asIs := flowRow{State: "closed"}
	for _, step := range []struct {
		name  string
		state breaker.State
		want  flowRow
	}{
		{"opened", breaker.State{Phase: breaker.Open, Opened: 2, Until: time.Now().Add(40 * time.Second)}, flowRow{"open", "breaker_open", 2, 40, 40}},
		{"ramped", breaker.State{Phase: breaker.HalfOpen, Opened: 2, Level: 2}, flowRow{"open", "breaker_open", 2, 0, 0}},
		{"closed", breaker.State{Opened: 2}, flowRow{"closed", "", 0, 0, 0}},
	} {
		settle(t, s, moved(jobs[1], step.state))
		if diff := cmp.Diff([]flowRow{step.want, step.want, asIs, asIs}, flows(t, pool)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// A paused endpoint's flow stays so, whatever comes of what was under way.
func TestPausedFlowsStayPaused(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"), draft("acme"), draft("acme"))
	jobs := claim(t, s, 1, 3).Jobs
	testkit.Exec(t, pool, `UPDATE flow SET endpoint_id = gen_random_uuid(), paused = true, state = 'open', parked_reason = 'endpoint_paused',
		parked_until = 'infinity', ready_at = 'infinity'`)
	jobs[0].Parked = true
	hold := dispatch.Result{Job: jobs[1], Step: delivery.Park(&jobs[1], delivery.FaultBreakerOpen, time.Second)}
	settle(t, s, delivered(jobs[0])) // Alone: with one that is held back it would not open the flow.
	settle(t, s, hold, moved(jobs[2], breaker.State{}))
	if diff := cmp.Diff([]flowRow{{"open", "endpoint_paused", 0, 86400, 86400}}, flows(t, pool)); diff != "" {
		t.Errorf("flow (-want +got):\n%s", diff)
	}
	if claimed := claim(t, s, 1, 3); claimed.Flows != 0 || claimed.Next >= 0 {
		t.Errorf("claimed %+v", claimed)
	}
	// Not even when something else, such as the release before, has woken it.
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	if claimed := claim(t, s, 1, 3); claimed.Flows != 0 || claimed.Next >= 0 {
		t.Errorf("claimed %+v of a flow that was woken", claimed)
	}
	record, err := s.Get(t.Context(), "acme", "", jobs[1].ID, false)
	if err != nil || record.LastError != "endpoint_paused" || !record.NextAttempt.IsZero() {
		t.Errorf("record %+v, %v", record, err)
	}
}

// Behind an open breaker nothing is read and nothing is written, however much
// waits there, and opening it is one row.
func TestParkedStorm(t *testing.T) {
	s, pool := openOne(t)
	rows := 20_000
	if soak() {
		rows = 1_000_000
	}
	fill(t, s, pool, "acme", rows)
	job := claim(t, s, 1, 1).Jobs[0]
	settle(t, s, moved(job, breaker.State{Phase: breaker.Open, Opened: 1, Until: time.Now().Add(time.Hour)}))
	before, began := workOf(t, pool, "^(delivery|attempts)"), time.Now()
	const claims = 300
	for range claims {
		if claimed := claim(t, s, 1, 64); claimed.Flows != 0 || claimed.Next < 50*time.Minute {
			t.Fatalf("claimed %+v", claimed)
		}
	}
	each := time.Since(began) / claims
	if diff := cmp.Diff(before, workOf(t, pool, "^(delivery|attempts)")); diff != "" {
		t.Errorf("work for %d parked rows (-before +after):\n%s", rows, diff)
	}
	t.Logf("%s a claim beside %d parked rows", each, rows)
	enqueue(t, s, leaseOf(1, false), draft("globex"))
	if jobs := claim(t, s, 1, 64).Jobs; len(jobs) != 1 || jobs[0].Organization != "globex" {
		t.Errorf("%d jobs for another organization", len(jobs))
	}
}

// The statistics say that the tables are empty, as after midnight, or that all is
// of one flow: the plans must not read more than what they are asked for.
func TestPlansDontTrustStatistics(t *testing.T) {
	for name, analyzed := range map[string]string{
		"empty":    "ANALYZE deliveries, delivery_body, attempts, delivery_queue, flow",
		"never":    "SELECT 1",
		"one flow": "",
	} {
		t.Run(name, func(t *testing.T) {
			s, pool := openOne(t)
			if analyzed != "" {
				testkit.Exec(t, pool, analyzed)
			}
			for range 8 { // more often than a prepared statement waits for its generic plan
				enqueue(t, s, leaseOf(1, false), draft("globex"))
				settle(t, s, delivered(claim(t, s, 1, 1).Jobs[0]))
			}
			fill(t, s, pool, "acme", 5000)
			if analyzed == "" {
				testkit.Exec(t, pool, "ANALYZE deliveries, delivery_body, attempts, delivery_queue, flow")
				testkit.Exec(t, pool, "INSERT INTO flow (organization_id, scheme, host, port, created_at) SELECT 'o' || n, 'https', 'h', 443, now() FROM generate_series(1, 2000) n")
			}
			before := workOf(t, pool, "^(delivery|attempts)")
			const rounds, rows = 10, 8
			for range rounds {
				testkit.Exec(t, pool, "UPDATE flow SET ready_at = now() WHERE organization_id = 'acme'")
				jobs := claim(t, s, 1, rows).Jobs
				if len(jobs) != rows {
					t.Fatalf("%d jobs", len(jobs))
				}
				var results []dispatch.Result
				for _, job := range jobs {
					results = append(results, delivered(job))
				}
				settle(t, s, results...)
			}
			after := workOf(t, pool, "^(delivery|attempts)")
			if read := after.Read + after.Sequential - before.Read - before.Sequential; read > 30*rounds*rows || after.Sequential > before.Sequential {
				t.Errorf("%d rows read, %d of them in sequence, for %d deliveries", read, after.Sequential-before.Sequential, rounds*rows)
			}
		})
	}
}
