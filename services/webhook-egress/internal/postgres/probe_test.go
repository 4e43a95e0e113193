package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// sharing returns functions that return deliveries to paths that share a flow, for each way in which they can.
func sharing(t *testing.T) map[string]func(pool *pgxpool.Pool, path string, n int) *delivery.Draft {
	t.Helper()
	return map[string]func(pool *pgxpool.Pool, path string, n int) *delivery.Draft{
		"ordered": func(_ *pgxpool.Pool, path string, n int) *delivery.Draft {
			d := draftTo(t, "acme", fmt.Sprint(path, "?n=", n))
			d.Target, d.OrderingKey = d.Target.Ordered(), fmt.Sprint(path, n)
			return d
		},
		"many paths": func(pool *pgxpool.Pool, path string, n int) *delivery.Draft {
			testkit.Exec(t, pool, `INSERT INTO flow (organization_id, scheme, host, port, endpoint_id, of_path)
				SELECT 'acme', 'https', 'elsewhere.example', 443, gen_random_uuid(), true FROM generate_series(1, 1000)
				WHERE NOT EXISTS (SELECT FROM flow WHERE host = 'elsewhere.example')`)
			for i := 0; ; i++ { // Of the shared flows, paths with the same rest use the same one.
				if d := draftTo(t, "acme", fmt.Sprint(path, "/", i, "?n=", n)); d.Target.Path[0]%64 == 0 {
					return d
				}
			}
		},
	}
}

// probe returns the path with which the only flow of example.com probes its host, and lets the probe fail.
func probe(t *testing.T, s *postgres.Store, pool *pgxpool.Pool, opened int) string {
	t.Helper()
	testkit.Exec(t, pool, `UPDATE flow SET state = 'open', parked_reason = 'breaker_open', parked_by_host = true, ready_at = now(), opened = $1
		WHERE host = 'example.com'`, opened)
	claimed, err := s.Claim(t.Context(), dispatch.Claim{
		Replica: 1, Lease: time.Minute, Flows: 10, Bytes: 1 << 20, FullFlows: []int64{}, FullOrganizations: []string{},
		Grant: func(_ context.Context, picked []dispatch.Picked) []dispatch.Grant {
			if len(picked) != 1 {
				t.Errorf("%d flows picked, want the shared one", len(picked))
			}
			return []dispatch.Grant{{Rows: 1, AdmittedByHost: true}}
		},
	})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
	}
	job := claimed.Jobs[0]
	if !job.SharesFlow() {
		t.Errorf("the flow of %s is not shared", job.URL)
	}
	settle(t, s, retried(job, 0))
	return "/" + strings.Split(strings.TrimPrefix(job.URL, "https://example.com/"), "/")[0]
}

// spread enqueues deliveries to a path that fails, of which many are due before and after those to three others, and
// returns how many paths there are.
func spread(t *testing.T, s *postgres.Store, pool *pgxpool.Pool, draft func(pool *pgxpool.Pool, path string, n int) *delivery.Draft, bad int) (paths int) {
	t.Helper()
	none := delivery.Lease{Reserve: func(delivery.Flow, int) bool { return false }}
	var drafts []*delivery.Draft
	for n := range bad {
		drafts = append(drafts, draft(pool, "/bad", n))
	}
	drafts = append(drafts, draft(pool, "/good", 0), draft(pool, "/better", 0), draft(pool, "/best", 0))
	for len(drafts) > 0 {
		n := min(500, len(drafts))
		enqueue(t, s, none, drafts[:n]...)
		drafts = drafts[n:]
	}
	testkit.Exec(t, pool, `WITH place AS (SELECT q.delivery_id, d.url LIKE '%/bad%' AS bad, row_number() OVER (PARTITION BY d.url LIKE '%/bad%' ORDER BY q.delivery_id) AS n
			FROM delivery_queue q JOIN deliveries d ON d.id = q.delivery_id AND d.created_at = q.created_at)
		UPDATE delivery_queue q SET due_at = now() - interval '1 hour' + CASE WHEN place.bad THEN place.n / $1::float8 ELSE 0.2 * place.n + 0.1 END * interval '1 hour'
		FROM place WHERE place.delivery_id = q.delivery_id`, bad)
	testkit.Exec(t, pool, "UPDATE flow SET floor = now() - interval '1 hour' WHERE host = 'example.com'")
	return 4
}

// However many deliveries of one path are due, and whenever, the other paths of the flow get their turns to probe the
// host. At worst there is one turn more than paths.
func TestPathsTakeTurnsAmongManyRows(t *testing.T) {
	for name, draft := range sharing(t) {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			paths := spread(t, s, pool, draft, 2000)
			probes := make(map[string]int)
			for opened := range 2 * (paths + 1) {
				path, _, _ := strings.Cut(probe(t, s, pool, opened), "?")
				probes[path]++
			}
			for _, path := range []string{"/bad", "/good", "/better", "/best"} {
				if probes[path] < 2 {
					t.Errorf("%s had %d of %v turns, want 2", path, probes[path], probes)
				}
			}
		})
	}
}

