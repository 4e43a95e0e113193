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
	store := postgres.NewAlerts(testkit.Postgres(t, migrations.FS))
	rules := alert.NewRules(store)
	mine := []alert.Rule{{
		Name: "spend", Types: []string{"switchyard.budget.*"}, Where: map[string]any{"percent": 80.0},
		To: []alert.Target{{Channel: alert.InApp}}, RepeatAfter: "1h", Enabled: new(true),
	}}
	if err := rules.Set(t.Context(), "acme", mine); err != nil {
		t.Fatal(err)
	}
	if err := rules.Set(t.Context(), "acme", append(mine, alert.Rule{Name: "bad"})); err == nil {
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
		if err := rules.Remove(t.Context(), "acme"); err != nil {
			t.Error(err)
		}
	}
	if got, err := rules.Get(t.Context(), "acme"); err != nil || len(got) != 0 {
		t.Errorf("after the removal %v, %v", got, err)
	}
}

// One replica at a time applies rules, and what it did before a failure stays.
func TestAlertsAlone(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := postgres.NewAlerts(pool)
	told := alert.Told{Organization: "acme", Rule: "spend", Type: "switchyard.a", Subject: "s", Event: "e1", At: time.Now().UTC().Truncate(time.Microsecond)}
	failure := errors.New("notify is away")
	err := store.Alone(t.Context(), func(ctx context.Context, done int64, s alert.State) (int64, error) {
		if done != 0 {
			t.Errorf("begins after %d", done)
		}
		if err := store.Alone(ctx, func(context.Context, int64, alert.State) (int64, error) {
			t.Error("a second replica applies rules at the same time")
			return 0, nil
		}); err != nil {
			t.Error(err)
		}
		if last, err := s.Last(ctx, told); err != nil || last != (alert.Told{}) {
			t.Errorf("last %+v, %v", last, err)
		}
		if rules, err := s.Rules(ctx, "acme"); err != nil || len(rules) != 0 {
			t.Errorf("rules %v, %v", rules, err)
		}
		return 7, errors.Join(s.Put(ctx, told), failure)
	})
	if !errors.Is(err, failure) {
		t.Fatalf("err = %v", err)
	}
	err = store.Alone(t.Context(), func(ctx context.Context, done int64, s alert.State) (int64, error) {
		last, err := s.Last(ctx, alert.Told{Organization: "acme", Rule: "spend", Type: "switchyard.a", Subject: "s"})
		last.At = last.At.UTC()
		if diff := cmp.Diff(told, last); err != nil || diff != "" || done != 7 {
			t.Errorf("done up to %d, %v; last (-want +got):\n%s", done, err, diff)
		}
		return done, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Purge(t.Context(), told.At.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM alert_told"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
