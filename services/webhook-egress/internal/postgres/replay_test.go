package postgres_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/replay"
)

// ended enqueues deliveries of an organization and ends them with a status.
func ended(t *testing.T, s *postgres.Store, organization string, n int, status delivery.Status, more func(int, *delivery.Draft)) []delivery.ID {
	t.Helper()
	drafts := make([]*delivery.Draft, n)
	ids := make([]delivery.ID, n)
	for i := range drafts {
		drafts[i] = draft(organization)
		if more != nil {
			more(i, drafts[i])
		}
		ids[i] = drafts[i].ID
	}
	stored := enqueue(t, s, leaseOf(1, true), drafts...)
	results := make([]dispatch.Result, n)
	for i, d := range drafts {
		results[i] = delivered(d.Job(leased(stored[i].Flow, 1)))
		results[i].Step.Status = status
		if status == delivery.StatusFailed {
			results[i].Step.Outcome, results[i].Step.Fault = delivery.OutcomeFailed, delivery.FaultServer
		}
	}
	settle(t, s, results...)
	return ids
}

// listed gives all pages of a list.
func listed(t *testing.T, s *postgres.Store, f delivery.Filter, limit int) (ids []delivery.ID) {
	t.Helper()
	for before := delivery.LastID; ; {
		page, next, err := s.List(t.Context(), f, before, limit)
		if err != nil || len(page) > limit {
			t.Fatalf("page of %d: %v", len(page), err)
		}
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if next == (delivery.ID{}) {
			return ids
		}
		before = next
	}
}

