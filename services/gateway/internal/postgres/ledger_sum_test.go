package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// alike returns n entries that differ only in their ids.
func alike(n int) []ledger.Entry {
	all := make([]ledger.Entry, n)
	for i := range all {
		all[i] = entry()
		all[i].CacheHit, all[i].Cost, all[i].KeyOrigin, all[i].CountMetric = false, 1000, "key_1", "llm_calls"
	}
	return all
}

// appendAsPreviousRelease appends entries as the previous release does: one COPY without the newest column.
func appendAsPreviousRelease(t *testing.T, pool *pgxpool.Pool, entries []ledger.Entry) {
	t.Helper()
	var columns []string
	var kept []int
	for i, name := range entryColumns {
		if name != "counted" {
			columns, kept = append(columns, name), append(kept, i)
		}
	}
	columns = append(columns, columnMetric)
	rows := pgx.CopyFromSlice(len(entries), func(i int) ([]any, error) {
		all, row := entryRow(&entries[i]), make([]any, 0, len(columns))
		for _, k := range kept {
			row = append(row, all[k])
		}
		return append(row, entries[i].CountMetric), nil
	})
	if _, err := pool.CopyFrom(t.Context(), pgx.Identifier{"ledger_entry"}, columns, rows); err != nil {
		t.Fatal(err)
	}
}

// counted returns the counters that entries change, without positions in feeds.
func counted(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return testkit.Value[string](t, pool, `SELECT concat_ws(E'\n',
		(SELECT string_agg(concat_ws(' ', organization_id, day, calls, cost_pico_usd), ', ') FROM spend_day),
		(SELECT string_agg(concat_ws(' ', organization_id, run_id, calls, cost_pico_usd, first_at, last_at), ', ') FROM spend_run),
		(SELECT string_agg(concat_ws(' ', organization_id, key_origin, day, calls, cost_pico_usd), ', ') FROM spend_key),
		(SELECT string_agg(concat_ws(' ', organization_id, key_id, metric, minute, user_id, tags, calls), ', ') FROM call_count))`)
}

// An entry counts alike and once, whichever release writes it.
func TestReleasesCountAlike(t *testing.T) {
	for _, n := range []int{1, maxAdded, maxAdded + 1, 20} {
		before, now := testkit.Postgres(t, migrations.FS), testkit.Postgres(t, migrations.FS)
		all := alike(n)
		appendAsPreviousRelease(t, before, all)
		for range 2 {
			if err := NewLedger(now).Append(t.Context(), all); err != nil {
				t.Fatal(err)
			}
		}
		if want, got := counted(t, before), counted(t, now); got != want {
			t.Errorf("%d entries: this release counts\n%s\nwant, as the previous release,\n%s", n, got, want)
		}
	}
}

// Entries with much in common are summed. Entries that differ, and counts too large for a sum, are not.
func TestSums(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(i int, e *ledger.Entry)
		want   string
	}{
		"alike":           {func(int, *ledger.Entry) {}, "20 true"},
		"two runs":        {func(i int, e *ledger.Entry) { e.Run = fmt.Sprint(i % 2) }, "10 true, 10 true"},
		"all different":   {func(i int, e *ledger.Entry) { e.Run = fmt.Sprint(i) }, "20 false"},
		"an absurd count": {func(_ int, e *ledger.Entry) { e.Usage.Input = 1 << 62 }, "20 false"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Postgres(t, migrations.FS)
			all := alike(20)
			for i := range all {
				tt.change(i, &all[i])
			}
			if err := NewLedger(pool).Append(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			got := testkit.Value[string](t, pool, "SELECT string_agg(calls || ' ' || summed, ', ') FROM ledger_sum")
			if got != tt.want {
				t.Errorf("sums of %s calls, want %s", got, tt.want)
			}
		})
	}
}

