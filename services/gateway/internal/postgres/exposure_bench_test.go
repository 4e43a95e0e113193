package postgres

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// ledgerRows is the size of the ledger that the queries are timed on. Ten million rows take about ten gigabytes and
// some minutes.
var ledgerRows = flag.Int("ledger-rows", 100_000, "rows of the ledger that BenchmarkRadius makes")

// ledgerChunk is how many rows are inserted in one transaction, which is aggregated as a whole.
const ledgerChunk = 5_000

// makeLedger fills a ledger with calls of 90 days: 4 providers whose fleet keys
// change every 30 days, 2,000 organizations of which few make most calls and every
// fifth has keys of its own, 5 services, and runs of 30 calls within an hour.
func makeLedger(tb testing.TB, pool *pgxpool.Pool, rows int) {
	tb.Helper()
	for first := 0; first < rows; first += ledgerChunk {
		_, err := pool.Exec(tb.Context(), `
			INSERT INTO ledger_entry (id, request_id, organization_id, key_id, service, run_id, operation, requested_provider,
				requested_model, requested_goal, provider, model, credential, credential_fingerprint, substituted, attempts, input_tokens, cache_read_tokens,
				cache_write_tokens, output_tokens, reasoning_tokens, images, usage_state, cost_pico_usd, price_version, outcome, started_at, ended_at)
			SELECT gen_random_uuid(), 'req_' || n, 'organization-' || o, 'key_' || o, 'service-' || n % 5,
				'run_' || substr(md5((n / 3000)::text || '/' || n % 100), 1, 22), 'chat', '', 'default', '', p, 'model-' || n % 7,
				CASE WHEN o % 5 = 0 THEN 'byok' ELSE 'fleet' END,
				substr(md5(p || CASE WHEN o % 5 = 0 THEN o ELSE -1 - n * 3 / $3::int END), 1, 16),
				false, 1, 100, 0, 0, 100, 0, 0, 'reported', 1000000 + n, 'v1', 'completed', at, at + interval '1 second'
			FROM (
				SELECT n, 'provider-' || (n / 3000 + n % 100) % 4 AS p,
					floor(2000 * power(((n / 3000 * 7919 + n % 100 * 104729) % 100003) / 100003.0, 3))::int AS o,
					timestamptz '2026-08-01 00:00:00+00' + n * (interval '90 days' / $3::int) AS at
				FROM generate_series($1::bigint, $2::bigint - 1) AS n
			) AS made`, first, min(first+ledgerChunk, rows), rows)
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func fold(tb testing.TB, store *Exposure) {
	tb.Helper()
	for {
		n, err := store.Aggregate(tb.Context(), 5000)
		if err != nil {
			tb.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// BenchmarkRadius times the queries about a leaked key.
func BenchmarkRadius(b *testing.B) {
	pool := testkit.Postgres(b, migrations.FS)
	store := NewExposure(pool)
	if _, err := pool.Exec(b.Context(), "DROP INDEX ledger_entry_organization_feed"); err != nil {
		b.Fatal(err) // No query here uses it, and maintaining it takes time.
	}
	start := time.Now()
	makeLedger(b, pool, *ledgerRows)
	b.Logf("%d rows made in %s", *ledgerRows, time.Since(start))
	start = time.Now()
	fold(b, store)
	b.Logf("folded in %s, %.0f rows a second", time.Since(start), float64(*ledgerRows)/time.Since(start).Seconds())
	testkit.Exec(b, pool, "VACUUM ANALYZE exposure_use, exposure_run, exposure_run_count, exposure_run_use")
	begin := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	var fingerprint string
	if err := pool.QueryRow(b.Context(), "SELECT substr(md5('provider-1' || -2), 1, 16)").Scan(&fingerprint); err != nil {
		b.Fatal(err)
	}
	odd := 17*time.Minute + 13*time.Second
	for name, q := range map[string]exposure.Query{
		"provider/all":    {},
		"provider/89d":    {Since: begin.Add(odd), Until: begin.Add(89*24*time.Hour + odd)},
		"provider/30d":    {Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(70*24*time.Hour + odd)},
		"provider/1d":     {Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(41*24*time.Hour + odd)},
		"credential/all":  {Fingerprint: fingerprint},
		"credential/30d":  {Fingerprint: fingerprint, Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(70*24*time.Hour + odd)},
		"credential/open": {Fingerprint: fingerprint, Since: begin.Add(53*24*time.Hour + odd)},
		"credential/1h":   {Fingerprint: fingerprint, Since: begin.Add(40*24*time.Hour + odd), Until: begin.Add(40*24*time.Hour + odd + time.Hour)},
	} {
		b.Run(name, func(b *testing.B) {
			q.Provider, q.Limit = "provider-1", 200
			var radius exposure.Radius
			for b.Loop() {
				var err error
				if radius, err = store.Radius(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(radius.Calls), "calls")
			b.ReportMetric(float64(radius.RunCount), "runs")
		})
	}
}

// caught records a query instead of running it.
type caught struct {
	dbsql.DBTX

	sql  string
	args []any
}

func (c *caught) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.sql, c.args = sql, args
	return nil, errors.New("caught")
}

// explain returns the plan of a query in a transaction with the settings of a report.
func explain(t *testing.T, pool *pgxpool.Pool, query *caught, settings func(*dbsql.Queries, context.Context) error) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if err := settings(dbsql.New(tx), t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN "+query.sql, query.args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// The queries use their indexes.
func TestRadiusGoesByIndexes(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	makeLedger(t, pool, 50_000)
	fold(t, NewExposure(pool))
	testkit.Exec(t, pool, "ANALYZE exposure_use, exposure_run, exposure_run_use, exposure_run_count")
	since := time.Date(2026, 9, 1, 0, 17, 0, 0, time.UTC)
	ofNames, ofRuns := windowOf(exposure.Query{Provider: "provider-1", Since: since, Until: since.Add(24 * time.Hour), Limit: 10})
	var services, runs caught
	_, _ = dbsql.New(&services).ExposedNames(t.Context(), ofNames)
	_, _ = dbsql.New(&runs).ExposedRuns(t.Context(), ofRuns)
	for query, indexes := range map[*caught][]string{
		&services: {"exposure_use_pkey"}, &runs: {"exposure_run_pkey", "exposure_run_began", "exposure_run_use_pkey"},
	} {
		plan := explain(t, pool, query, (*dbsql.Queries).PlanForValues)
		for _, name := range append(indexes, "ledger_entry_provider", "ledger_entry_feed") {
			if !strings.Contains(plan, name) {
				t.Errorf("goes without %s:\n%s", name, plan)
			}
		}
		for _, table := range []string{"Scan on ledger_entry l ", "Scan on ledger_entry e ", "Scan on exposure_use c", "Scan on exposure_run r", "Scan on exposure_run_use c"} {
			if strings.Contains(plan, "Seq "+table) {
				t.Errorf("Seq %s:\n%s", table, plan)
			}
		}
	}
}
