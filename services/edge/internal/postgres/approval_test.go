package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestApproverGroups(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	groups := approver.NewGroups(postgres.NewApprovers(pool))
	by := alert.Author{Name: "key_1", Key: "key_1", User: "ada", Request: "req_1", At: time.Now()}
	mine := []approver.Group{{
		Name: "default", Members: []approver.Member{{User: "ann", Slack: &approver.SlackUser{Team: "T01", User: "U01"}}},
		Steps: []approver.Step{{After: "0s", Channels: []string{"in_app"}}},
	}}
	if err := groups.Set(t.Context(), by, "acme", mine); err != nil {
		t.Fatal(err)
	}
	if err := groups.Set(t.Context(), by, "acme", append(mine, approver.Group{Name: "bad"})); err == nil {
		t.Error("a group without members was taken")
	}
	got, err := groups.Get(t.Context(), "acme")
	if diff := cmp.Diff(mine, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := groups.Get(t.Context(), "other"); err != nil || len(got) != 0 {
		t.Errorf("another organization has %v, %v", got, err)
	}
	entries := testkit.Value[[]string](t, pool, "SELECT array_agg(concat_ws(' ', actor, action, organization_id, key_id, request_id, details) ORDER BY id) FROM audit_entry")
	if diff := cmp.Diff([]string{`key_1 organization.approvers acme key_1 req_1 {"groups": ["default"], "user_id": "ada"}`}, entries); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// within works on the state alone, and fails the test on an error.
func within(t *testing.T, store *postgres.Approvers, do func(ctx context.Context, s approver.State) error) {
	t.Helper()
	err := store.Alone(t.Context(), func(ctx context.Context, done string, s approver.State) (string, error) { return done, do(ctx, s) })
	if err != nil {
		t.Fatal(err)
	}
}

func anApproval(ref string, now time.Time) approver.Approval {
	return approver.Approval{
		Organization: "acme", Ref: ref, Group: "default", Proof: "page", Server: "ci", Tool: "deploy", Rule: "r", RequestedBy: "agent",
		At: now, ExpiresAt: now.Add(time.Hour), State: approver.Waiting,
	}
}

// states returns "channel member state attempts notification sealed" of the notices.
func noticeStates(t *testing.T, store *postgres.Approvers, state string, at time.Time) (found []string, notices []approver.Notice) {
	t.Helper()
	within(t, store, func(ctx context.Context, s approver.State) (err error) {
		notices, err = s.Due(ctx, state, at, 100)
		for _, n := range notices {
			found = append(found, fmt.Sprint(n.Channel, " ", n.User+n.SlackChannel, " ", n.Attempts, " ", n.Notification, " ", string(n.Sealed)))
		}
		return err
	})
	return found, notices
}

func TestApprovalNotices(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, now := postgres.NewApprovers(pool), time.Now().UTC().Truncate(time.Microsecond)
	a := anApproval("r1", now)
	planned := []approver.Notice{
		{Channel: "email", User: "ann", DueAt: now},
		{Channel: "in_app", User: "ann", DueAt: now.Add(time.Microsecond)},
		{Channel: "slack", SlackChannel: "C01", DueAt: now.Add(time.Millisecond)},
		{Step: 1, Channel: "email", User: "ann", DueAt: now.Add(time.Minute)},
	}
	within(t, store, func(ctx context.Context, s approver.State) error {
		return errors.Join(s.Open(ctx, a, planned), s.Open(ctx, a, planned), s.Open(ctx, anApproval("r2", now.Add(-2*time.Hour)), nil)) // A repeat changes nothing.
	})
	got, notices := noticeStates(t, store, approver.Planned, now.Add(time.Second))
	if diff := cmp.Diff([]string{"email ann 0  ", "in_app ann 0  ", "slack C01 0  "}, got); diff != "" {
		t.Fatalf("due (-want +got):\n%s", diff)
	}
	for i, n := range notices {
		n.Approval.At, n.Approval.ExpiresAt = n.Approval.At.UTC(), n.Approval.ExpiresAt.UTC()
		if diff := cmp.Diff(a, n.Approval); diff != "" {
			t.Errorf("approval (-want +got):\n%s", diff)
		}
		found, err := store.Notice(t.Context(), n.ID)
		if err != nil || found == nil || found.Channel != n.Channel || found.Approval.Ref != "r1" || len(n.ID) < 26 {
			t.Errorf("notice %q is %+v, %v", n.ID, found, err)
		}
		notices[i] = n
	}
	if found, err := store.Notice(t.Context(), "ntc_other"); found != nil || err != nil {
		t.Errorf("an unknown notice is %v, %v", found, err)
	}
	notices[0].State, notices[0].Sealed = approver.Prepared, []byte("s")
	notices[1].State, notices[1].Notification, notices[1].Attempts = approver.Sent, "n1", 2
	within(t, store, func(ctx context.Context, s approver.State) error {
		for i := range notices[:2] {
			if err := s.Save(ctx, &notices[i]); err != nil {
				return err
			}
		}
		overdue, err := s.Overdue(ctx, now, 10)
		if err != nil || len(overdue) != 1 || overdue[0].Ref != "r2" {
			t.Fatalf("overdue are %v, %v", overdue, err)
		}
		late := overdue[0]
		late.Checks, late.NextCheck = 3, now.Add(time.Minute)
		if err := s.Postpone(ctx, late); err != nil {
			return err
		}
		for after, want := range map[time.Duration]int{0: 0, time.Second: 0, time.Minute: 1} {
			found, err := s.Overdue(ctx, now.Add(after), 10)
			if err != nil || len(found) != want || want == 1 && (found[0].Checks != 3 || !found[0].NextCheck.Equal(late.NextCheck)) {
				t.Errorf("overdue after %s are %v, %v, want %d", after, found, err, want)
			}
		}
		return nil
	})
	a.State, a.DecidedBy, a.ClosedAt = approver.Approved, "ann", now
	b := a
	b.State, b.DecidedBy = approver.Denied, "bob"
	within(t, store, func(ctx context.Context, s approver.State) error {
		return errors.Join(s.Close(ctx, a), s.Close(ctx, b))
	}) // The first wins.
	for state, want := range map[string][]string{
		approver.Planned: nil, approver.Prepared: {"email ann 0  s"}, approver.Closing: {"in_app ann 0 n1 "}, approver.Cancelled: {"email ann 0  ", "slack C01 0  "},
	} {
		got, notices := noticeStates(t, store, state, now.Add(time.Hour))
		slices.Sort(got) // All are due at once, and their ids are random.
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", state, diff)
		}
		for _, n := range notices {
			if n.Approval.State != approver.Approved || n.Approval.DecidedBy != "ann" || !n.Approval.ClosedAt.Equal(now) {
				t.Errorf("the approval is %+v", n.Approval)
			}
		}
	}
	if err := store.Purge(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM approval") + testkit.Value[int](t, pool, "SELECT count(*) FROM approval_notice"); n != 1+4 {
		t.Errorf("%d rows are left, want one approval with 4 notices", n)
	}
}

// Organizations take turns: one with many notices and approvals that are due for longer doesn't delay another's.
func TestApprovalsTakeTurns(t *testing.T) {
	store, now := postgres.NewApprovers(testkit.Postgres(t, migrations.FS)), time.Now().UTC().Truncate(time.Microsecond)
	within(t, store, func(ctx context.Context, s approver.State) error {
		var errs []error
		open := func(organization string, n int, ago time.Duration) {
			for i := range n {
				a := anApproval(fmt.Sprint("r", i), now.Add(-ago-time.Duration(i)*time.Second))
				a.Organization, a.ExpiresAt = organization, a.At
				errs = append(errs, s.Open(ctx, a, []approver.Notice{{Channel: "email", User: "ann", DueAt: a.At}}))
			}
		}
		open("acme", 50, 2*time.Hour)
		open("busy", 2, time.Minute)
		open("calm", 1, time.Second)
		open("later", 3, -2*time.Hour)
		return errors.Join(errs...)
	})
	want := []string{"acme r49", "busy r1", "calm r0", "acme r48", "busy r0", "acme r47", "acme r46", "acme r45"}
	within(t, store, func(ctx context.Context, s approver.State) error {
		notices, err := s.Due(ctx, approver.Planned, now, len(want))
		overdue, err2 := s.Overdue(ctx, now, len(want))
		var due, late []string
		for _, n := range notices {
			due = append(due, n.Approval.Organization+" "+n.Approval.Ref)
		}
		for _, a := range overdue {
			late = append(late, a.Organization+" "+a.Ref)
		}
		if diff := cmp.Diff(want, due); diff != "" {
			t.Errorf("notices (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, late); diff != "" {
			t.Errorf("overdue approvals (-want +got):\n%s", diff)
		}
		return errors.Join(err, err2)
	})
}

// One replica at a time works; what it wrote stays after a failure and after the end of its time, and goes with its
// connection.
func TestApprovalsAlone(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, now, failure := postgres.NewApprovers(pool), time.Now(), errors.New("notify is away")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	err := store.Alone(ctx, func(ctx context.Context, done string, s approver.State) (string, error) {
		if done != "" {
			t.Errorf("begins after %q", done)
		}
		if err := store.Alone(t.Context(), func(context.Context, string, approver.State) (string, error) {
			t.Error("a second replica works at the same time")
			return "", nil
		}); err != nil {
			t.Error(err)
		}
		cancel()
		return "c7", errors.Join(s.Open(ctx, anApproval("r1", now), []approver.Notice{{Channel: "email", User: "ann", DueAt: now}}), failure)
	})
	if !errors.Is(err, failure) {
		t.Fatalf("err = %v", err)
	}
	err = store.Alone(t.Context(), func(ctx context.Context, done string, s approver.State) (string, error) {
		if done != "c7" {
			t.Errorf("begins after %q, want c7", done)
		}
		if err := s.Open(ctx, anApproval("r2", now), nil); err != nil {
			return done, err
		}
		if _, err := pool.Exec(ctx, endTransactions); err != nil {
			t.Error(err)
		}
		return "c8", nil
	})
	if err == nil {
		t.Error("a replica that has lost its connection commits")
	}
	within(t, store, func(ctx context.Context, s approver.State) error {
		overdue, err := s.Overdue(ctx, now.Add(2*time.Hour), 10)
		if err != nil || len(overdue) != 1 || overdue[0].Ref != "r1" {
			t.Errorf("approvals %v, %v, want r1", overdue, err)
		}
		return nil
	})
}
