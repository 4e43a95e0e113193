package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/platform/testkit"
)

// Runs are listed newest first, each once over pages, by their status at the moment, and with what they have used.
func TestListRuns(t *testing.T) {
	b := openBooks(t)
	want := map[string]run.Status{
		"minted": run.Minted, "in flight": run.Active, "active": run.Active, "used up": run.Exhausted, "over": run.Expired, "stopped": run.Revoked,
	}
	for _, id := range []string{"minted", "in flight", "active", "used up", "over", "stopped"} {
		b.mint(t, id, run.Limits{MaxCalls: 2})
	}
	if _, err := b.reserve(t, "in flight", cent); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"active", "used up", "used up"} {
		call, err := b.reserve(t, id, cent)
		if err != nil {
			t.Fatal(err)
		}
		b.settle(t, call, id, cent)
	}
	b.expire(t, "over")
	if _, err := b.runs.Revoke(operator(t), "acme", "stopped", "ada", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := b.runs.Abort(operator(t), "acme", "never minted", "ada", ""); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Second)
	list := func(f run.Filter) []run.Used {
		t.Helper()
		f.Organization = "acme"
		found, err := b.runs.List(t.Context(), f, now)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	all := list(run.Filter{Limit: 10})
	if len(all) != len(want) || !slices.IsSortedFunc(all, func(x, y run.Used) int { return y.Run.CreatedAt.Compare(x.Run.CreatedAt) }) {
		t.Errorf("%d runs, want the %d that were minted, newest first", len(all), len(want))
	}
	for _, used := range all {
		id := used.Run.ID
		usage := b.usage(t, id)
		if used.Run.Status != want[id] || used.Usage != usage {
			t.Errorf("%s is %s with %+v, want %s with %+v", id, used.Run.Status, used.Usage, want[id], usage)
		}
	}
	for _, status := range []run.Status{run.Minted, run.Active, run.Exhausted, run.Expired, run.Revoked} {
		for _, used := range list(run.Filter{Status: status, Limit: 10}) {
			if want[used.Run.ID] != status {
				t.Errorf("among those that are %s is %s, which is %s", status, used.Run.ID, want[used.Run.ID])
			}
			delete(want, used.Run.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("no status has %v", want)
	}
	var paged []string
	f := run.Filter{Limit: 1}
	for range len(all) + 1 {
		for _, used := range list(f) {
			paged = append(paged, used.Run.ID)
			f.BeforeCreated, f.BeforeID = used.Run.CreatedAt, used.Run.ID
		}
	}
	for i, used := range all {
		if len(paged) != len(all) || paged[i] != used.Run.ID {
			t.Fatalf("pages of one have %q", paged)
		}
	}
	middle := all[2].Run.CreatedAt
	if since, until := list(run.Filter{Since: middle, Limit: 10}), list(run.Filter{Until: middle, Limit: 10}); len(since) != 3 || len(until) != 3 {
		t.Errorf("%d since and %d until the third, want 3 and 3", len(since), len(until))
	}
	if others, err := b.runs.List(t.Context(), run.Filter{Organization: "beta", Limit: 10}, now); err != nil || len(others) > 0 {
		t.Errorf("another organization has %v: %v", others, err)
	}
}

// A page of an organization with many runs is read by its index.
func TestListRunsReadsAPage(t *testing.T) {
	b := openBooks(t)
	testkit.Exec(t, b.pool, `INSERT INTO run (organization_id, run_id, status, expires_at, created_at, ended_at, version)
		SELECT 'acme', 'r' || n, 'revoked', now(), now() - n * interval '1 s', now(), n FROM generate_series(1, 20000) AS n`)
	testkit.Exec(t, b.pool, "ANALYZE run")
	found, err := b.runs.List(t.Context(), run.Filter{Organization: "acme", Limit: 3}, time.Now())
	if err != nil || len(found) != 3 || found[0].Run.ID != "r1" {
		t.Fatalf("found %+v: %v", found, err)
	}
	plan := testkit.Value[string](t, b.pool, `EXPLAIN (FORMAT JSON) SELECT run_id FROM run WHERE organization_id = 'acme' AND status IS NOT NULL
		ORDER BY created_at DESC, run_id DESC LIMIT 3`)
	if !strings.Contains(plan, "run_created") {
		t.Errorf("the plan is %s, want one by run_created", plan)
	}
}
