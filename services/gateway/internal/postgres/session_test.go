package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/platform/testkit"
)

// sessionIDs returns the ids of acme's sessions over pages of a size.
func (b *books) sessionIDs(t *testing.T, inFlight bool, size int) (ids []string) {
	t.Helper()
	f := run.SessionFilter{Organization: "acme", InFlight: inFlight, Limit: size}
	for {
		found, err := b.runs.Sessions(t.Context(), f)
		if err != nil || len(found) > size {
			t.Fatalf("%d sessions, want %d at most: %v", len(found), size, err)
		}
		for _, used := range found {
			if used.Run.Organization != "acme" {
				t.Errorf("%s is of %q", used.Run.ID, used.Run.Organization)
			}
			ids = append(ids, used.Run.ID)
		}
		if len(found) < size {
			return ids
		}
		f.After = found[size-1].Run.ID
	}
}

// Sessions are those that were minted, stopped or billed, or are in flight, each once over pages of any size, with what
// they have used.
func TestSessions(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "minted", run.Limits{MaxCalls: 2})
	if _, err := b.runs.Abort(operator(t), "acme", "aborted", "ada", ""); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"billed", "billed", "minted"} {
		call, err := b.reserve(t, id, cent)
		if err != nil {
			t.Fatal(err)
		}
		b.settle(t, call, id, cent)
	}
	if _, err := b.reserve(t, "reserved", cent); err != nil {
		t.Fatal(err)
	}
	elsewhere := map[budget.Session]int{
		{Organization: "acme", Run: "elsewhere"}: 2, {Organization: "acme"}: 1, {Organization: "beta", Run: "foreign"}: 1, {Organization: "beta", Run: "minted"}: 1,
	}
	if _, err := b.reservations.Heartbeat(t.Context(), uuid.New(), elsewhere, true); err != nil {
		t.Fatal(err)
	}
	for size := range 7 {
		if diff := cmp.Diff([]string{"aborted", "billed", "elsewhere", "minted", "reserved"}, b.sessionIDs(t, false, size+1)); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size+1, diff)
		}
		if diff := cmp.Diff([]string{"elsewhere", "reserved"}, b.sessionIDs(t, true, size+1)); diff != "" {
			t.Errorf("in flight, pages of %d (-want +got):\n%s", size+1, diff)
		}
	}
	found, err := b.runs.Sessions(t.Context(), run.SessionFilter{Organization: "acme", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"aborted": run.SessionAborted, "billed": run.SessionActive, "elsewhere": run.SessionActive, "minted": run.SessionActive, "reserved": run.SessionActive}
	for _, used := range found {
		if diff := cmp.Diff(b.usage(t, used.Run.ID), used.Usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", used.Run.ID, diff)
		}
		if got := used.Run.SessionStatus(time.Now(), used.Usage); got != want[used.Run.ID] {
			t.Errorf("%s is %s, want %s", used.Run.ID, got, want[used.Run.ID])
		}
	}
	if found, err = b.runs.Sessions(t.Context(), run.SessionFilter{Organization: "gamma", Limit: 10}); err != nil || len(found) > 0 {
		t.Errorf("an organization without sessions has %v: %v", found, err)
	}
}

// The next id after another is found by the indexes, however many sessions and shards of their spend there are.
func TestSessionsAreFoundByIndexes(t *testing.T) {
	b := openBooks(t)
	testkit.Exec(t, b.pool, `INSERT INTO spend_run (organization_id, run_id, shard, calls, cost_pico_usd, first_at, last_at)
		SELECT 'acme', 's' || to_char(n, 'FM00000'), shard, 1, 1, now(), now() FROM generate_series(1, 5000) AS n, generate_series(0, 7) AS shard`)
	testkit.Exec(t, b.pool, `INSERT INTO run (organization_id, run_id, status, expires_at, created_at, ended_at, version)
		SELECT 'acme', 'r' || to_char(n, 'FM00000'), 'revoked', now(), now(), now(), n FROM generate_series(1, 5000) AS n`)
	testkit.Exec(t, b.pool, `INSERT INTO run (organization_id, run_id, status, expires_at, created_at, ended_at, version)
		SELECT 'acme-too', 'r05000' || n, 'revoked', now(), now(), now(), n FROM generate_series(1, 100) AS n`)
	testkit.Exec(t, b.pool, "ANALYZE spend_run, run")
	found, err := b.runs.Sessions(t.Context(), run.SessionFilter{Organization: "acme", After: "r04999", Limit: 3})
	if err != nil || len(found) != 3 || found[0].Run.ID != "r05000" || found[1].Run.ID != "s00001" || found[2].Run.ID != "s00002" || found[2].Usage.Calls != 8 {
		t.Fatalf("found %+v: %v", found, err)
	}
	if ids := b.sessionIDs(t, false, 200); len(ids) != 10000 {
		t.Errorf("%d sessions, want 10000", len(ids))
	}
	for table, index := range map[string]string{"spend_run": "spend_run_pkey", "run": "run_pkey"} {
		plan := testkit.Value[string](t, b.pool, "EXPLAIN (FORMAT JSON) SELECT run_id FROM "+table+
			" WHERE (organization_id, run_id) > ('acme', 'a') ORDER BY organization_id, run_id LIMIT 1")
		if !strings.Contains(plan, index) || strings.Contains(plan, "Sort") {
			t.Errorf("the plan is %s, want the first row of %s", plan, index)
		}
	}
}