func TestReplay(t *testing.T) {
	s, pool := open(t)
	jobs := postgres.Replays{Store: s}
	since := time.Now().Add(-time.Minute)
	failed := ended(t, s, "acme", 450, delivery.StatusFailed, nil)
	ended(t, s, "acme", 3, delivery.StatusDelivered, nil)
	ended(t, s, "other", 3, delivery.StatusFailed, nil)
	ended(t, s, "acme", 2, delivery.StatusFailed, func(_ int, d *delivery.Draft) { d.EventType = "later" })
	filter := replay.Filter{CreatedFrom: since, EventType: "e"}
	if n, err := jobs.Count(t.Context(), "acme", "", filter); err != nil || n != len(failed) {
		t.Fatalf("count %d, %v", n, err)
	}
	d := replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Filter: filter, MaxAttempts: 9, Key: "k", Fingerprint: [32]byte{1}}
	created, repeat, err := jobs.Create(t.Context(), d)
	if err != nil || repeat {
		t.Fatalf("repeat %t, %v", repeat, err)
	}
	if created.Matched != len(failed) || created.Status != replay.StatusQueued {
		t.Fatalf("%s with %d matches, want queued with %d", created.Status, created.Matched, len(failed))
	}
	d.ID = delivery.NewID(time.Now())
	first, repeat, err := jobs.Create(t.Context(), d)
	if err != nil || !repeat {
		t.Errorf("the key again: repeat %t, %v", repeat, err)
	}
	if first.ID != created.ID {
		t.Errorf("the key again: job %s, want %s", first.ID, created.ID)
	}
	d.Fingerprint = [32]byte{2}
	if first, _, err := jobs.Create(t.Context(), d); !errors.Is(err, delivery.ErrKeyReused) {
		t.Errorf("the key for another: %+v, %v", first, err)
	}
	d.Owner = "ann"
	if own, repeat, err := jobs.Create(t.Context(), d); err != nil || repeat || own.ID != d.ID || own.Matched != 0 {
		t.Errorf("another owner with the key: %+v, repeat %t, %v", own, repeat, err)
	}
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: failed[449]}); err != nil {
		t.Fatal(err) // in flight again before its turn
	}
	ended(t, s, "acme", 2, delivery.StatusFailed, nil) // after the job was created
	pages := 0
	for ; ; pages++ {
		done, err := jobs.Page(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !done.Found {
			break
		}
	}
	got, err := jobs.Get(t.Context(), "acme", "", created.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := got
	want.Status, want.Replayed, want.Skipped = replay.StatusCompleted, 449, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if got.Finished.IsZero() {
		t.Error("the job has no time of its end")
	}
	if pages < 3 {
		t.Errorf("done in %d pages, want 3 or more", pages)
	}
	if diff := cmp.Diff(filter, got.Filter, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries WHERE status = 'queued' AND generation = 2 AND max_attempts = 9"); n != 449 {
		t.Errorf("%d resent", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries WHERE generation > 2"); n != 0 {
		t.Errorf("%d resent twice", n)
	}
}

func TestReplayOfListed(t *testing.T) {
	s, _ := open(t)
	jobs := postgres.Replays{Store: s}
	ids := ended(t, s, "acme", 3, delivery.StatusDelivered, nil)
	stranger := ended(t, s, "other", 1, delivery.StatusDelivered, nil)
	filter := replay.Filter{
		DeliveryIDs: []string{ids[2].String(), ids[0].String(), stranger[0].String()}, Statuses: []delivery.Status{delivery.StatusDelivered},
	}
	created, _, err := jobs.Create(t.Context(), replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Filter: filter})
	if err != nil || created.Matched != 2 {
		t.Fatalf("%+v, %v", created, err)
	}
	workOff(t, jobs)
	statusIs(t, s, "acme", ids[0], delivery.StatusQueued)
	statusIs(t, s, "acme", ids[1], delivery.StatusDelivered)
	statusIs(t, s, "acme", ids[2], delivery.StatusQueued)
	statusIs(t, s, "other", stranger[0], delivery.StatusDelivered)
}

// A job of an owner resends that owner's deliveries, and is listed for that owner.
func TestReplayOfAnOwner(t *testing.T) {
	s, _ := open(t)
	jobs := postgres.Replays{Store: s}
	owned := ended(t, s, "acme", 3, delivery.StatusFailed, func(i int, d *delivery.Draft) { d.Owner = []string{"ann", "bob", ""}[i] })
	since := replay.Filter{CreatedFrom: time.Now().Add(-time.Hour)}
	for _, filter := range []replay.Filter{since, {DeliveryIDs: []string{owned[0].String(), owned[1].String(), owned[2].String()}}} {
		if n, err := jobs.Count(t.Context(), "acme", "bob", filter); err != nil || n != 1 {
			t.Errorf("counted %d for an owner, %v", n, err)
		}
	}
	created, _, err := jobs.Create(t.Context(), replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Owner: "ann", Filter: since})
	if err != nil || created.Matched != 1 {
		t.Fatalf("%+v, %v", created, err)
	}
	workOff(t, jobs)
	for i, want := range []delivery.Status{delivery.StatusQueued, delivery.StatusFailed, delivery.StatusFailed} {
		statusIs(t, s, "acme", owned[i], want)
	}
	for owner, want := range map[string]int{"ann": 1, "bob": 0, "": 1} {
		if page, err := jobs.List(t.Context(), "acme", owner, delivery.LastID, 10); err != nil || len(page) != want {
			t.Errorf("%q: %+v, %v", owner, page, err)
		}
	}
}

// What ended after a job was created did not match then: it is not resent.
func TestReplayLeavesWhatEndedLater(t *testing.T) {
	s, pool := open(t)
	jobs := postgres.Replays{Store: s}
	ids := ended(t, s, "acme", 2, delivery.StatusFailed, nil)
	if _, _, err := jobs.Create(t.Context(), replay.Draft{
		ID: delivery.NewID(time.Now()), Organization: "acme", Filter: replay.Filter{CreatedFrom: time.Now().Add(-time.Hour)},
	}); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, pool, "UPDATE deliveries SET finished_at = now() + interval '1 second' WHERE id = $1", ids[1].String())
	workOff(t, jobs)
	statusIs(t, s, "acme", ids[0], delivery.StatusQueued)
	statusIs(t, s, "acme", ids[1], delivery.StatusFailed)
}

