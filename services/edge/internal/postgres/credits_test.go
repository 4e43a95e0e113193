package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/spend"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestCredits(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	credits, store, usage := postgres.NewCredits(pool), postgres.NewSpend(pool), postgres.NewUsage(pool)
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
	by := credit.Author{Name: "op", Request: "req_1"}
	grant := func(id, organization string, pico int64, hours int) credit.Grant {
		return credit.Grant{
			ID: "crd_" + id, Organization: organization, IdempotencyKey: id, Pico: pico, Note: "n", CreatedAt: now,
			ExpiresAt: now.Add(time.Duration(hours) * time.Hour),
		}
	}
	add := func(g credit.Grant, most int, want bool) credit.Grant {
		t.Helper()
		stored, added, err := credits.Grant(ctx, g, most, by)
		if err != nil || added != want {
			t.Fatalf("grant %s: added %v, %v, want %v", g.ID, added, err, want)
		}
		return stored
	}
	late, soon := grant("a", "org-1", 100, 2), grant("b", "org-1", 10, 1)
	add(late, 2, true)
	add(soon, 2, true)
	if again := add(grant("a", "org-1", 7, 9), 2, false); again != late {
		t.Errorf("a repeat returns %+v, want %+v", again, late)
	}
	if none := add(grant("c", "org-1", 1, 1), 2, false); none.ID != "" {
		t.Errorf("a grant too many: %+v", none)
	}
	add(grant("other", "org-2", 5, 1), 2, true)

	month, _ := plan.Month.Window(now)
	feed := spend.Feed{Organization: "org-1", Since: month}
	costs := []credit.Cost{{At: now.Add(-time.Second), Pico: 1000}, {At: now, Pico: 8}, {At: now, Pico: 12}}
	amounts := []spend.Amount{{Window: spend.Window{Period: plan.Month, Start: month}, Pico: 1020}}
	for i := range 2 { // the second as another replica that has read the same page
		if err := store.Advance(ctx, []spend.Step{{Feed: feed, Next: "1-1", Amounts: amounts, Costs: costs}}, now); err != nil {
			t.Fatalf("advance %d: %v", i, err)
		}
	}
	late.Spent, soon.Spent = 10, 10
	got, err := credits.Grants(ctx, "org-1", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]credit.Grant{late, soon}, got); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	feed.Cursor = "1-1"
	step := spend.Step{Feed: feed, Next: "1-2", Amounts: amounts, Costs: []credit.Cost{{At: now, Pico: 95}}}
	if err := store.Advance(ctx, []spend.Step{step}, now); err != nil {
		t.Fatal(err)
	}
	for organization, want := range map[string]credit.Balance{"org-1": {Uncovered: 5}, "org-2": {Pico: 5}} {
		if got, granted, err := credits.Balance(ctx, organization, now); got != want || !granted || err != nil {
			t.Errorf("balance of %s: %+v, %v, %v; want %+v", organization, got, granted, err, want)
		}
	}
	if got, granted, err := credits.Balance(ctx, "org-2", now.Add(time.Hour)); got.Pico != 0 || !granted || err != nil {
		t.Errorf("expired credits: %+v, %v, %v", got, granted, err)
	}
	if _, granted, err := credits.Balance(ctx, "org-3", now); granted || err != nil {
		t.Errorf("an organization without credits: %v, %v", granted, err)
	}
	start, end := plan.Month.Window(now)
	windows := []quota.Window{{Organization: "org-2", Meter: plan.Credits, Period: plan.Month, Start: start, End: end}}
	if lacking, err := usage.Spent(ctx, windows); err != nil || lacking[0] != -5 {
		t.Errorf("lacking %v, %v; want -5", lacking, err)
	}
	var spent, entries int64
	if err := pool.QueryRow(ctx, `SELECT (SELECT sum(spent_pico_usd) FROM credit_grants), (SELECT sum(pico_usd) FROM credit_entries WHERE grant_id IS NOT NULL)`).
		Scan(&spent, &entries); err != nil || spent != entries || spent != 110 {
		t.Errorf("spent %d, entries %d, %v; want 110", spent, entries, err)
	}
	if _, err := pool.Exec(ctx, `DELETE FROM credit_entries`); err == nil {
		t.Error("entries were deleted")
	}
}

// Grants of one organization at the same time are bounded together, and repeats at the same time add one.
func TestGrantsAtTheSameTime(t *testing.T) {
	credits := postgres.NewCredits(testkit.Postgres(t, migrations.FS))
	now := time.Now().UTC()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			g := credit.Grant{
				ID: fmt.Sprint("crd_", i), Organization: "o", IdempotencyKey: fmt.Sprint(i / 2), Pico: 1, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			}
			if _, _, err := credits.Grant(t.Context(), g, 3, credit.Author{Name: "op"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if grants, err := credits.Grants(t.Context(), "o", "", 20); err != nil || len(grants) != 3 {
		t.Errorf("%d grants, %v; want 3", len(grants), err)
	}
}
