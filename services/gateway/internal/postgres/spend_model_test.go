package postgres

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// modelsEqualRollup fails unless the sums by model are those of the rollup's rows, and there are some.
func modelsEqualRollup(tb testing.TB, pool *pgxpool.Pool, when string) {
	tb.Helper()
	const columns = `sum(calls), sum(cost_pico_usd), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(cache_write_long_tokens),
		sum(image_input_tokens), sum(audio_input_tokens), sum(output_tokens), sum(reasoning_tokens), sum(image_output_tokens), sum(audio_output_tokens),
		sum(images), sum(characters), sum(audio_seconds), sum(searches)`
	sums := func(table string) string {
		return "(SELECT organization_id, span, bucket, provider, model, " + columns + " FROM " + table + " GROUP BY organization_id, span, bucket, provider, model)"
	}
	differ := testkit.Value[int](tb, pool, fmt.Sprintf("SELECT count(*) FROM ((%[1]s EXCEPT ALL %[2]s) UNION ALL (%[2]s EXCEPT ALL %[1]s)) AS d", sums("spend_rollup"), sums("spend_model")))
	rows := testkit.Value[int](tb, pool, "SELECT count(*) FROM spend_model")
	if differ != 0 || rows == 0 {
		tb.Errorf("%s: %d sums by model differ, of %d", when, differ, rows)
	}
}

func manyCalls(r *rand.Rand, n int) []ledger.Entry {
	entries := make([]ledger.Entry, n)
	for i := range entries {
		entries[i] = randomSpend(r, fmt.Sprint("org-", i%2))
		entries[i].User = fmt.Sprint("user-", r.IntN(30))
	}
	return entries
}

// The sums by model follow the rollup: new groups, known ones, the rest of full buckets, and buckets that expire.
func TestSpendModelsFollowRollup(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, r := NewSpend(pool), rand.New(rand.NewPCG(1, 6))
	tight := spend.Bounds{HourGroups: 3, DayGroups: 10, MonthGroups: 20}
	for round := range 3 {
		recordAt(t, pool, manyCalls(r, 150), within(r, 60*24*time.Hour))
		aggregate(t, pool, tight, 70)
		modelsEqualRollup(t, pool, fmt.Sprint("round ", round))
	}
	for {
		n, err := store.Expire(t.Context(), spend.BoundsAt(spendAt), 7)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	modelsEqualRollup(t, pool, "after expiry")
}

// migratedBefore returns a database with the migrations before one, and its URL.
func migratedBefore(t *testing.T, first string) (pool *pgxpool.Pool, dsn string) {
	t.Helper()
	dsn = testkit.PostgresURL(t, nil)
	older := fstest.MapFS{}
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if name < first {
			older[name] = &fstest.MapFile{Data: text}
		}
	}
	if _, err := pgdb.Migrate(t.Context(), dsn, older, testkit.Logger(t)); err != nil {
		t.Fatal(err)
	}
	pool = testkit.Pool(t, pgdb.Options{URL: dsn, MaxConns: 4, ApplicationName: t.Name()})
	return pool, dsn
}

// A database that has aggregated already gets its sums by model from the migration.
func TestSpendModelsOfOldRollup(t *testing.T) {
	pool, dsn := migratedBefore(t, "00122")
	r := rand.New(rand.NewPCG(1, 7))
	makeRollup(t, pool, "acme", spend.Bounds{HourGroups: 1, DayGroups: 2, MonthGroups: 3}) // This release can't write to that schema.
	if _, err := pgdb.Migrate(t.Context(), dsn, migrations.FS, testkit.Logger(t)); err != nil {
		t.Fatal(err)
	}
	modelsEqualRollup(t, pool, "after the migration")
	recordAt(t, pool, manyCalls(r, 50), within(r, 20*24*time.Hour))
	aggregate(t, pool, roomy(), 100)
	modelsEqualRollup(t, pool, "after more calls")
	equals(t, pool, "org-0")
}