func workOff(t *testing.T, jobs postgres.Replays) {
	t.Helper()
	for {
		done, err := jobs.Page(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !done.Found {
			return
		}
	}
}

func TestReplayEnds(t *testing.T) {
	s, pool := open(t)
	jobs := postgres.Replays{Store: s}
	ended(t, s, "acme", 5, delivery.StatusFailed, nil)
	make := func(change func(*replay.Draft)) replay.Replay {
		d := replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Owner: "", Filter: replay.Filter{CreatedFrom: time.Now().Add(-time.Hour)}}
		change(&d)
		created, _, err := jobs.Create(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	late := make(func(d *replay.Draft) { d.Deadline = time.Now().Add(time.Minute) })
	testkit.Exec(t, pool, "UPDATE replays SET deadline_at = now() - interval '1 second'")
	workOff(t, jobs)
	if got, _ := jobs.Get(t.Context(), "acme", "", late.ID); got.Status != replay.StatusFailed || got.Error != replay.ErrorDeadline || got.Replayed != 0 {
		t.Errorf("late: %+v", got)
	}
	slow := make(func(d *replay.Draft) { d.RatePerSecond = 2 })
	workOff(t, jobs)
	got, _ := jobs.Get(t.Context(), "acme", "", slow.ID)
	if got.Status != replay.StatusRunning || got.Replayed != 1 {
		t.Errorf("slow: %+v", got)
	}
	for range 2 {
		if err := jobs.Cancel(t.Context(), slow.ID); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Exec(t, pool, "UPDATE replays SET due_at = now()")
	workOff(t, jobs)
	if got, _ := jobs.Get(t.Context(), "acme", "", slow.ID); got.Status != replay.StatusCancelled || got.Replayed != 1 {
		t.Errorf("cancelled: %+v", got)
	}
	if _, err := jobs.Get(t.Context(), "other", "", slow.ID); statusOf(err) != http.StatusNotFound {
		t.Errorf("another organization: %v", err)
	}
	if page, err := jobs.List(t.Context(), "acme", "", delivery.LastID, 10); err != nil || len(page) != 2 || page[0].ID != slow.ID {
		t.Errorf("list %+v, %v", page, err)
	}
}

// A job whose filter can't be read fails: it would keep the others for ever.
func TestReplayOfAnUnreadableFilter(t *testing.T) {
	s, pool := open(t)
	jobs := postgres.Replays{Store: s}
	ended(t, s, "acme", 1, delivery.StatusFailed, nil)
	d := replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Filter: replay.Filter{CreatedFrom: time.Now().Add(-time.Hour)}}
	if _, _, err := jobs.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, pool, "UPDATE replays SET filter = '[1]'")
	done, err := jobs.Page(t.Context())
	if !errors.Is(err, delivery.ErrRejected) {
		t.Errorf("error %v, want ErrRejected", err)
	}
	if done.Job != d.ID {
		t.Errorf("the failed job is %s, want %s", done.Job, d.ID)
	}
}

// A replica that dies in a page has done none of it.
func TestReplayAfterAKill(t *testing.T) {
	s, pool := open(t)
	jobs := postgres.Replays{Store: s}
	ids := ended(t, s, "acme", 300, delivery.StatusFailed, nil)
	created, _, err := jobs.Create(t.Context(), replay.Draft{
		ID: delivery.NewID(time.Now()), Organization: "acme", Filter: replay.Filter{CreatedFrom: time.Now().Add(-time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for killed := range 3 {
		block(t, pool, func() {
			if _, err := jobs.Page(t.Context()); err == nil {
				t.Errorf("page %d was not cut", killed)
			}
		})
		if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries WHERE generation > 1"); n != 0 {
			t.Fatalf("%d resent by a page that was cut", n)
		}
	}
	workOff(t, jobs)
	got, err := jobs.Get(t.Context(), "acme", "", created.ID)
	if err != nil || got.Replayed != len(ids) || testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries WHERE generation = 2") != len(ids) {
		t.Errorf("%+v, %v", got, err)
	}
}

// block holds the last statement of a page until the page's connection is
// terminated, as a kill -9 of its replica would.
func block(t *testing.T, pool *pgxpool.Pool, page func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE delivery_queue IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); page() }()
	for killed := 0; killed == 0; {
		killed = testkit.Value[int](t, pool, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND application_name = $1 AND query LIKE '%Requeue%') AS killed`, fmt.Sprint(t.Name()))
	}
	<-done
}
