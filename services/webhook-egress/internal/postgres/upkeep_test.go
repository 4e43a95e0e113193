package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
	"switchyard.dev/services/webhook-egress/migrations"
)

// aged is a draft of so many days ago, for which there are partitions.
func aged(t *testing.T, pool *pgxpool.Pool, days int) *delivery.Draft {
	t.Helper()
	d := draft("acme")
	then := time.Now().AddDate(0, 0, -days)
	testkit.Exec(t, pool, "SELECT ensure_partitions($1::date, 1)", then.UTC().Format(time.DateOnly))
	d.ID = delivery.NewID(then)
	return d
}

// finish delivers everything that waits.
func finish(t *testing.T, s *postgres.Store) {
	t.Helper()
	for {
		jobs := claim(t, s, 1, 100).Jobs
		if len(jobs) == 0 {
			return
		}
		for _, job := range jobs {
			settle(t, s, delivered(job))
		}
	}
}

const month = 30 * 24 * time.Hour

func drop(t *testing.T, s *postgres.Store) (days []string) {
	t.Helper()
	for {
		day, err := s.DropOldestDay(t.Context(), month)
		if err != nil {
			t.Fatal(err)
		}
		if day.IsZero() {
			return days
		}
		days = append(days, day.Format(time.DateOnly))
	}
}

func dayOf(d *delivery.Draft) string { return d.ID.Time().Format(time.DateOnly) }

// Days past the retention go, with all that belongs to them; one on which a
// delivery is still queued stays until that has ended.
func TestRetention(t *testing.T) {
	s, pool := open(t)
	oldest, waiting, young := aged(t, pool, 50), aged(t, pool, 40), aged(t, pool, 20)
	enqueue(t, s, leaseOf(1, false), oldest, young)
	finish(t, s)
	enqueue(t, s, leaseOf(1, false), waiting)
	if diff := cmp.Diff([]string{dayOf(oldest)}, drop(t, s)); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		d     *delivery.Draft
		found bool
	}{{oldest, false}, {waiting, true}, {young, true}} {
		_, err := s.Get(t.Context(), "acme", "", tt.d.ID, true)
		if tt.found {
			if err != nil {
				t.Errorf("%s: %v", dayOf(tt.d), err)
			}
		} else if apierr.From(err).Kind != apierr.KindNotFound {
			t.Errorf("%s: %v, want not found", dayOf(tt.d), err)
		}
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname LIKE '%' || $1",
		oldest.ID.Time().Format("20060102")); n != 0 {
		t.Errorf("%d tables left of a dropped day", n)
	}
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	finish(t, s)
	if diff := cmp.Diff([]string{dayOf(waiting)}, drop(t, s)); diff != "" {
		t.Errorf("dropped later (-want +got):\n%s", diff)
	}
}

// A drop that would have to wait gives way, so that no other transaction waits
// behind it for longer than its lock timeout.
func TestRetentionGivesWay(t *testing.T) {
	s, pool := open(t)
	aged(t, pool, 50)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM deliveries"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.DropOldestDay(context.WithoutCancel(t.Context()), month)
		done <- err
	}()
	if err := <-done; !errors.Is(err, upkeep.ErrBusy) {
		t.Errorf("err = %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if days := drop(t, s); len(days) != 1 {
		t.Errorf("dropped %v", days)
	}
}

// A row whose delivery was dropped by hand is not leased for ever.
func TestRowWithoutADelivery(t *testing.T) {
	s, pool := open(t)
	lost, other := aged(t, pool, 3), draft("acme")
	enqueue(t, s, leaseOf(1, false), lost, other)
	testkit.Exec(t, pool, "DROP TABLE deliveries_"+lost.ID.Time().Format("20060102"))
	claimed := claim(t, s, 1, 8)
	if len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != other.ID {
		t.Errorf("jobs %+v, want that of %s", claimed.Jobs, other.ID)
	}
	if !slices.Equal(claimed.Gone, []delivery.ID{lost.ID}) {
		t.Errorf("gone %s, want %s", claimed.Gone, lost.ID)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue"); n != 1 {
		t.Errorf("%d rows queued, want 1", n)
	}
}

func TestIdleFlowsAreRemoved(t *testing.T) {
	s, pool := open(t)
	for _, organization := range []string{"idle", "fresh", "endpoint"} {
		enqueue(t, s, leaseOf(1, false), draft(organization))
	}
	enqueue(t, s, leaseOf(1, false), draftTo(t, "idle", "/path"))
	finish(t, s)
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	claim(t, s, 1, 1) // puts them to sleep
	enqueue(t, s, leaseOf(1, false), draft("waiting"))
	testkit.Exec(t, pool, "UPDATE flow SET created_at = now() - interval '9 days'")
	testkit.Exec(t, pool, "UPDATE flow_health SET last_delivered_at = now() - interval '8 days'")
	testkit.Exec(t, pool, "UPDATE flow_health SET last_delivered_at = now() FROM flow f WHERE f.flow_id = flow_health.flow_id AND organization_id = 'fresh'")
	testkit.Exec(t, pool, "UPDATE flow SET endpoint_id = gen_random_uuid() WHERE organization_id = 'endpoint'")
	if n, err := s.RemoveIdleFlows(t.Context(), 7*24*time.Hour, 100); n != 2 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE organization_id = 'idle'"); n != 0 {
		t.Error("the idle flow is still there")
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow"); n != 3 {
		t.Errorf("%d flows left, want 3", n)
	}
	enqueue(t, s, leaseOf(1, false), draft("idle"))
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 2 {
		t.Errorf("%d jobs after the flow was made anew", len(jobs))
	}
}

