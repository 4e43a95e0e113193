package postgres

import (
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// Entries are stored alike by statements and by COPY.
func TestSmallAndLargeGroupsAreStoredAlike(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	for _, n := range []int{1, maxAdded, maxAdded + 1} {
		all := entries(n)
		for i := range all {
			all[i].CountMetric, all[i].KeyOrigin, all[i].Reported = "llm_calls", "key_1", &provider.Usage{Output: 9}
		}
		if err := NewLedger(pool).Append(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	got := testkit.Value[string](t, pool, `SELECT string_agg(DISTINCT r.columns::text, E'\n')
		FROM (SELECT to_jsonb(e) - ARRAY['id', 'txid', 'seq', 'recorded_at'] AS columns FROM ledger_entry AS e) AS r`)
	if strings.Contains(got, "\n") {
		t.Errorf("rows differ:\n%s", got)
	}
}

// If the counts or the commit fail, no entry is stored. The connection stays usable, also after a repeated append.
func TestAppendIsAtomic(t *testing.T) {
	const create = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END $$;
		CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON `
	const refuse = " FOR EACH ROW EXECUTE FUNCTION refuse()"
	for name, spoil := range map[string]string{
		"a failure of the sums":   create + "ledger_sum" + refuse,
		"a failure of the commit": create + "ledger_entry DEFERRABLE INITIALLY DEFERRED" + refuse,
	} {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Pool(t, pgdb.Options{
				URL: testkit.PostgresURL(t, migrations.FS), MaxConns: 1, ApplicationName: t.Name(),
			})
			store := NewLedger(pool)
			for _, n := range []int{1, maxAdded, maxAdded + 1} {
				before := testkit.Value[int](t, pool, "SELECT pg_backend_pid()")
				testkit.Exec(t, pool, spoil)
				all := entries(n)
				if err := store.Append(t.Context(), all); err == nil || errors.Is(err, ledger.ErrUnavailable) {
					t.Errorf("%d entries: %v, want a refusal", n, err)
				}
				if stored := count(t, pool); stored != 0 {
					t.Errorf("%d of %d entries are stored, want none", stored, n)
				}
				testkit.Exec(t, pool, "DROP FUNCTION refuse CASCADE")
				for range 2 {
					if err := store.Append(t.Context(), all); err != nil {
						t.Errorf("%d entries afterwards: %v", n, err)
					}
				}
				if stored := count(t, pool); stored != n {
					t.Errorf("%d entries are stored, want %d", stored, n)
				}
				if after := testkit.Value[int](t, pool, "SELECT pg_backend_pid()"); after != before {
					t.Errorf("%d entries: the connection was closed", n)
				}
				testkit.Exec(t, pool, "TRUNCATE ledger_entry")
			}
		})
	}
}
