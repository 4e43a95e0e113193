package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// caughtAny catches statements of every kind.
type caughtAny struct{ caught }

func (c *caughtAny) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	c.sql, c.args = sql, args
	return noRow{}
}

func (c *caughtAny) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.sql, c.args = sql, args
	return pgconn.CommandTag{}, errors.New("caught")
}

type noRow struct{}

func (noRow) Scan(...any) error { return pgx.ErrNoRows }

// What grows with the jobs and files of all time is read by indexes: 20,000 jobs and 5,000 files of one organization, few
// of which are due, under way or on a page. They are stored little by little: a long write would hold back the feeds that
// other tests read from the same server.
func TestBatchesGoByIndexes(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	for from := range 20 {
		testkit.Exec(t, pool, `
		INSERT INTO batch_job (id, organization_id, owner_id, run_id, form, stage, cancel_requested, erased, provider, vendor_id, key_id,
			sealed_state, requests_key_id, sealed_requests, reservation_id, due_at, holder, held_until, lease, created_at, expires_at)
		SELECT 'batch_' || n, 'acme', '', '', 'openai', CASE WHEN n % 1000 = 0 THEN 'running' ELSE 'ended' END, false, false, 'one', 'v' || n, 'k',
			convert_to(repeat('s', 800), 'UTF8'), 'k', 'r', gen_random_uuid(), now() + n * interval '1 s', '', now(), 1, now() - n * interval '1 s', now() + n * interval '1 s'
		FROM generate_series($1::int * 1000 + 1, $1::int * 1000 + 1000) AS n`, from)
	}
	for from := range 5 {
		testkit.Exec(t, pool, `
		INSERT INTO file (id, organization_id, owner_id, purpose, complete, key_id, sealed_name, size, created_at, expires_at)
		SELECT 'file-' || n, 'acme', '', 'batch', true, 'k', convert_to(repeat('s', 60), 'UTF8'), 1000, now() - n * interval '1 s', now() + n * interval '1 s'
		FROM generate_series($1::int * 1000 + 1, $1::int * 1000 + 1000) AS n`, from)
	}
	testkit.Exec(t, pool, "ANALYZE batch_job, file")
	ctx, now := t.Context(), time.Now()
	for name, c := range map[string]struct {
		ask  func(q *dbsql.Queries)
		want string
	}{
		"claim": {func(q *dbsql.Queries) {
			_, _ = q.ClaimBatchJob(ctx, dbsql.ClaimBatchJobParams{Holder: "h", HoldSeconds: 30, FullOrganizations: []string{}})
		}, "batch_job_due"},
		"insert": {func(q *dbsql.Queries) {
			_, _ = q.InsertBatchJob(ctx, dbsql.InsertBatchJobParams{ID: "b", OrganizationID: "acme", CreatedAt: now, ExpiresAt: now, Most: 200})
		}, "batch_job_due"},
		"list": {func(q *dbsql.Queries) {
			_, _ = q.ListBatchJobs(ctx, dbsql.ListBatchJobsParams{OrganizationID: "acme", Form: "openai", Now: now, Count: 21})
		}, "batch_job_organization"},
		"list after": {func(q *dbsql.Queries) {
			_, _ = q.ListBatchJobs(ctx, dbsql.ListBatchJobsParams{OrganizationID: "acme", Form: "openai", Now: now, OlderThan: "batch_10000", Count: 21})
		}, "batch_job_organization"},
		"list before": {func(q *dbsql.Queries) {
			_, _ = q.ListNewerBatchJobs(ctx, dbsql.ListNewerBatchJobsParams{OrganizationID: "acme", Form: "openai", Now: now, NewerThan: "batch_10000", Count: 21})
		}, "batch_job_organization"},
		"drop": {func(q *dbsql.Queries) {
			_, _ = q.DropBatchJobs(ctx, dbsql.DropBatchJobsParams{Now: now, Count: 20})
		}, "batch_job_expires"},
		"vendor": {func(q *dbsql.Queries) {
			_, _ = q.HasVendorBatch(ctx, dbsql.HasVendorBatchParams{Provider: "one", VendorID: "v7"})
		}, "batch_job_vendor"},
		"drop files": {func(q *dbsql.Queries) { _, _ = q.DropFiles(ctx, dbsql.DropFilesParams{Now: now, Count: 20}) }, "file_expires"},
		"list files": {func(q *dbsql.Queries) {
			_, _ = q.ListFiles(ctx, dbsql.ListFilesParams{OrganizationID: "acme", Now: now, Purposes: []string{"batch"}, Count: 21})
		}, "file_organization"},
	} {
		var query caughtAny
		c.ask(dbsql.New(&query))
		plan := explain(t, pool, &query.caught, (*dbsql.Queries).PlanForValues)
		if !strings.Contains(plan, c.want) || strings.Contains(plan, "Seq Scan") || strings.HasPrefix(name, "list") && strings.Contains(plan, "Sort") {
			t.Errorf("%s is planned without %s, or reads or sorts a whole table:\n%s", name, c.want, plan)
		}
	}
}

// The previous release reserves with five arguments, whose types Postgres finds out: there is one such function.
func TestPreviousReleaseReserves(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	testkit.Exec(t, pool, "INSERT INTO replica (id) VALUES ('11111111-1111-1111-1111-111111111111')")
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared": pgx.QueryExecModeCacheStatement, "described": pgx.QueryExecModeCacheDescribe, "simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec,
	} {
		var refusal string
		err := pool.QueryRow(t.Context(), "SELECT budget_reserve($1, $2, $3, $4, $5)::text AS refusal", mode,
			uuidText(name), "11111111-1111-1111-1111-111111111111", "acme", "run", int64(7)).Scan(&refusal)
		if err != nil || refusal != "" {
			t.Errorf("%s: %q, %v", name, refusal, err)
		}
	}
	if calls := testkit.Value[int](t, pool, "SELECT sum(calls) FROM budget_reservation"); calls != 4 {
		t.Errorf("%d calls are reserved, want one for each", calls)
	}
}

// uuidText returns a UUID that differs by the length of a name.
func uuidText(name string) string {
	return "22222222-2222-2222-2222-2222222222" + string(rune('a'+len(name)%6)) + string(rune('a'+len(name)/6))
}
