package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/testkit"
)

var errNotYet = errors.New("not all charges are shown yet")

// allCharges reads the charges of a filter from a position to the present end.
func allCharges(t *testing.T, store *Ledger, f ledger.Filter, at *feed.Position, limit int) (all []ledger.Charge) {
	t.Helper()
	for {
		page, err := store.Charges(t.Context(), f, *at, limit)
		if err != nil {
			t.Fatal(err)
		}
		all, *at = append(all, page.Charges...), page.Next
		if len(page.Charges) < limit {
			return all
		}
	}
}

// A charge agrees with its record. The test fails if the query leaves out a bucket of tokens.
func TestChargesAreThoseOfTheRecords(t *testing.T) {
	store := NewLedger(testkit.Postgres(t, migrations.FS))
	e := entry()
	for i, b := range provider.Buckets() {
		*b.Of(&e.Usage) = 1 << i
	}
	without := entry()
	without.Key = ""
	if err := store.Append(t.Context(), []ledger.Entry{e, without}); err != nil {
		t.Fatal(err)
	}
	var got []ledger.Charge
	var at feed.Position
	testkit.Wait(t, "the feed shows both", func() error { // Transactions of other tests delay them.
		if got = append(got, allCharges(t, store, ledger.Filter{}, &at, 1)...); len(got) < 2 {
			return errNotYet
		}
		return nil
	})
	records, err := store.List(t.Context(), ledger.Filter{}, feed.Position{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]ledger.Charge, len(records))
	for i, r := range records {
		want[i] = ledger.Charge{
			ID: r.ID, Organization: r.Organization, Key: r.Key, Prompt: r.Usage.Prompt(), Completion: r.Usage.Completion(), Cost: r.Cost,
			StartedAt: r.StartedAt, RecordedAt: r.RecordedAt, Position: r.Position,
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("charges (-records +charges):\n%s", diff)
	}
	if last := got[len(got)-1].Position; at.Compare(last) <= 0 {
		t.Errorf("the feed ends at %v, want a position behind the last charge at %v", at, last)
	}
}

// A reader that follows from a position behind the last charge, as the feed returns it, misses nothing: not even an older
// transaction's rows that are committed later.
func TestChargesBehindTheEnd(t *testing.T) {
	pool := uncounted(t)
	store := NewLedger(pool)
	older, newer := entry(), entry()
	commit := held(t, pool, older)
	var at feed.Position
	if page := allCharges(t, store, ledger.Filter{}, &at, 10); len(page) != 0 {
		t.Fatalf("%d charges of an open transaction", len(page))
	}
	if err := store.Append(t.Context(), []ledger.Entry{newer}); err != nil {
		t.Fatal(err)
	}
	if hidden := allCharges(t, store, ledger.Filter{}, &at, 10); len(hidden) != 0 {
		t.Fatalf("%d charges before those of an older transaction", len(hidden))
	}
	commit()
	var ids []uuid.UUID
	testkit.Wait(t, "the feed shows both", func() error {
		for _, c := range allCharges(t, store, ledger.Filter{}, &at, 10) {
			ids = append(ids, c.ID)
		}
		if len(ids) < 2 {
			return errNotYet
		}
		return nil
	})
	if diff := cmp.Diff([]uuid.UUID{older.ID, newer.ID}, ids); diff != "" {
		t.Errorf("charges (-want +got):\n%s", diff)
	}
}

// everyTenMinutes returns a ledger in which an entry was recorded every ten minutes, the last one a minute before now.
func everyTenMinutes(t *testing.T, entries int) (store *Ledger, now time.Time) {
	t.Helper()
	pool := testkit.Postgres(t, migrations.FS)
	store = NewLedger(pool)
	for range entries {
		if err := store.Append(t.Context(), []ledger.Entry{entry()}); err != nil {
			t.Fatal(err)
		}
	}
	now = time.Now().UTC().Truncate(time.Second)
	if _, err := pool.Exec(t.Context(), `UPDATE ledger_entry AS l SET recorded_at = $1::timestamptz - interval '1 minute' - (p.place - 1) * interval '10 minutes'
		FROM (SELECT id, row_number() OVER (ORDER BY txid DESC, seq DESC) AS place FROM ledger_entry) AS p WHERE l.id = p.id`, now); err != nil {
		t.Fatal(err)
	}
	testkit.Wait(t, "the feed shows all", func() error { // Transactions of other tests delay them.
		var at feed.Position
		if len(allCharges(t, store, ledger.Filter{}, &at, 100)) < entries {
			return errNotYet
		}
		return nil
	})
	return store, now
}

// A list with an end returns every entry recorded before it, and reads no newer ones.
func TestFeedsEndAtATime(t *testing.T) {
	const entries = 40
	store, now := everyTenMinutes(t, entries)
	for name, tt := range map[string]struct {
		until time.Duration // before now
		want  int
		most  int // entries that are looked at
	}{
		"the whole":         {30 * time.Second, entries, entries},
		"without the last":  {5 * time.Minute, entries - 1, entries},
		"half":              {20 * 10 * time.Minute, 20, 26},
		"the first":         {(entries - 1) * 10 * time.Minute, 1, 7},
		"a time to come":    {-24 * time.Hour, entries, entries},
		"before the ledger": {24 * 365 * time.Hour, 0, 0},
	} {
		f := ledger.Filter{Until: now.Add(-tt.until)}
		if got := allCharges(t, store, f, &feed.Position{}, 7); len(got) != tt.want {
			t.Errorf("%s: %d charges, want %d", name, len(got), tt.want)
		}
		if got := follow(t, store, f, &feed.Position{}, 7); len(got) != tt.want {
			t.Errorf("%s: %d records, want %d", name, len(got), tt.want)
		}
		end, err := store.endTransaction(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		looked := testkit.Value[int](t, store.pool, "SELECT count(*) FROM ledger_entry WHERE txid < $1::text::xid8", end)
		if looked > tt.most {
			t.Errorf("%s: %d entries are looked at, want at most %d", name, looked, tt.most)
		}
	}
}

// A list with a beginning returns every entry recorded since then, and reads no older ones.
func TestFeedsBeginAtATime(t *testing.T) {
	const entries = 40
	store, now := everyTenMinutes(t, entries)
	for name, tt := range map[string]struct {
		since time.Duration // before now
		want  int
		most  int // entries that are looked at
	}{
		"the whole":         {entries * 10 * time.Minute, entries, entries},
		"half":              {20 * 10 * time.Minute, 20, 28},
		"the last":          {5 * time.Minute, 1, 9},
		"none":              {30 * time.Second, 0, 9},
		"a time to come":    {-24 * time.Hour, 0, 1},
		"before the ledger": {24 * 365 * time.Hour, entries, entries},
	} {
		f := ledger.Filter{Since: now.Add(-tt.since)}
		var at feed.Position
		if got := allCharges(t, store, f, &at, 7); len(got) != tt.want {
			t.Errorf("%s: %d charges, want %d", name, len(got), tt.want)
		}
		if got := follow(t, store, f, &feed.Position{}, 7); len(got) != tt.want {
			t.Errorf("%s: %d records, want %d", name, len(got), tt.want)
		}
		begin, err := store.start(t.Context(), f, feed.Position{})
		if err != nil {
			t.Fatal(err)
		}
		if looked := allCharges(t, store, ledger.Filter{}, &begin, 100); len(looked) > tt.most {
			t.Errorf("%s: %d entries are looked at, want at most %d", name, len(looked), tt.most)
		}
	}
}

// A database that was restored from a backup has not reached the reader's position: skipping what it records until then
// would lose charges.
func TestChargesAheadOfTheDatabase(t *testing.T) {
	store := NewLedger(testkit.Postgres(t, migrations.FS))
	if _, err := store.Charges(t.Context(), ledger.Filter{}, feed.Position{Transaction: 1 << 40, Row: 1}, 10); err == nil {
		t.Error("a position ahead of the database is read from")
	}
}
