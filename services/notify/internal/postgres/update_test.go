package postgres_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/testkit"
)

// acceptedUpdate is an update of a notification of acme.
func acceptedUpdate(of uuid.UUID, works ...channel.Work) send.Accepted {
	return send.Accepted{
		ID: uuid.Must(uuid.NewV7()), Lifetime: time.Hour, Works: works,
		Request: send.Request{Message: channel.Message{Organization: "acme", Updates: of}},
	}
}

func update(t *testing.T, pool *pgxpool.Pool, of uuid.UUID, works ...channel.Work) uuid.UUID {
	t.Helper()
	receipt, err := postgres.NewOutbox(pool).Update(t.Context(), acceptedUpdate(of, works...))
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

// TestUpdateOfRecord checks that an in-app record changes in place, read or unread, with an event and without a change of
// the count; and that a deleted one stays deleted.
func TestUpdateOfRecord(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox, inboxes := postgres.NewOutbox(pool), postgres.NewInboxes(pool)
	at := inbox.Address{Organization: "acme", User: "ann"}
	a := accepted(t, at)
	a.Works[0].Record.Subject, a.Works[0].Record.URL = "Order", "/orders/7"
	a.Works[0].Record.Actions = []inbox.Action{{ID: "a", Label: "A"}, {ID: "b", Label: "B", Value: "v"}}
	if _, err := outbox.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	work := channel.Work{Channel: channel.InApp, ActionsShown: 1, Record: inbox.Draft{Message: "arrived", Actions: []inbox.Action{{ID: "c", Label: "C"}}}}
	receipt, err := outbox.Update(t.Context(), acceptedUpdate(a.ID, work))
	if err != nil || receipt.Number != 1 || receipt.Changed == nil || *receipt.Changed != at {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	page, err := inboxes.List(t.Context(), inbox.Query{Inbox: at, Limit: 5})
	if err != nil || len(page.Records) != 1 || page.Unread != 1 {
		t.Fatalf("page %+v, %v", page, err)
	}
	r := page.Records[0]
	want := inbox.Draft{Inbox: at, Subject: "Order", Message: "arrived", URL: "/orders/7", Actions: work.Record.Actions}
	if diff := cmp.Diff(want, r.Draft); diff != "" || r.ReadAt != nil || r.UpdatedAt == nil {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if _, _, err := inboxes.MarkRead(t.Context(), inbox.Target{ID: r.ID, Organization: "acme"}); err != nil {
		t.Fatal(err)
	}
	work.Record.Actions, work.Record.Subject = nil, "Closed"
	update(t, pool, a.ID, work)
	var kinds []string
	events, err := inboxes.Events(t.Context(), at, 0, 10)
	for _, e := range events {
		kinds = append(kinds, fmt.Sprint(e.Kind, " ", e.Unread, " ", e.Record.Subject, " ", len(e.Record.Actions), " ", e.Record.ReadAt != nil))
	}
	wantKinds := []string{"created 1 Closed 0 false", "updated 1 Closed 0 true", "read 0 Closed 0 true", "updated 0 Closed 0 true"}
	if diff := cmp.Diff(wantKinds, kinds); diff != "" || err != nil {
		t.Errorf("events (-want +got): %v\n%s", err, diff)
	}
	if err := inboxes.Delete(t.Context(), inbox.Target{ID: r.ID, Organization: "acme"}); err != nil {
		t.Fatal(err)
	}
	gone := update(t, pool, a.ID, work)
	checkRecordUpdates(t, outbox, a.ID, gone)
}

// checkRecordUpdates checks the log of three updates, the last of which found no record.
func checkRecordUpdates(t *testing.T, outbox *postgres.Outbox, id, gone uuid.UUID) {
	t.Helper()
	log, err := outbox.Log(t.Context(), send.LogQuery{ID: id, Organization: "acme", Limit: 10})
	if err != nil || len(log.Updates) != 3 {
		t.Fatalf("log %+v, %v", log, err)
	}
	for i, u := range log.Updates {
		c, last := u.Channels[0], i == 2
		if u.Number != i+1 || c.Replaced == last || (c.State == send.StateFailed) != last || (u.ID == gone) != last {
			t.Errorf("update %d: %+v", i+1, u)
		}
	}
	own, err := outbox.Log(t.Context(), send.LogQuery{ID: gone, Organization: "acme", Limit: 10})
	if err != nil || own.Of == nil || *own.Of != id || len(own.Attempts) != 1 || own.Attempts[0].Outcome != "gone" || own.Status() != send.StatusFailed {
		t.Errorf("log of the update %+v, %v", own, err)
	}
	failed, _, err := outbox.List(t.Context(), send.ListQuery{Organization: "acme", Statuses: []send.Status{send.StatusFailed}, Limit: 5})
	if err != nil || len(failed) != 1 || failed[0].ID != gone || failed[0].Of == nil {
		t.Errorf("failed sends %+v, %v", failed, err)
	}
}

// TestUpdatesInOrder checks that updates which many callers make at once have the numbers from 1, that all but the last
// end as superseded, and that their bound holds.
func TestUpdatesInOrder(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	first := enqueue(t, pool, time.Hour)
	work := channel.Work{Channel: channel.Email, Body: []byte("work"), Destination: "smtp://x"}
	var group errgroup.Group
	group.SetLimit(8)
	for range send.MaxUpdates {
		group.Go(func() error {
			_, err := outbox.Update(t.Context(), acceptedUpdate(first, work))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Update(t.Context(), acceptedUpdate(first, work)); !errors.Is(err, send.ErrTooManyUpdates) {
		t.Errorf("one more: %v", err)
	}
	log, err := outbox.Log(t.Context(), send.LogQuery{ID: first, Organization: "acme", Limit: 1})
	if err != nil || len(log.Updates) != send.MaxUpdates || log.Status() != send.StatusSuperseded {
		t.Fatalf("%d updates, status %s, %v", len(log.Updates), log.Status(), err)
	}
	for i, u := range log.Updates {
		c, last := u.Channels[0], i == send.MaxUpdates-1
		if u.Number != i+1 || (u.Status() == send.StatusPending) != last || !last && (c.State != send.StateSuperseded || c.Superseded != 1 || c.Failed != 0) {
			t.Errorf("update %d: %s, %+v", u.Number, u.Status(), c)
		}
	}
	taken, err := postgres.NewQueue(pool).Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: 10, Lease: time.Minute})
	if err != nil || len(taken) != 1 || taken[0].Notification != log.Updates[send.MaxUpdates-1].ID {
		t.Errorf("taken %+v, %v", taken, err)
	}
}

func TestUpdateIsOfItsOrganization(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	first := enqueue(t, pool, time.Hour)
	second := update(t, pool, first)
	other := acceptedUpdate(first)
	other.Message.Organization = "other"
	for name, a := range map[string]send.Accepted{
		"another organization": other, "an update": acceptedUpdate(second), "unknown": acceptedUpdate(uuid.New()),
	} {
		if _, err := outbox.Update(t.Context(), a); !errors.Is(err, send.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := outbox.Kept(t.Context(), a.Message.Organization, a.Message.Updates); !errors.Is(err, send.ErrNotFound) {
			t.Errorf("kept of %s: %v", name, err)
		}
	}
}

func register(t *testing.T, devices *postgres.Devices, organization string) {
	t.Helper()
	digest := sha256.Sum256([]byte(uuid.NewString()))
	_, _, err := devices.Register(t.Context(), push.Registration{
		Organization: organization, Origin: "https://push.example", Digest: digest[:], Sealed: []byte("sealed"), KeyID: "key",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUpdateOfBroadcast checks that the devices which an earlier broadcast has not reached get only the update, and that
// one which is being sent to gets it afterwards.
func TestUpdateOfBroadcast(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	devices, queue := postgres.NewDevices(pool), postgres.NewQueue(pool)
	const all, page = 5, 2
	for range all {
		register(t, devices, "acme")
	}
	work := channel.Work{Channel: channel.WebPush, Body: []byte("work"), Audience: &channel.Audience{Broadcast: true}}
	a := acceptedUpdate(uuid.Nil, work)
	if _, err := postgres.NewOutbox(pool).Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if found, err := devices.AddPage(t.Context(), page, 100); err != nil || !found {
		t.Fatal(found, err)
	}
	claim := dispatch.Claim{Channel: channel.WebPush, Count: 1, Lease: time.Minute}
	flying, err := queue.Take(t.Context(), claim)
	if err != nil || len(flying) != 1 {
		t.Fatal(flying, err)
	}
	second := update(t, pool, a.ID, work)
	for found := true; found; {
		if found, err = devices.AddPage(t.Context(), page, 100); err != nil {
			t.Fatal(err)
		}
	}
	claim.Count = 2 * all
	taken, err := queue.Take(t.Context(), claim)
	if err != nil || len(taken) != all-1 {
		t.Fatalf("%d are sent to beside the one, want %d: %v", len(taken), all-1, err)
	}
	for _, l := range taken {
		if l.Notification != second || l.Held || *l.Subscription == *flying[0].Subscription {
			t.Errorf("taken %+v", l)
		}
	}
	if _, err := queue.Settle(t.Context(), channel.WebPush, []dispatch.Result{{Leased: flying[0], Step: channel.Step{Delay: time.Second}, Attempts: 1}}); err != nil {
		t.Fatal(err)
	}
	rest, err := queue.Take(t.Context(), claim)
	if err != nil || len(rest) != 1 || rest[0].Notification != second || *rest[0].Subscription != *flying[0].Subscription {
		t.Errorf("taken %+v, %v", rest, err)
	}
	log, err := postgres.NewOutbox(pool).Log(t.Context(), send.LogQuery{ID: a.ID, Organization: "acme", Limit: 1})
	if c := log.Channels[0]; err != nil || c.State != send.StateSuperseded || c.Superseded != page || c.Targeted != page {
		t.Errorf("log of the first %+v, %v", c, err)
	}
}

// TestOldLogsGoWithTheirUpdates checks that a log stays while an update of it has not ended, and goes with its updates.
func TestOldLogsGoWithTheirUpdates(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	first := enqueue(t, pool, time.Hour)
	update(t, pool, first, channel.Work{Channel: channel.Email, Body: []byte("work"), Destination: "smtp://x"})
	testkit.Exec(t, pool, "UPDATE notification SET created_at = now() - interval '1 day'")
	purge := func() int {
		n, err := postgres.NewUpkeep(pool).DeleteLogs(t.Context(), time.Hour, 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := purge(); n != 0 {
		t.Errorf("%d logs went before their update had ended", n)
	}
	queue := postgres.NewQueue(pool)
	taken, err := queue.Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: 1, Lease: time.Minute})
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	if _, err := queue.Settle(t.Context(), channel.Email, []dispatch.Result{{Leased: taken[0], Step: channel.Step{Ended: true, Delivered: true}, Attempts: 1}}); err != nil {
		t.Fatal(err)
	}
	purge()
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM notification"); n != 0 {
		t.Errorf("%d logs are left", n)
	}
}