// A resent delivery takes part in the turns.
func TestResentDeliveriesTakeTurns(t *testing.T) {
	for name, draft := range sharing(t) {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			d := draft(pool, "/good", 0)
			enqueue(t, s, leaseOf(1, false), d)
			const paths = "SELECT array_agg(DISTINCT path) FROM delivery_queue"
			before := testkit.Value[[]*int64](t, pool, paths)
			settle(t, s, delivered(claim(t, s, 1, 1).Jobs[0]))
			if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: d.ID}); err != nil {
				t.Fatal(err)
			}
			after := testkit.Value[[]*int64](t, pool, paths)
			if len(before) != 1 || len(after) != 1 || before[0] == nil || after[0] == nil || *before[0] != *after[0] {
				t.Errorf("its path is %v, and was %v", after, before)
			}
		})
	}
}

// Rows that the previous release queued have no path. The oldest of them probes the host.
func TestProbesOfThePreviousRelease(t *testing.T) {
	for name, draft := range sharing(t) {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			spread(t, s, pool, draft, 5)
			testkit.Exec(t, pool, "UPDATE delivery_queue SET path = NULL")
			for opened := range 3 {
				probe(t, s, pool, opened)
			}
		})
	}
}

// A probe looks up paths by an index, whatever the statistics say, and reads about a row of each, however many wait.
func TestProbesReadFewRows(t *testing.T) {
	for name, draft := range sharing(t) {
		t.Run(name, func(t *testing.T) {
			s, pool := openOne(t)
			chosen := planOf(t, pool, "ChooseProbes", statements(t)["ChooseProbes"])
			if n := chosen.scans("delivery_queue_path"); n != 2 {
				t.Errorf("the paths' index is scanned %d times in the plan, want 2", n)
			}
			for _, rows := range []int{100, 3000} {
				testkit.Exec(t, pool, "DELETE FROM delivery_queue")
				paths := spread(t, s, pool, draft, rows)
				before := workOf(t, pool, "^delivery_queue$")
				for opened := range paths + 1 {
					probe(t, s, pool, opened)
				}
				after := workOf(t, pool, "^delivery_queue$")
				if read, most := after.Read+after.Sequential-before.Read-before.Sequential, 20*(paths+1); read > most {
					t.Errorf("%d of %d rows were read for %d probes, want at most %d", read, rows, paths+1, most)
				}
			}
		})
	}
}

// scans counts the scans of an index in a plan.
func (p *plan) scans(index string) (n int) {
	if p.Index == index {
		n++
	}
	for i := range p.Children {
		n += p.Children[i].scans(index)
	}
	return n
}

// However many deliveries of one flow are due, the flows of a host get their turns to probe it.
func TestFlowsTakeTurnsAmongManyRows(t *testing.T) {
	s, pool := open(t)
	var drafts []*delivery.Draft
	for n := range 600 {
		drafts = append(drafts, draftTo(t, "acme", fmt.Sprint("/bad?n=", n)))
	}
	enqueue(t, s, leaseOf(1, false), drafts...)
	enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/good"), draftTo(t, "acme", "/better"))
	testkit.Exec(t, pool, "UPDATE flow SET state = 'open', parked_reason = 'breaker_open', parked_by_host = true, opened = 1")
	turns := make(map[int64]bool)
	for range 3 {
		testkit.Exec(t, pool, "UPDATE flow SET ready_at = least(ready_at, now())")
		claimed, err := s.Claim(t.Context(), dispatch.Claim{
			Replica: 1, Lease: time.Minute, Flows: 64, Bytes: 1 << 20, FullFlows: []int64{}, FullOrganizations: []string{},
			Grant: func(_ context.Context, picked []dispatch.Picked) []dispatch.Grant {
				grants := make([]dispatch.Grant, len(picked))
				first := 0
				for i := range picked {
					grants[i] = dispatch.Grant{Wait: time.Minute, Park: delivery.FaultBreakerOpen, ByHost: true}
					if picked[i].Ready.Before(picked[first].Ready) {
						first = i
					}
				}
				grants[first] = dispatch.Grant{Rows: 1, AdmittedByHost: true}
				return grants
			},
		})
		if err != nil || len(claimed.Jobs) != 1 {
			t.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
		}
		turns[claimed.Jobs[0].FlowID] = true
		settle(t, s, moved(claimed.Jobs[0], breaker.State{Phase: breaker.Open, Opened: 2, Until: time.Now()}))
	}
	if len(turns) != 3 {
		t.Errorf("%d of 3 flows had a turn in 3 probes", len(turns))
	}
}
