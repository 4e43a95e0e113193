package postgres

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// spendOrganizations is how many organizations BenchmarkSpend makes, each with as many groups in every bucket as it may
// have: 408,800 rows, which stand for at least as many rows of the ledger. 25 of them are ten million rows.
var spendOrganizations = flag.Int("spend-organizations", 0, "full organizations in the rollup of BenchmarkSpend; 0 is one with a hundredth of the groups")

// makeRollup fills the rollup of an organization up to spendAt.
func makeRollup(tb testing.TB, pool *pgxpool.Pool, organization string, bounds spend.Bounds) {
	tb.Helper()
	for span, groups := range map[spend.Interval]int{"hour": bounds.HourGroups, "day": bounds.DayGroups, "month": bounds.MonthGroups} {
		buckets := map[spend.Interval]int{"hour": 36 * 24, "day": 400, "month": 36}[span]
		testkit.Exec(tb, pool, `
			INSERT INTO spend_bucket (organization_id, span, bucket, groups)
			SELECT $1, $2, date_trunc($2, $5::timestamptz - b * ('1 ' || $2)::interval, 'UTC'), $4
			FROM generate_series(0, $3::int - 1) AS b`, organization, string(span), buckets, groups, spendAt)
		testkit.Exec(tb, pool, `
			INSERT INTO spend_rollup (organization_id, span, bucket, group_id, is_rest, provider, model, key_id, user_id, tags, calls, cost_pico_usd,
				input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens,
				output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters, audio_seconds, searches)
			SELECT $1, $2, date_trunc($2, $5::timestamptz - b * ('1 ' || $2)::interval, 'UTC'), substr(sha256(g::text::bytea), 1, 16), false,
				'provider-' || g % 4, 'model-' || g % 13, 'key-' || g % 40, 'user-' || g, jsonb_build_object('team', 'team-' || g % 20, 'feature', 'f' || g % 7),
				1 + g % 100, 1000000007::numeric * (1 + g % 100), 1000, 10, 10, 0, 0, 0, 500, 20, 0, 0, 0, 0, 0, 0
			FROM generate_series(0, $3::int - 1) AS b, generate_series(1, $4::int) AS g`, organization, string(span), buckets, groups, spendAt)
	}
}

