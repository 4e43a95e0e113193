package countfeed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// schema is the table that each service's migrations create.
const schema = `CREATE TABLE call_count (
    seq bigint GENERATED ALWAYS AS IDENTITY, txid xid8 NOT NULL DEFAULT pg_current_xact_id(), id uuid,
    organization_id text NOT NULL CHECK (organization_id <> ''), key_id text NOT NULL, metric text NOT NULL,
    minute timestamptz NOT NULL CHECK (date_trunc('minute', minute, 'UTC') = minute), user_id text NOT NULL,
    tags jsonb NOT NULL CHECK (jsonb_typeof(tags) = 'object'), calls bigint NOT NULL CHECK (calls > 0));
CREATE UNIQUE INDEX call_count_feed ON call_count (txid, seq);
CREATE UNIQUE INDEX call_count_id ON call_count (id) WHERE id IS NOT NULL;`

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testkit.Postgres(t, nil)
	if _, err := pool.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return pool
}

var at = time.Date(2026, 11, 30, 10, 20, 30, 40, time.UTC)

func count(key, user string, tags map[string]string) callcount.Count {
	return callcount.Count{ID: uuid.New(), Organization: "acme", Key: key, Metric: "events", User: user, Tags: tags, At: at}
}

func sum(key, user string, tags map[string]string, calls int64) countfeed.Sum {
	if tags == nil {
		tags = map[string]string{}
	}
	return countfeed.Sum{Organization: "acme", Key: key, Metric: "events", Minute: at.Truncate(time.Minute), User: user, Tags: tags, Calls: calls}
}

// list returns everything, page by page.
func list(t *testing.T, k *countfeed.Pager, size int) (sums []countfeed.Sum, cursor string) {
	t.Helper()
	for {
		page, next, err := k.List(t.Context(), cursor, size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Sums {
			page.Sums[i].Minute = page.Sums[i].Minute.UTC()
		}
		sums, cursor = append(sums, page.Sums...), next
		if len(page.Sums) < size {
			return sums, cursor
		}
	}
}

// Counts that are added together are summed up by what they have in common; a count that is recorded twice counts once.
func TestFeed(t *testing.T) {
	pool := open(t)
	store := countfeed.New(pool, nil)
	tags := map[string]string{"team": "web"}
	add := func(counts ...callcount.Count) {
		t.Helper()
		if err := pgdb.InTx(t.Context(), pool, func(tx pgx.Tx) error { return countfeed.Add(t.Context(), tx, counts) }); err != nil {
			t.Fatal(err)
		}
	}
	add()
	add(count("key_1", "", nil), count("key_1", "", nil), count("key_1", "ann", tags), count("key_1", "", nil))
	twice := count("key_2", "", tags)
	for range 2 {
		if err := store.Record(t.Context(), []callcount.Count{twice}); err != nil {
			t.Fatal(err)
		}
	}
	errGone := errors.New("rolled back")
	err := pgdb.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		return errors.Join(countfeed.Add(t.Context(), tx, []callcount.Count{count("key_3", "", nil)}), errGone)
	})
	if !errors.Is(err, errGone) {
		t.Fatal(err)
	}
	pager := countfeed.NewPager(store, testkit.Logger(t))
	for _, size := range []int{1, 2, 1000} {
		sums, cursor := list(t, pager, size)
		byUser := func(s countfeed.Sum) string { return s.Key + s.User }
		if len(sums) == 3 && byUser(sums[0]) > byUser(sums[1]) { // Rows of one statement have no order of their own.
			sums[0], sums[1] = sums[1], sums[0]
		}
		want := []countfeed.Sum{sum("key_1", "", nil, 3), sum("key_1", "ann", tags, 1), sum("key_2", "", tags, 1)}
		if diff := cmp.Diff(want, sums); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
		if more, next, err := pager.List(t.Context(), cursor, 0); len(more.Sums) != 0 || next != cursor || err != nil {
			t.Errorf("behind the end: %v, cursor %q (%v), want %q", more, next, err, cursor)
		}
	}
}

func TestCursors(t *testing.T) {
	pager := countfeed.NewPager(countfeed.New(open(t), nil), testkit.Logger(t))
	for _, cursor := range []string{"x", "1", "1-", "-1", "1-0", "1--1", "99999999999999999999-1", "1-1-1"} {
		_, _, err := pager.List(t.Context(), cursor, 1)
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindInvalid {
			t.Errorf("%q: %v, want it refused", cursor, err)
		}
	}
}

// A cursor of another server's transactions is refused: rows below it would be skipped.
func TestCursorOfAnotherServer(t *testing.T) {
	pager := countfeed.NewPager(countfeed.New(open(t), nil), testkit.Logger(t))
	if page, next, err := pager.List(t.Context(), "9000000000000000000-1", 1); err == nil {
		t.Errorf("listed %v up to %q", page, next)
	}
}

