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
	err := store.Alone(t.Context(), func(ctx context.Context, done string, s alert.State) (string, error) {
		if done != "" {
			t.Errorf("begins after %q", done)
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
	err = store.Alone(t.Context(), func(ctx context.Context, done string, s alert.State) (string, error) {
		last, err := s.Last(ctx, alert.Notice{Organization: "acme", Rule: "spend", Type: "switchyard.a", Subject: "s"})
		last.At = last.At.UTC()
		if diff := cmp.Diff(notice, last); err != nil || diff != "" || done != "c7" {
			t.Errorf("done up to %q, %v; last (-want +got):\n%s", done, err, diff)
		}
		return done, nil
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
