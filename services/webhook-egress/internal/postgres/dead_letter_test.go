package postgres_test

import (
	"log/slog"
	"testing"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/migrations"
)

// missingIndex counts the days of dead letters without an index that begins with the delivery's id.
const missingIndex = `SELECT count(*) FROM pg_inherits AS i WHERE i.inhparent = 'dead_letter'::regclass AND NOT EXISTS (
	SELECT FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
	WHERE x.indrelid = i.inhrelid AND x.indisvalid AND a.attname = 'delivery_id')`

// The index of all dead letters is built day by day, also after a try that was broken off, and later days have it.
func TestDeadLettersOfAllHaveAnIndex(t *testing.T) {
	url := testkit.PostgresURL(t, testkit.MigrationsBefore(t, migrations.FS, "00018"))
	pool := testkit.Pool(t, pgdb.Options{URL: url, MaxConns: 4, ApplicationName: t.Name()})
	testkit.Exec(t, pool, "SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date - 10, 12)")
	testkit.Exec(t, pool, `INSERT INTO dead_letter (organization_id, delivery_id, created_at)
		SELECT 'acme', first_id(now() - n * interval '1 hour'), now() - n * interval '1 hour' FROM generate_series(1, 200) AS n`)
	testkit.Exec(t, pool, "CREATE INDEX dead_letter_newest ON ONLY dead_letter (delivery_id)")
	for range 2 { // the second time there is nothing to do
		if _, err := pgdb.Migrate(t.Context(), url, migrations.FS, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	if !testkit.Value[bool](t, pool, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'dead_letter_newest'::regclass") {
		t.Error("the index is not valid")
	}
	testkit.Exec(t, pool, "SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date + 20, 3)")
	if n := testkit.Value[int](t, pool, missingIndex); n != 0 {
		t.Errorf("%d days lack the index", n)
	}
}

// A page of the dead letters of all is read in the order of an index, whatever the statistics say.
func TestDeadLettersOfAllAreNotSorted(t *testing.T) {
	s, pool := openOne(t)
	ended(t, s, "acme", 50, delivery.StatusFailed, func(int, *delivery.Draft) {})
	query := statements(t)["NewestDeadLettersOfAll"]
	for _, prepare := range []string{"SELECT 1", "VACUUM ANALYZE"} {
		testkit.Exec(t, pool, prepare)
		if plan := planOf(t, pool, "NewestDeadLettersOfAll "+prepare, query); plan.has("Sort") || !plan.has("Merge Append") {
			t.Errorf("after %s the plan is %+v, want no sort", prepare, plan)
		}
	}
}

// has reports whether a plan has a node of a type.
func (p *plan) has(node string) bool {
	if p.Type == node {
		return true
	}
	for i := range p.Children {
		if p.Children[i].has(node) {
			return true
		}
	}
	return false
}