// Readers that keep their cursor get each count once, while transactions end in another order than they began in.
func TestReadersMissNothing(t *testing.T) {
	pool := open(t)
	pager := countfeed.NewPager(countfeed.New(pool, nil), testkit.Logger(t))
	ctx, cancel := context.WithCancel(t.Context())
	const writers, each = 4, 50
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				err := pgdb.InTx(ctx, pool, func(tx pgx.Tx) error {
					err := countfeed.Add(ctx, tx, []callcount.Count{count(fmt.Sprint("key_", w), "", nil)})
					if i%7 == w {
						_, err = tx.Exec(ctx, "SELECT pg_sleep(0.02)")
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var calls int64
	cursor := ""
	read := func() {
		page, next, err := pager.List(t.Context(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		cursor = next
		for _, s := range page.Sums {
			calls += s.Calls
		}
	}
	written := make(chan struct{})
	go func() { group.Wait(); close(written) }()
	for open := true; open; {
		read()
		select {
		case <-written:
			open = false
		default:
		}
	}
	cancel()
	for before := int64(-1); before != calls; {
		before = calls
		read()
	}
	if calls != writers*each {
		t.Errorf("read %d counts, want %d", calls, writers*each)
	}
}

// A page says that it lacks counts which a transaction in progress hides; they follow its cursor later.
func TestHiddenCounts(t *testing.T) {
	pool := open(t)
	pager := countfeed.NewPager(countfeed.New(pool, nil), testkit.Logger(t))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := countfeed.Add(t.Context(), tx, []callcount.Count{count("key_1", "", nil)}); err != nil {
		t.Fatal(err)
	}
	if err := countfeed.New(pool, nil).Record(t.Context(), []callcount.Count{count("key_2", "", nil)}); err != nil {
		t.Fatal(err)
	}
	page, cursor, err := pager.List(t.Context(), "", 10)
	if err != nil || !page.Incomplete || len(page.Sums) != 0 {
		t.Errorf("%+v (%v), want an empty page that says so", page, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if page, _, err = pager.List(t.Context(), cursor, 10); err != nil || page.Incomplete || len(page.Sums) != 2 {
		t.Errorf("%+v (%v), want both counts", page, err)
	}
}

// Only what has been read and is old is deleted.
func TestPurge(t *testing.T) {
	pool := open(t)
	store := countfeed.New(pool, nil)
	old, recent := count("key_1", "", nil), count("key_2", "", nil)
	recent.At = at.Add(time.Hour)
	for _, c := range []callcount.Count{old, recent, count("key_3", "", nil)} {
		if err := store.Record(t.Context(), []callcount.Count{c}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := store.List(t.Context(), feed.Position{}, 2)
	if err != nil || len(page.Sums) != 2 {
		t.Fatal(page, err)
	}
	if n, err := store.Purge(t.Context(), page.Next, at.Add(time.Minute), 10); n != 1 || err != nil {
		t.Errorf("purged %d (%v), want the old one that was read", n, err)
	}
	left, err := store.List(t.Context(), feed.Position{}, 10)
	if err != nil || len(left.Sums) != 2 || left.Sums[0].Key != "key_2" || left.Sums[1].Key != "key_3" {
		t.Errorf("left %v (%v), want the recent one and the one that was not read", left.Sums, err)
	}
}

// Counts that come at the same time share commits, and each caller waits for its own.
func TestRecorder(t *testing.T) {
	pool := open(t)
	store := countfeed.New(pool, nil)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	recorder := countfeed.NewRecorder(store)
	ctx, stop := context.WithCancel(t.Context())
	var running, callers sync.WaitGroup
	running.Go(func() { _ = recorder.Run(ctx) })
	for range 100 {
		callers.Go(func() {
			settled, err := recorder.Record(t.Context(), count("key_1", "", nil))
			if err != nil {
				t.Error(err)
				return
			}
			if err := settled(); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	var calls, commits int
	if err := pool.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT txid) FROM call_count").Scan(&calls, &commits); err != nil {
		t.Fatal(err)
	}
	if calls != 100 || commits > 50 {
		t.Errorf("%d counts in %d commits, want 100 in few", calls, commits)
	}
	bad := count("key_1", "", nil)
	bad.Organization = ""
	settled, err := recorder.Record(t.Context(), bad)
	if err == nil {
		err = settled()
	}
	if err == nil {
		t.Error("a count of no organization is recorded")
	}
	stop()
	running.Wait()
	if settled, err = recorder.Record(t.Context(), count("key_1", "", nil)); err == nil {
		err = settled()
	}
	if err == nil {
		t.Error("recorded after the end")
	}
}