// spendQueries are the largest reports of each interval, in the groupings of a dashboard.
func spendQueries(organization string) map[string]spend.Query {
	hours, days, months := spend.IntervalHour, spend.IntervalDay, spend.IntervalMonth
	queries := make(map[string]spend.Query)
	for _, q := range []spend.Query{
		{Interval: hours, Since: spendAt.Add(-167 * time.Hour), Until: spendAt.Add(time.Hour)},
		{Interval: days, Since: time.Date(2026, 10, 22, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)},
		{Interval: days, Since: time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)},
		{Interval: months, Since: time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{Interval: months, Since: time.Date(2023, 12, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
	} {
		for _, g := range []spend.Grouping{nil, {"model", "provider"}, {"tag.team", "key"}, {"user"}} {
			q.Organization, q.Grouping, q.Limit = organization, g, 1000
			name := fmt.Sprintf("%s-%d/%s", q.Interval, int(q.Until.Sub(q.Since).Hours()/24), g)
			queries[name] = q
		}
	}
	return queries
}

// BenchmarkSpend times reports on rollups whose buckets are as full as they may be.
func BenchmarkSpend(b *testing.B) {
	pool := testkit.Postgres(b, migrations.FS)
	store, bounds := NewSpend(pool), spend.BoundsAt(spendAt)
	if *spendOrganizations == 0 {
		bounds.HourGroups, bounds.DayGroups, bounds.MonthGroups = bounds.HourGroups/100, bounds.DayGroups/100, bounds.MonthGroups/100
	}
	for o := range max(1, *spendOrganizations) {
		makeRollup(b, pool, fmt.Sprint("organization-", o), bounds)
	}
	testkit.Exec(b, pool, "VACUUM ANALYZE spend_rollup, spend_model, spend_bucket")
	b.Logf("%d rows", testkit.Value[int](b, pool, "SELECT count(*) FROM spend_rollup"))
	for name, q := range spendQueries("organization-0") {
		b.Run(name, func(b *testing.B) {
			var page spend.Report
			for b.Loop() {
				var err error
				if page, err = store.Report(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			readsRollup(b, pool, q, page)
		})
	}
}

// readsRollup fails unless a page has the sums of the rollup's rows, and as many rows as it must: reports on a rollup that
// is empty are fast.
func readsRollup(tb testing.TB, pool *pgxpool.Pool, q spend.Query, page spend.Report) {
	tb.Helper()
	const window = " FROM spend_rollup WHERE organization_id = $1 AND span = $2 AND bucket >= $3 AND bucket < $4"
	args := []any{q.Organization, string(q.Interval), q.Since, q.Until}
	calls := testkit.Value[int64](tb, pool, "SELECT coalesce(sum(calls), 0)::bigint"+window, args...)
	cost := testkit.Value[string](tb, pool, "SELECT coalesce(sum(cost_pico_usd), 0)::text"+window, args...)
	if calls == 0 || page.Total.Calls != calls || page.Total.Pico.String() != cost {
		tb.Errorf("the total is %d calls for %s, want %d for %s", page.Total.Calls, page.Total.Pico, calls, cost)
	}
	sums := make(map[string]spend.Sums)
	for _, row := range page.Rows {
		addSum(sums, "", row.Sums)
	}
	if len(page.Rows) < q.Limit {
		same(tb, "rows", map[string]spend.Sums{"": page.Total}, sums)
	}
}

// BenchmarkSpendAggregate compares the aggregation with what fills the ledger in the same run: one writer with
// transactions of 256 rows. The rows are of 300 or 12,000 groups, as those of steady callers; or nearly each is the
// first of its group; or they are of more groups than buckets may have.
func BenchmarkSpendAggregate(b *testing.B) {
	const rows, together, atOnce = 40_960, 256, 20_000
	for name, of := range map[string]struct{ organizations, users int }{"300 groups": {4, 1}, "12000 groups": {170, 1}, "new groups": {800, 4}, "full buckets": {4, 1000}} {
		b.Run(name, func(b *testing.B) {
			var appends, folds time.Duration
			for b.Loop() {
				b.StopTimer()
				pool, r := testkit.Postgres(b, migrations.FS), rand.New(rand.NewPCG(1, 8))
				store := NewLedger(pool)
				for range rows / together {
					entries := make([]ledger.Entry, together)
					for i := range entries {
						entries[i] = randomSpend(r, fmt.Sprint("org-", r.IntN(of.organizations)))
						entries[i].User = fmt.Sprint("user-", r.IntN(of.users))
					}
					begin := time.Now()
					if err := store.Append(b.Context(), entries); err != nil {
						b.Fatal(err)
					}
					appends += time.Since(begin)
				}
				b.StartTimer()
				begin := time.Now()
				aggregate(b, pool, spend.BoundsAt(spendAt), atOnce)
				folds += time.Since(begin)
			}
			b.ReportMetric(float64(folds.Nanoseconds())/float64(b.N*rows), "ns/row")
			b.ReportMetric(float64(appends.Nanoseconds())/float64(b.N*rows), "append-ns/row")
			b.ReportMetric(float64(appends)/float64(folds), "rows/appended")
		})
	}
}

// A report reads the rows of its window and of the end of the feed by their indexes, however long the tables are.
func TestSpendPlan(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	bounds := spend.BoundsAt(spendAt)
	bounds.HourGroups, bounds.DayGroups, bounds.MonthGroups = 2, 20, 20
	makeRollup(t, pool, "acme", bounds)
	makeLedger(t, pool, 20_000)
	testkit.Exec(t, pool, "ANALYZE")
	for name, q := range spendQueries("acme") {
		params, err := spendParams(q)
		if err != nil {
			t.Fatal(err)
		}
		params.PageUntil, params.WithTotal = params.Until, true
		query := &caught{}
		_, _ = dbsql.New(query).ListSpend(t.Context(), params)
		plan := explain(t, pool, query, (*dbsql.Queries).PlanForSpend)
		if strings.Contains(plan, "Seq Scan on spend_rollup") || strings.Contains(plan, "Seq Scan on spend_model") || strings.Contains(plan, "Seq Scan on ledger_entry") ||
			strings.Contains(plan, "spend_rollup_pkey") != (params.PageSource == sourceGroup) || !strings.Contains(plan, "spend_model_pkey") ||
			!strings.Contains(plan, "ledger_entry_feed") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
