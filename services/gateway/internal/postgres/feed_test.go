package postgres

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/testkit"
)

// follow reads the feed from a position to its present end.
func follow(t *testing.T, store *Ledger, f ledger.Filter, at *feed.Position, limit int) (ids []uuid.UUID) {
	t.Helper()
	for {
		page, err := store.List(t.Context(), f, *at, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return ids
		}
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		*at = page[len(page)-1].Position
	}
}

// uncounted returns a database that counts no spend. The counts of two connections of the pool may be one row, for which
// one would wait until the other's transaction ends.
func uncounted(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testkit.Postgres(t, migrations.FS)
	if _, err := pool.Exec(t.Context(), "ALTER TABLE ledger_entry DISABLE TRIGGER ledger_entry_counts"); err != nil {
		t.Fatal(err)
	}
	return pool
}

// held appends an entry in a transaction that stays open until commit. The database must be an uncounted one.
func held(t *testing.T, pool *pgxpool.Pool, e ledger.Entry) (commit func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // The pool waits for its connection.
	if err := copyEntries(t.Context(), tx, []ledger.Entry{e}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A transaction that commits late is not skipped, even though later entries were stored first.
func TestFeedWaitsForTheOldestTransaction(t *testing.T) {
	pool := uncounted(t)
	store := NewLedger(pool)
	var at feed.Position
	first, late, after := entry(), entry(), entry()
	if err := store.Append(t.Context(), []ledger.Entry{first}); err != nil {
		t.Fatal(err)
	}
	commit := held(t, pool, late)
	if err := store.Append(t.Context(), []ledger.Entry{after}); err != nil {
		t.Fatal(err)
	}
	got := follow(t, store, ledger.Filter{}, &at, 10)
	if slices.Contains(got, after.ID) {
		t.Fatal("a row is shown that a late one could still come before")
	}
	commit()
	// Other tests' transactions on the same server may hold the feed back for a moment.
	for deadline := time.Now().Add(10 * time.Second); len(got) < 3 && time.Now().Before(deadline); {
		got = append(got, follow(t, store, ledger.Filter{}, &at, 10)...)
	}
	if want := []uuid.UUID{first.ID, late.ID, after.ID}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

// A reader sees an entry that was committed before, although an older transaction is in progress then: it waits for its
// end. Readers of another organization don't.
func TestFeedAwaitsTransactionsInProgress(t *testing.T) {
	pool := uncounted(t)
	store := NewLedger(pool)
	store.patience = time.Minute
	older, newer := entry(), entry()
	commit := held(t, pool, older)
	if err := store.Append(t.Context(), []ledger.Entry{newer}); err != nil {
		t.Fatal(err)
	}
	type page struct {
		records []ledger.Record
		err     error
	}
	read := make(chan page, 1)
	go func() {
		records, err := store.List(t.Context(), ledger.Filter{Organization: newer.Organization}, feed.Position{}, 10)
		read <- page{records, err}
	}()
	const waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '-- name: IsListed %'"
	for asked := 0; asked == 0 && len(read) == 0; {
		if err := pool.QueryRow(t.Context(), waits).Scan(&asked); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.List(t.Context(), ledger.Filter{Organization: "elsewhere"}, feed.Position{}, 10); err != nil || len(read) > 0 {
		t.Errorf("%v; %d readers end before the older transaction, want none", err, len(read))
	}
	commit()
	got := <-read
	if got.err != nil || len(got.records) != 2 {
		t.Errorf("read %d entries (%v), want both", len(got.records), got.err)
	}
}

// With writers that commit in any order, a reader sees each row once.
func TestFeedUnderWriters(t *testing.T) {
	pool := uncounted(t)
	store := NewLedger(pool)
	const writers, each = 4, 40
	var mu sync.Mutex
	written := make(map[uuid.UUID]bool)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				batch := []ledger.Entry{entry(), entry()}
				mu.Lock()
				written[batch[0].ID], written[batch[1].ID] = true, true
				mu.Unlock()
				if w == 0 && i%4 == 0 {
					commit := held(t, pool, batch[1])
					if err := store.Append(context.WithoutCancel(t.Context()), batch[:1]); err != nil {
						t.Error(err)
					}
					commit()
				} else if err := store.Append(context.WithoutCancel(t.Context()), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var at feed.Position
	seen := make(map[uuid.UUID]bool)
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	deadline := time.Now().Add(time.Minute)
	for len(seen) < 2*writers*each && time.Now().Before(deadline) {
		for _, id := range follow(t, store, ledger.Filter{}, &at, 7) {
			if seen[id] {
				t.Fatal("a row came twice")
			}
			seen[id] = true
		}
	}
	<-done
	for id := range written {
		if !seen[id] {
			t.Error("a row was skipped")
		}
	}
}

func TestFeedFilters(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewLedger(pool)
	e := entry()
	if err := store.Append(t.Context(), []ledger.Entry{e}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cases := map[string]struct {
		filter ledger.Filter
		want   int
	}{
		"all":                    {ledger.Filter{}, 1},
		"all that there are":     {ledger.Filter{Organization: e.Organization, Run: e.Run, Provider: e.Provider, Model: e.Model, Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}, 1},
		"another organization":   {ledger.Filter{Organization: "other"}, 0},
		"another run":            {ledger.Filter{Run: "other"}, 0},
		"the provider asked for": {ledger.Filter{Provider: e.RequestedProvider}, 0},
		"another model":          {ledger.Filter{Model: "other"}, 0},
		"later":                  {ledger.Filter{Since: now.Add(time.Hour)}, 0},
		"earlier":                {ledger.Filter{Until: now.Add(-time.Hour)}, 0},
	}
	// The row itself may wait for another test's transaction.
	for at := (feed.Position{}); len(follow(t, store, ledger.Filter{}, &at, 1)) == 0; {
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var at feed.Position
			if got := follow(t, store, c.filter, &at, 1); len(got) != c.want {
				t.Errorf("%d records, want %d", len(got), c.want)
			}
		})
	}
}

// Transactions are ordered by number, also across a change of the number of digits.
func TestFeedOrder(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewLedger(pool)
	var want []uuid.UUID
	for _, transaction := range []string{"8", "9", "10", "11", "99", "100"} {
		e := entry()
		want = append(want, e.ID)
		if err := store.Append(t.Context(), []ledger.Entry{e}); err != nil {
			t.Fatal(err)
		}
		testkit.Exec(t, pool, "UPDATE ledger_entry SET txid = $1::text::xid8 WHERE id = $2", transaction, e.ID)
	}
	var at feed.Position
	if got := follow(t, store, ledger.Filter{}, &at, 2); !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

// The feed is read along its index, whatever the size of the ledger.
func TestFeedUsesItsIndex(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"); err != nil {
		t.Fatal(err)
	}
	for organization, index := range map[string]string{"": "ledger_entry_feed", "acme": "ledger_entry_organization_feed"} {
		usesIndex(t, tx, index, `SELECT id FROM ledger_entry
			WHERE (txid, seq) > ('5'::xid8, 1) AND txid < pg_snapshot_xmin(pg_current_snapshot())
				AND ('`+organization+`'::text = '' OR organization_id = '`+organization+`')
			ORDER BY ledger_entry.txid, ledger_entry.seq LIMIT 50`)
	}
	usesIndex(t, tx, "ledger_entry_feed", `SELECT newest.txid
		FROM (SELECT txid, seq, organization_id FROM ledger_entry WHERE txid >= pg_snapshot_xmin(pg_current_snapshot())
			ORDER BY txid DESC, seq DESC LIMIT 1000) AS newest
		WHERE newest.organization_id = 'acme'
		ORDER BY newest.txid DESC, newest.seq DESC LIMIT 1`)
}

// usesIndex fails the test unless a query reads an index in its order.
func usesIndex(t *testing.T, tx pgx.Tx, index, query string) {
	t.Helper()
	rows, err := tx.Query(t.Context(), "EXPLAIN "+query)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	plan := strings.Join(lines, "\n")
	if err != nil || !strings.Contains(plan, "using "+index+" ") || strings.Contains(plan, "Sort") {
		t.Errorf("%s: %v\n%s", query, err, plan)
	}
}