// An enqueue that meets the removal of its flow waits and makes it anew.
func TestEnqueueDuringARemoval(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	finish(t, s)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "DELETE FROM flow"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Enqueue(context.WithoutCancel(t.Context()), []*delivery.Draft{draft("acme")}, leaseOf(1, false))
		done <- err
	}()
	for testkit.Value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'", t.Name()) == 0 {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
	}
	if err := errors.Join(tx.Commit(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// A claim takes as many bodies as there is memory for, the oldest first, and the
// rest stays where it can be found.
func TestBytesBoundAClaim(t *testing.T) {
	s, pool := open(t)
	var drafts []*delivery.Draft
	for range 6 {
		d := draft("acme")
		d.Body = make([]byte, 1000)
		drafts = append(drafts, d)
	}
	enqueue(t, s, leaseOf(1, false), drafts...)
	take := func(bytes int) int {
		claimed, err := s.Claim(t.Context(), dispatch.Claim{
			Replica: 1, Lease: time.Minute, Flows: 8, Bytes: bytes, FullFlows: []int64{}, FullOrganizations: []string{}, Grant: rooms(8),
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(claimed.Jobs)
	}
	for _, step := range []struct{ bytes, want int }{{2999, 2}, {999, 0}, {3000, 3}, {1 << 20, 1}} {
		if got := take(step.bytes); got != step.want {
			t.Errorf("%d rows for %d bytes, want %d", got, step.bytes, step.want)
		}
		if n := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue q JOIN flow f USING (flow_id) WHERE f.ready_at > q.due_at"); n != 0 {
			t.Errorf("%d rows would not be looked at in time", n)
		}
	}
}

// What failed or expired is among the dead letters, with the fence under which a
// resend has to begin.
func TestDeadLetters(t *testing.T) {
	s, pool := open(t)
	failed, expired, fine, own := draft("acme"), draft("acme"), draft("acme"), draft("acme")
	expired.Deadline = time.Now().Add(-time.Second)
	own.EventType = "switchyard.delivery.failed"
	enqueue(t, s, leaseOf(1, false), failed, fine, own)
	for _, job := range claim(t, s, 1, 8).Jobs {
		result := delivered(job)
		if job.ID != fine.ID {
			result.Step.Status, result.Step.Outcome, result.Attempt.Outcome = delivery.StatusFailed, delivery.OutcomeFailed, delivery.OutcomeFailed
		}
		settle(t, s, result)
	}
	enqueue(t, s, leaseOf(1, false), expired)
	if n, err := s.ExpireDue(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("expired %d, %v", n, err)
	}
	if n := testkit.Value[int](t, pool, `SELECT count(*) FROM dead_letter l JOIN deliveries d ON d.id = l.delivery_id AND d.created_at = l.created_at
		WHERE l.organization_id = 'acme' AND d.status IN ('failed', 'expired')`); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM dead_letter"); n != 3 {
		t.Errorf("%d dead letters in all, want 3", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT lease_seq FROM deliveries WHERE id = $1", failed.ID.String()); n != 1 {
		t.Errorf("the fence of what failed is %d, want 1", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM operational_event WHERE type = 'switchyard.delivery.failed' AND delivery_id = $1", failed.ID.String()); n != 1 {
		t.Errorf("%d events of the failure, want 1", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM operational_event"); n != 1 {
		t.Errorf("%d events, want none about our own", n)
	}
}

// What failed under a release that kept no dead letters is one all the same.
func TestDeadLettersOfTheReleaseBefore(t *testing.T) {
	s, pool := open(t)
	failed := ended(t, s, "acme", 2, delivery.StatusFailed, nil)
	ended(t, s, "acme", 1, delivery.StatusDelivered, nil)
	testkit.Exec(t, pool, "DELETE FROM dead_letter WHERE delivery_id = $1", failed[0].String())
	text, err := migrations.FS.ReadFile("00004_dead_letters.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, up, _ := strings.Cut(string(text), "-- +goose Up")
	up, _, _ = strings.Cut(up, "-- +goose Down")
	testkit.Exec(t, pool, up)
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM dead_letter"); n != len(failed) {
		t.Errorf("%d dead letters of %d", n, len(failed))
	}
}
