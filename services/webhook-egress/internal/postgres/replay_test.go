package postgres_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/apierr"
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
		results[i] = delivered(d.Job(stored[i].Flow.ID, 1))
		results[i].Step.Status = status
		if status == delivery.StatusFailed {
			results[i].Step.Outcome, results[i].Step.Fault = delivery.OutcomeFailed, delivery.FaultServer
		}
	}
	settle(t, s, results...)
	return ids
}

func TestResend(t *testing.T) {
	s, pool := open(t)
	id := ended(t, s, "acme", 1, delivery.StatusFailed, nil)[0]
	testkit.Exec(t, pool, "DELETE FROM flow") // it had been idle for long
	deadline := time.Now().Add(time.Hour)
	ask := delivery.Resend{Organization: "acme", ID: id, MaxAttempts: 7, Deadline: deadline, Key: "k", Fingerprint: [32]byte{1}}
	if resent, err := s.Resend(t.Context(), ask); err != nil || resent.Deduplicated {
		t.Fatalf("%+v, %v", resent, err)
	}
	record := statusIs(t, s, "acme", id, delivery.StatusQueued)
	want := record
	want.Generation, want.Attempts, want.MaxAttempts, want.LastError, want.Finished = 2, 0, 7, "", time.Time{}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if record.Deadline.Sub(deadline).Abs() > time.Millisecond {
		t.Errorf("deadline %s, want %s", record.Deadline, deadline)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	if again, err := s.Resend(t.Context(), ask); err != nil || !again.Deduplicated {
		t.Errorf("repeat: %+v, %v", again, err)
	}
	ask.Fingerprint = [32]byte{2}
	if _, err := s.Resend(t.Context(), ask); apierr.From(err).Reason != delivery.ReasonKeyReused {
		t.Errorf("the key for another: %v", err)
	}
	ask.Key = ""
	if _, err := s.Resend(t.Context(), ask); apierr.From(err).Reason != delivery.ReasonInFlight {
		t.Errorf("in flight: %v", err)
	}
	// A result of the series before fits no more.
	old := delivered(draft("acme").Job(1, 1))
	old.Job.ID, old.Job.LeaseSeq = id, 1
	if held := settle(t, s, old); held[0] {
		t.Error("a result of the first series was counted in the second")
	}
	jobs := claim(t, s, 2, 8).Jobs
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	if job := jobs[0]; job.Generation != 2 || job.Attempts != 0 {
		t.Fatalf("generation %d after %d attempts, want 2 after 0", job.Generation, job.Attempts)
	}
	if seq := jobs[0].LeaseSeq; seq <= 1 {
		t.Fatalf("lease %d, want a later one than the first", seq)
	}
	settle(t, s, delivered(jobs[0]))
	statusIs(t, s, "acme", id, delivery.StatusDelivered)
	if made, _, err := s.Attempts(t.Context(), id, 0, 10); err != nil || len(made) != 2 {
		t.Errorf("attempts %+v, %v", made, err)
	}
}

func TestCancel(t *testing.T) {
	s, _ := open(t)
	waiting, running := draft("acme"), draft("acme")
	flow := enqueue(t, s, leaseOf(1, false), waiting)[0].Flow
	enqueue(t, s, leaseOf(1, true), running)
	for _, d := range []*delivery.Draft{waiting, running} {
		for i, want := range []bool{true, false} {
			if got, err := s.Cancel(t.Context(), d.ID); err != nil || got != want {
				t.Errorf("cancel %d: %t, %v", i, got, err)
			}
		}
		statusIs(t, s, "acme", d.ID, delivery.StatusCancelled)
	}
	if held := settle(t, s, delivered(running.Job(flow.ID, 1))); held[0] {
		t.Error("a cancelled delivery was settled")
	}
	statusIs(t, s, "acme", running.ID, delivery.StatusCancelled)
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: running.ID}); err != nil {
		t.Errorf("resend of a cancelled one: %v", err)
	}
}

// What a lease brings that was cancelled is not the next series'.
func TestResendOfACancelledLease(t *testing.T) {
	s, _ := open(t)
	d := draft("acme")
	flow := enqueue(t, s, leaseOf(1, true), d)[0].Flow
	if cancelled, err := s.Cancel(t.Context(), d.ID); err != nil || !cancelled {
		t.Fatalf("%t, %v", cancelled, err)
	}
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: d.ID}); err != nil {
		t.Fatal(err)
	}
	if held := settle(t, s, delivered(d.Job(flow.ID, 1))); held[0] {
		t.Error("a result from before the cancellation was counted after the resend")
	}
	statusIs(t, s, "acme", d.ID, delivery.StatusQueued)
}

// A release before 00002 ended deliveries without noting their fence.
func TestResendOfTheReleaseBefore(t *testing.T) {
	s, pool := open(t)
	id := ended(t, s, "acme", 1, delivery.StatusFailed, nil)[0]
	testkit.Exec(t, pool, "UPDATE deliveries SET lease_seq = 0")
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: id}); err != nil {
		t.Fatal(err)
	}
	old := delivered(draft("acme").Job(1, 1))
	old.Job.ID = id
	if held := settle(t, s, old); held[0] {
		t.Error("a result of the first series was counted in the second")
	}
}

