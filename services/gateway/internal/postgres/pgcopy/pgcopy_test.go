package pgcopy_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres/pgcopy"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

const (
	table = `CREATE TABLE every (id uuid PRIMARY KEY, word text NOT NULL, yes boolean NOT NULL, small smallint NOT NULL, middle integer NOT NULL,
		big bigint NOT NULL, real double precision NOT NULL, raw bytea NOT NULL, doc jsonb NOT NULL, at timestamptz NOT NULL)`
	statement = `COPY every (id, word, yes, small, middle, big, real, raw, doc, at) FROM STDIN (FORMAT binary)`
	columns   = 10
)

// row has a field of each kind.
type row struct {
	ID     uuid.UUID
	Word   string
	Yes    bool
	Small  int16
	Middle int32
	Big    int64
	Real   float64
	Raw    []byte
	Doc    string
	At     time.Time
}

func (r *row) add(rows *pgcopy.Rows) {
	rows.Row()
	rows.UUID(r.ID)
	rows.Text(r.Word)
	rows.Bool(r.Yes)
	rows.Int16(r.Small)
	rows.Int32(r.Middle)
	rows.Int64(r.Big)
	rows.Float64(r.Real)
	rows.Bytes(r.Raw)
	rows.JSON([]byte(r.Doc))
	rows.Time(r.At)
}

var samples = []row{
	{uuid.New(), "a word", true, 1, 2, 3, 4.5, []byte{0, 255}, `{"a": [1, "x"]}`, time.Date(2026, 11, 22, 15, 4, 5, 123456000, time.UTC)},
	{uuid.New(), "", false, math.MinInt16, math.MinInt32, math.MinInt64, -math.SmallestNonzeroFloat64, nil, `null`, time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)},
	{uuid.Nil, strings.Repeat("größer als ein Paket ", 10_000), true, math.MaxInt16, math.MaxInt32, math.MaxInt64, math.MaxFloat64, make([]byte, 100_000), `[]`, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
}

func every(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testkit.Postgres(t, nil)
	if _, err := pool.Exec(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return pool
}

func send(t *testing.T, pool *pgxpool.Pool, rows *pgcopy.Rows) error {
	t.Helper()
	return pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error { return rows.Send(t.Context(), conn.Conn(), statement) })
}

// The rows read back equal those written, up to each type's limits.
func TestSend(t *testing.T) {
	pool := every(t)
	if err := send(t, pool, pgcopy.New(columns, 0)); err != nil {
		t.Errorf("no rows: %v", err)
	}
	rows := pgcopy.New(columns, 100)
	for i := range samples {
		samples[i].add(rows)
	}
	if err := send(t, pool, rows); err != nil {
		t.Fatal(err)
	}
	found, err := pool.Query(t.Context(), `SELECT * FROM every ORDER BY middle = 2 DESC, middle`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(samples)
	want[1].Raw = []byte{}
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// Invalid rows are all refused with a reason, and the connection stays usable.
func TestRefused(t *testing.T) {
	pool := every(t)
	twice := pgcopy.New(columns, 0)
	samples[0].add(twice)
	samples[0].add(twice)
	short := pgcopy.New(1, 0)
	short.Row()
	short.UUID(uuid.New())
	text := pgcopy.New(columns, 0)
	(&row{Word: "\xff", Doc: "{}"}).add(text)
	for name, rows := range map[string]*pgcopy.Rows{"a row twice": twice, "too few fields": short, "no text": text} {
		if err := send(t, pool, rows); err == nil || pgdb.IsUniqueViolation(err, "every_pkey") != (rows == twice) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM every`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v; want none", n, err)
	}
	// Rows can be sent again, as after a failure.
	one := pgcopy.New(columns, 0)
	samples[0].add(one)
	for range 2 {
		if err := send(t, pool, one); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), `DELETE FROM every`); err != nil {
			t.Fatal(err)
		}
	}
}
