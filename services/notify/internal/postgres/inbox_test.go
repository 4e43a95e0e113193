package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// accepted is a send of one in-app record.
func accepted(t *testing.T, at inbox.Address) send.Accepted {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	draft := inbox.Draft{Inbox: at, Message: "m"}
	return send.Accepted{
		Request: send.Request{Message: channel.Message{Organization: at.Organization, Text: "m"}},
		ID:      id, Works: []channel.Work{{Channel: channel.InApp, Record: draft}},
	}
}

// Whatever many callers do to inboxes at once, every page shows exactly as many
// unread records as the count that comes with it.
func TestUnreadCountIsExact(t *testing.T) {
	const workers, steps = 8, 60
	pool := testkit.Postgres(t, migrations.FS)
	inboxes := []inbox.Address{{Organization: "acme"}, {Organization: "acme", User: "ann"}, {Organization: "other", User: "ann"}}
	w := &walker{outbox: postgres.NewOutbox(pool), inboxes: postgres.NewInboxes(pool)}
	group, ctx := errgroup.WithContext(t.Context())
	for worker := range workers {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		group.Go(func() error {
			for range steps {
				if err := w.step(ctx, t, random, inboxes[random.IntN(len(inboxes))]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if w.stored.Load() == 0 || w.marked.Load() == 0 || w.deleted.Load() == 0 {
		t.Fatalf("the walk did too little: %d stored, %d marked, %d deleted", w.stored.Load(), w.marked.Load(), w.deleted.Load())
	}
	var rows int64
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM inbox_record").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if want := w.stored.Load() - w.deleted.Load(); rows != want {
		t.Errorf("%d records left, want %d", rows, want)
	}
	for _, at := range inboxes {
		checkPage(t.Context(), t, w.inboxes, at)
	}
}

// walker does random things to inboxes.
type walker struct {
	outbox                  *postgres.Outbox
	inboxes                 *postgres.Inboxes
	stored, marked, deleted atomic.Int64
}

func (w *walker) step(ctx context.Context, t *testing.T, random *rand.Rand, at inbox.Address) error {
	t.Helper()
	switch n := random.IntN(100); {
	case n < 40:
		w.stored.Add(1)
		_, err := w.outbox.Accept(ctx, accepted(t, at))
		return err
	case n < 45:
		marked, left, err := w.inboxes.MarkAllRead(ctx, at)
		w.marked.Add(int64(marked))
		if left != 0 {
			t.Errorf("%d unread after all were marked", left)
		}
		return err
	}
	page := checkPage(ctx, t, w.inboxes, at)
	if len(page) == 0 {
		return nil
	}
	target := inbox.Target{ID: page[random.IntN(len(page))].ID, Organization: at.Organization, User: at.User}
	var err error
	if random.IntN(3) == 0 {
		if err = w.inboxes.Delete(ctx, target); err == nil {
			w.deleted.Add(1)
		}
	} else {
		_, _, err = w.inboxes.MarkRead(ctx, target)
	}
	if errors.Is(err, inbox.ErrNotFound) {
		return nil // Another worker deleted it.
	}
	return err
}

// checkPage lists a whole inbox and holds the count against the records.
func checkPage(ctx context.Context, t *testing.T, inboxes *postgres.Inboxes, at inbox.Address) []inbox.Record {
	t.Helper()
	page, err := inboxes.List(ctx, inbox.Query{Inbox: at, Limit: 1000})
	if err != nil {
		t.Error(err)
		return nil
	}
	unread := 0
	for i, r := range page.Records {
		if r.ReadAt == nil {
			unread++
		}
		if i > 0 && (r.Seq >= page.Records[i-1].Seq || r.CreatedAt.After(page.Records[i-1].CreatedAt)) {
			t.Errorf("record %d of %v is out of order", i, at)
		}
	}
	if unread != page.Unread || page.More {
		t.Errorf("%v: the count is %d, the records say %d (more: %v)", at, page.Unread, unread, page.More)
	}
	return page.Records
}

// Marking one record many times at once takes one off the count.
func TestMarkReadCountsOnce(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	at := inbox.Address{Organization: "acme", User: "ann"}
	outbox, inboxes := postgres.NewOutbox(pool), postgres.NewInboxes(pool)
	for range 2 {
		if _, err := outbox.Accept(t.Context(), accepted(t, at)); err != nil {
			t.Fatal(err)
		}
	}
	target := inbox.Target{ID: checkPage(t.Context(), t, inboxes, at)[0].ID, Organization: "acme"}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, left, err := inboxes.MarkRead(t.Context(), target); err != nil || left != 1 {
				t.Errorf("left = %d, %v, want 1", left, err)
			}
		})
	}
	wg.Wait()
	if n, err := inboxes.Unread(t.Context(), at); err != nil || n != 1 {
		t.Errorf("unread = %d, %v, want 1", n, err)
	}
}

// A send that fails half-way leaves nothing, not even in the count.
func TestAcceptIsAllOrNothing(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	at := inbox.Address{Organization: "acme", User: "ann"}
	broken := accepted(t, at)
	broken.IdempotencyKey = "k"
	broken.Works[0].Record.Message = "" // The schema refuses it, last of all.
	if _, err := postgres.NewOutbox(pool).Accept(t.Context(), broken); err == nil {
		t.Fatal("a record without a message was stored")
	}
	for _, table := range []string{"notification", "idempotency_key", "channel_send", "attempt", "inbox_counter", "inbox_record"} {
		if n := testkit.Value[int](t, pool, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%s keeps %d rows", table, n)
		}
	}
}
