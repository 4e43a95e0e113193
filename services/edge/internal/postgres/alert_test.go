package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestAlertRules(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	rules := alert.NewRules(postgres.NewAlerts(pool))
	by := alert.Author{Name: "key_1", Key: "key_1", User: "ada", Request: "req_1", At: time.Now()}
	mine := []alert.Rule{{
		Name: "spend", Types: []string{"switchyard.budget.*"}, Where: map[string]any{"percent": 80.0},
		To: []alert.Target{{Channel: alert.InApp}}, RepeatAfter: "1h", Enabled: new(true),
	}}
	if err := rules.Set(t.Context(), by, "acme", mine); err != nil {
		t.Fatal(err)
	}
	if err := rules.Set(t.Context(), by, "acme", append(mine, alert.Rule{Name: "bad"})); err == nil {
		t.Error("a rule without types was taken")
	}
	got, err := rules.Get(t.Context(), "acme")
	if diff := cmp.Diff(mine, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := rules.Get(t.Context(), "other"); err != nil || len(got) != 0 {
		t.Errorf("another organization has %v, %v", got, err)
	}
	for range 2 {
		if err := rules.Remove(t.Context(), by, "acme"); err != nil {
			t.Error(err)
		}
	}
	if got, err := rules.Get(t.Context(), "acme"); err != nil || len(got) != 0 {
		t.Errorf("after the removal %v, %v", got, err)
	}
	// What was refused, and what changed nothing, is not in it.
	entries := testkit.Value[[]string](t, pool, "SELECT array_agg(concat_ws(' ', actor, action, organization_id, key_id, request_id, details) ORDER BY id) FROM audit_entry")
	want := []string{
		`key_1 organization.alert_rules acme key_1 req_1 {"rules": ["spend"], "user_id": "ada"}`,
		`key_1 organization.remove_alert_rules acme key_1 req_1 {"user_id": "ada"}`,
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// One replica at a time applies rules, and what it did before a failure stays.
func TestAlertsAlone(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := postgres.NewAlerts(pool)
	notice := alert.Notice{Organization: "acme", Rule: "spend", Type: "switchyard.a", Subject: "s", Event: "e1", At: time.Now().UTC().Truncate(time.Microsecond)}
	failure := errors.New("notify is away")
	err := store.Alone(t.Context(), func(ctx context.Context, read string, s alert.State) (string, error) {
		if read != "" {
			t.Errorf("begins after %q", read)
		}
		if err := store.Alone(ctx, func(context.Context, string, alert.State) (string, error) {
			t.Error("a second replica applies rules at the same time")
			return "", nil
		}); err != nil {
			t.Error(err)
		}
		if last, err := s.Last(ctx, notice); err != nil || last != (alert.Notice{}) {
			t.Errorf("last %+v, %v", last, err)
		}
		if rules, err := s.Rules(ctx, "acme"); err != nil || len(rules) != 0 {
			t.Errorf("rules %v, %v", rules, err)
		}
		return "c7", errors.Join(s.Put(ctx, notice), failure)
	})
	if !errors.Is(err, failure) {
		t.Fatalf("err = %v", err)
	}
	err = store.Alone(t.Context(), func(ctx context.Context, read string, s alert.State) (string, error) {
		last, err := s.Last(ctx, alert.Notice{Organization: "acme", Rule: "spend", Type: "switchyard.a", Subject: "s"})
		last.At = last.At.UTC()
		if diff := cmp.Diff(notice, last); err != nil || diff != "" || read != "c7" {
			t.Errorf("read up to %q, %v; last (-want +got):\n%s", read, err, diff)
		}
		return read, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Purge(t.Context(), notice.At.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM alert_notice"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// putRules gives organizations a rule that selects all events.
func putRules(t *testing.T, store *postgres.Alerts, organizations ...string) {
	t.Helper()
	by := alert.Author{Name: "olga", At: time.Now()}
	rules := []alert.Rule{{
		Name: "all", Types: []string{"switchyard.*"}, To: []alert.Target{{Channel: alert.InApp}, {Channel: alert.Slack}},
	}}
	for _, organization := range organizations {
		if err := alert.NewRules(store).Set(t.Context(), by, organization, rules); err != nil {
			t.Fatal(err)
		}
	}
}

// Organizations take turns by the time since which they are due. Each has one record, however many of its events wait;
// an organization without rules has none.
func TestProgressOfAlerts(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, now := postgres.NewAlerts(pool), time.Now().UTC().Truncate(time.Microsecond)
	putRules(t, store, "acme", "busy", "calm")
	state := func(do func(ctx context.Context, s alert.State) error) {
		t.Helper()
		err := store.Alone(t.Context(), func(ctx context.Context, read string, s alert.State) (string, error) {
			return read, do(ctx, s)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	next := func(at time.Time, want alert.Progress) {
		t.Helper()
		state(func(ctx context.Context, s alert.State) error {
			p, found, err := s.Next(ctx, at)
			p.DueAt = p.DueAt.UTC()
			if diff := cmp.Diff(want, p); diff != "" && (found || want != (alert.Progress{})) {
				t.Errorf("next (-want +got):\n%s", diff)
			}
			return err
		})
	}
	state(func(ctx context.Context, s alert.State) error {
		return errors.Join(
			s.Wait(ctx, map[string]string{"busy": "c1", "none": "c2"}, now),
			s.Wait(ctx, map[string]string{"busy": "c3", "acme": "c4"}, now.Add(time.Second)),
			s.Wait(ctx, map[string]string{"busy": "c5", "acme": "c6", "calm": "c7"}, now.Add(2*time.Second)),
		)
	})
	later := now.Add(time.Minute)
	next(now.Add(-time.Microsecond), alert.Progress{})
	next(later, alert.Progress{Organization: "busy", Cursor: "c1", DueAt: now})
	state(func(ctx context.Context, s alert.State) error {
		return s.Save(ctx, alert.Progress{Organization: "busy", Cursor: "c3", DueAt: later}) // Events wait after its turn.
	})
	next(later, alert.Progress{Organization: "acme", Cursor: "c4", DueAt: now.Add(time.Second)})
	state(func(ctx context.Context, s alert.State) error {
		return s.Postpone(ctx, "acme", later.Add(time.Second))
	})
	next(later, alert.Progress{Organization: "calm", Cursor: "c7", DueAt: now.Add(2 * time.Second)})
	state(func(ctx context.Context, s alert.State) error {
		return s.Save(ctx, alert.Progress{Organization: "calm", Cursor: "c8"}) // No event waits.
	})
	next(later, alert.Progress{Organization: "busy", Cursor: "c3", DueAt: later})
	if err := store.Delete(t.Context(), "busy", alert.Author{Name: "olga", At: now}); err != nil {
		t.Fatal(err)
	}
	next(later, alert.Progress{})
	again := later.Add(time.Second)
	next(again, alert.Progress{Organization: "acme", Cursor: "c4", DueAt: again, Failures: 1})
	state(func(ctx context.Context, s alert.State) error {
		return s.Wait(ctx, map[string]string{"acme": "c9", "calm": "c9"}, now) // The position and the backoff stay.
	})
	next(later, alert.Progress{Organization: "calm", Cursor: "c8", DueAt: now})
	rows := testkit.Value[[]string](t, pool,
		"SELECT array_agg(concat_ws(' ', organization_id, cursor, failures) ORDER BY organization_id) FROM alert_progress")
	if diff := cmp.Diff([]string{"acme c4 1", "calm c8 0"}, rows); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