func TestListDeliveries(t *testing.T) {
	s, _ := open(t)
	begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	all := ended(t, s, "acme", 6, delivery.StatusFailed, func(i int, d *delivery.Draft) {
		d.ID = delivery.NewID(at(i))
		if i%2 == 1 {
			d.Owner, d.EventType = "ann", "odd"
			d.URL, d.Target.Host, d.Target.Port = "https://odd.example:8443/x", "odd.example", 8443
		}
	})
	fresh := draft("acme")
	enqueue(t, s, leaseOf(1, true), fresh)
	all = append(all, fresh.ID)
	enqueue(t, s, leaseOf(1, false), draft("other"))
	for name, tt := range map[string]struct {
		filter delivery.Filter
		want   []int
	}{
		"all":               {delivery.Filter{}, []int{6, 5, 4, 3, 2, 1, 0}},
		"dead letters":      {delivery.Filter{Statuses: []delivery.Status{delivery.StatusFailed}}, []int{5, 4, 3, 2, 1, 0}},
		"delivering":        {delivery.Filter{Statuses: []delivery.Status{delivery.StatusDelivering}}, []int{6}},
		"two statuses":      {delivery.Filter{Statuses: []delivery.Status{delivery.StatusDelivering, delivery.StatusFailed}, EventType: "e"}, []int{6, 4, 2, 0}},
		"an owner":          {delivery.Filter{Owner: "ann"}, []int{5, 3, 1}},
		"a type":            {delivery.Filter{EventType: "odd"}, []int{5, 3, 1}},
		"a host":            {delivery.Filter{Host: "ODD.example"}, []int{5, 3, 1}},
		"a host and port":   {delivery.Filter{Host: "odd.example:8443"}, []int{5, 3, 1}},
		"its default port":  {delivery.Filter{Host: "example.com:443"}, []int{6, 4, 2, 0}},
		"another port":      {delivery.Filter{Host: "odd.example:443"}, nil},
		"no part of a host": {delivery.Filter{Host: "d.example"}, nil},
		"no pattern":        {delivery.Filter{Host: "odd?example"}, nil},
		"from":              {delivery.Filter{CreatedFrom: at(3)}, []int{6, 5, 4, 3}},
		"to":                {delivery.Filter{CreatedTo: at(3)}, []int{2, 1, 0}},
		"from and to":       {delivery.Filter{CreatedFrom: at(1), CreatedTo: at(2)}, []int{1}},
		"no endpoint":       {delivery.Filter{EndpointID: all[0].String()}, nil},
		"no event":          {delivery.Filter{EventID: all[0].String()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.filter.Organization = "acme"
			var want []delivery.ID
			for _, i := range tt.want {
				want = append(want, all[i])
			}
			for _, limit := range []int{1, 2, 3, 50} {
				if diff := cmp.Diff(want, listed(t, s, tt.filter, limit)); diff != "" {
					t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
				}
			}
		})
	}
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

// A filter that lets little through looks at no more than so many deliveries.
func TestListIsBounded(t *testing.T) {
	s, pool := open(t)
	d := draft("acme")
	enqueue(t, s, leaseOf(1, false), d)
	testkit.Exec(t, pool, `INSERT INTO deliveries (id, created_at, organization_id, flow_id, url, event_type, signing_mode, status, max_attempts, updated_at)
		SELECT (substr(replace(id::text, '-', ''), 1, 12) || '7fff' || '8' || lpad(to_hex(n), 15, '0'))::uuid, created_at, organization_id, flow_id, url, 'other', signing_mode, 'queued', 3, now()
		FROM deliveries, generate_series(1, 12000) n`)
	first, next, err := s.List(t.Context(), delivery.Filter{Organization: "acme", EventType: "e"}, delivery.LastID, 10)
	if err != nil || len(first) != 0 || next == (delivery.ID{}) {
		t.Fatalf("%d found, next %s, %v", len(first), next, err)
	}
	if got := listed(t, s, delivery.Filter{Organization: "acme", EventType: "e"}, 10); len(got) != 1 || got[0] != d.ID {
		t.Errorf("found %v", got)
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
	created, repeat, _, err := jobs.Create(t.Context(), d)
	if err != nil || repeat {
		t.Fatalf("repeat %t, %v", repeat, err)
	}
	if created.Matched != len(failed) || created.Status != replay.StatusQueued {
		t.Fatalf("%s with %d matches, want queued with %d", created.Status, created.Matched, len(failed))
	}
	d.ID = delivery.NewID(time.Now())
	first, repeat, mismatch, err := jobs.Create(t.Context(), d)
	if err != nil || !repeat || mismatch {
		t.Errorf("the key again: repeat %t, mismatch %t, %v", repeat, mismatch, err)
	}
	if first.ID != created.ID {
		t.Errorf("the key again: job %s, want %s", first.ID, created.ID)
	}
	d.Owner, d.Fingerprint = "ann", [32]byte{2}
	if first, _, _, err := jobs.Create(t.Context(), d); apierr.From(err).Reason != delivery.ReasonKeyReused || first.ID == created.ID {
		t.Errorf("another owner is told of the job: %+v, %v", first, err)
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
	created, _, _, err := jobs.Create(t.Context(), replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Filter: filter})
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
	created, _, _, err := jobs.Create(t.Context(), replay.Draft{ID: delivery.NewID(time.Now()), Organization: "acme", Owner: "ann", Filter: since})
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
	if _, _, _, err := jobs.Create(t.Context(), replay.Draft{
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
		created, _, _, err := jobs.Create(t.Context(), d)
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
	if _, _, _, err := jobs.Create(t.Context(), d); err != nil {
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
	created, _, _, err := jobs.Create(t.Context(), replay.Draft{
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
