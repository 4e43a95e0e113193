package pgdb_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// Ids are written and read alone, in lists, as text, by COPY and as NULL.
func TestUUIDs(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t, pgdb.Options{URL: testkit.PostgresURL(t, nil)})
	a, b := uuid.New(), uuid.New()
	if got := testkit.Value[uuid.UUID](t, pool, "SELECT $1::uuid", a); got != a {
		t.Errorf("%s came back as %s", a, got)
	}
	if got := testkit.Value[string](t, pool, "SELECT $1::text", a); got != a.String() {
		t.Errorf("%s as text is %s", a, got)
	}
	if !testkit.Value[bool](t, pool, "SELECT $1::uuid IS NULL AND $2::uuid IS NULL", (*uuid.UUID)(nil), uuid.NullUUID{}) {
		t.Error("no id is one")
	}
	list := []uuid.UUID{a, uuid.Nil, b}
	if diff := cmp.Diff(list, testkit.Value[[]uuid.UUID](t, pool, "SELECT $1::uuid[]", list)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if _, err := pool.Exec(t.Context(), "CREATE TABLE kept (id uuid NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	rows := pgx.CopyFromSlice(len(list), func(i int) ([]any, error) { return []any{list[i]}, nil })
	if _, err := pool.CopyFrom(t.Context(), pgx.Identifier{"kept"}, []string{"id"}, rows); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Value[[]uuid.UUID](t, pool, "SELECT array_agg(id ORDER BY id) FROM kept"); len(got) != len(list) || got[0] != uuid.Nil {
		t.Errorf("copied %v", got)
	}
}

// An id is encoded without converting it to text. Not in parallel: allocations are counted.
func TestUUIDsAreWrittenAsBytes(t *testing.T) {
	conn, err := testkit.Pool(t, pgdb.Options{URL: testkit.PostgresURL(t, nil)}).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	types, buf, id := conn.Conn().TypeMap(), make([]byte, 0, 64), any(uuid.New())
	cost := testing.AllocsPerRun(100, func() {
		if _, err := types.Encode(pgtype.UUIDOID, pgtype.BinaryFormatCode, id, buf[:0]); err != nil {
			t.Fatal(err)
		}
	})
	if cost > 4 {
		t.Errorf("%.0f allocations", cost)
	}
}