// A replica of the previous release may have aggregated a part of a transaction. The rest is added once, summed or not,
// and the sums are dropped later.
func TestRestOfATransaction(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *pgxpool.Pool){
		"summed": func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			if err := NewLedger(pool).Append(t.Context(), alike(20)); err != nil {
				t.Fatal(err)
			}
		},
		"by the previous release": func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			appendAsPreviousRelease(t, pool, alike(20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Postgres(t, migrations.FS)
			write(t, pool)
			testkit.Exec(t, pool, `UPDATE spend_mark AS m SET txid = e.txid, seq = e.seq
				FROM (SELECT txid, seq FROM ledger_entry ORDER BY seq LIMIT 1 OFFSET 6) AS e`)
			aggregate(t, pool, roomy(), 10)
			if n := testkit.Value[int](t, pool, "SELECT sum(calls)::int FROM spend_rollup WHERE span = 'hour'"); n != 13 {
				t.Errorf("%d calls are added after the first 7, want 13", n)
			}
			foldAll(t, NewExposure(pool), 20)
			for range 2 { // The last sums stay until others have been read.
				if err := NewLedger(pool).Append(t.Context(), alike(2)); err != nil {
					t.Fatal(err)
				}
				aggregate(t, pool, roomy(), 10)
				foldAll(t, NewExposure(pool), 2)
				compareAll(t, pool)
			}
			aggregate(t, pool, roomy(), 10)
			if _, err := NewSpend(pool).Aggregate(t.Context(), roomy(), 1); err != nil {
				t.Fatal(err)
			}
			if n := testkit.Value[int](t, pool, "SELECT count(*) FROM ledger_sum"); n != 1 {
				t.Errorf("%d sums are left, want only the last transaction's", n)
			}
		})
	}
}

// Entries that were not aggregated before the migration are aggregated once after it.
func TestSumsOfOldEntries(t *testing.T) {
	pool, dsn := migratedBefore(t, "00146")
	for range 3 {
		appendAsPreviousRelease(t, pool, alike(20))
	}
	testkit.Exec(t, pool, `UPDATE spend_mark AS m SET txid = e.txid, seq = e.seq
		FROM (SELECT txid, seq FROM ledger_entry ORDER BY seq LIMIT 1 OFFSET 26) AS e`)
	if _, err := pgdb.Migrate(t.Context(), dsn, migrations.FS, testkit.Logger(t)); err != nil {
		t.Fatal(err)
	}
	if err := NewLedger(pool).Append(t.Context(), alike(20)); err != nil {
		t.Fatal(err)
	}
	aggregate(t, pool, roomy(), 10)
	foldAll(t, NewExposure(pool), 80)
	if n := testkit.Value[int](t, pool, "SELECT sum(calls)::int FROM spend_rollup WHERE span = 'hour'"); n != 53 {
		t.Errorf("%d calls are added after the first 27, want 53", n)
	}
}

// compareAll compares budgets up to the last entry.
func compareAll(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testkit.Wait(t, "the comparison of budgets", func() error {
		if _, err := NewHouseEvents(pool).Compare(t.Context(), 100); err != nil {
			return err
		}
		if testkit.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM ledger_entry
			WHERE (txid, seq) > (SELECT m.txid, m.seq FROM budget_mark AS m))`) {
			return errNotYet
		}
		return nil
	})
}

// Entries of transactions that were read already are not read again, however many of them have no sums.
func TestSumsReadOnlyWhatIsNew(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	for range 30 {
		appendAsPreviousRelease(t, pool, alike(20))
	}
	testkit.Exec(t, pool, "VACUUM ANALYZE ledger_sum, ledger_entry")
	last := testkit.Value[string](t, pool, "SELECT max(txid)::text FROM ledger_sum")
	before := testkit.Value[string](t, pool, "SELECT txid::text FROM ledger_sum ORDER BY txid DESC LIMIT 1 OFFSET 1")
	rows, err := pool.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT * FROM ledger_summed"+
		" WHERE txid > '"+before+"'::xid8 AND txid <= '"+last+"'::xid8")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, line := range plan {
		if strings.Contains(line, "ledger_entry") {
			looked++
			if !strings.Contains(line, "rows=20 loops=1)") {
				t.Errorf("%s, want the 20 entries of one transaction", strings.TrimSpace(line))
			}
		}
	}
	if looked == 0 || t.Failed() {
		t.Errorf("plan:\n%s", strings.Join(plan, "\n"))
	}
}
