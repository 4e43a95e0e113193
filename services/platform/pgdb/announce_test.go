package pgdb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

func newAnnouncer(t *testing.T, pool *pgxpool.Pool, name string) *pgdb.Announcer {
	t.Helper()
	announcer, err := pgdb.NewAnnouncer(pool, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(announcer.Close)
	return announcer
}

// awaiting starts a reader and returns its end.
func awaiting(t *testing.T, await func() error) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- await() }()
	return ended
}

func TestReaderAwaitsAnnouncedWrites(t *testing.T) {
	t.Parallel()
	pool := testkit.Postgres(t, nil)
	announcer := newAnnouncer(t, pool, "ledger")
	announce := func() (withdraw func()) {
		t.Helper()
		withdraw, err := announcer.Announce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return withdraw
	}
	if err := pgdb.AwaitAnnounced(t.Context(), pool, "ledger"); err != nil {
		t.Errorf("without an announcement: %v", err)
	}
	first := announce()
	if err := pgdb.AwaitAnnounced(t.Context(), pool, "counts"); err != nil {
		t.Errorf("of another kind of writes: %v", err)
	}
	if err := pgdb.AwaitAnnounced(t.Context(), testkit.Postgres(t, nil), "ledger"); err != nil {
		t.Errorf("of another schema: %v", err)
	}
	reader := awaiting(t, func() error { return pgdb.AwaitAnnounced(t.Context(), pool, "ledger") })
	const looking = `SELECT count(*) FROM pg_stat_activity
		WHERE query LIKE '%FROM pg_locks AS l%' AND application_name = $1 AND query_start > $2 AND pid <> pg_backend_pid()`
	for range 2 { // Once it has looked again, it has seen what it waits for.
		since := testkit.Value[time.Time](t, pool, "SELECT clock_timestamp()")
		testkit.Wait(t, "the reader looks", func() error {
			if testkit.Value[int](t, pool, looking, t.Name(), since) == 0 {
				return errors.New("it does not")
			}
			return nil
		})
	}
	second := announce() // after the reader's call, so that it doesn't wait for it
	select {
	case err := <-reader:
		t.Fatalf("the reader went on before the writes were committed: %v", err)
	default:
	}
	first()
	if err := <-reader; err != nil {
		t.Error(err)
	}
	second()
}

// A reader waits neither for ever nor for a writer that has died.
func TestReaderIsBounded(t *testing.T) {
	t.Parallel()
	pool := testkit.Postgres(t, nil)
	announcer := newAnnouncer(t, pool, "ledger")
	withdraw, err := announcer.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := awaiting(t, func() error { return pgdb.AwaitAnnounced(ctx, pool, "ledger") })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that left: %v, want Canceled", err)
	}
	if err := pgdb.AwaitAnnounced(t.Context(), pool, "ledger"); err != nil {
		t.Errorf("a writer that does not end: %v", err)
	}
	const kill = `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'
		AND objid = hashtext(current_schema() || ' ledger')::oid`
	if !testkit.Value[bool](t, pool, kill) {
		t.Fatal("the writer's connection lives on")
	}
	if err := pgdb.AwaitAnnounced(t.Context(), pool, "ledger"); err != nil {
		t.Errorf("a writer that died: %v", err)
	}
	withdraw()
	if withdraw, err = announcer.Announce(t.Context()); err != nil {
		t.Errorf("an announcement after the connection broke: %v", err)
	} else {
		withdraw()
	}
}
