package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/testkit"
)

// recorded returns the events of the outbox as "type subject percent", sorted.
func (b *books) recorded(t *testing.T) []string {
	t.Helper()
	return testkit.Value[[]string](t, b.pool, `SELECT coalesce(array_agg(concat_ws(' ', replace(type, 'switchyard.', ''), subject, data->>'percent')
		ORDER BY type, subject, (data->>'percent')::integer), '{}') FROM house_event`)
}

// spendBy records a call of acme.
func (b *books) spendBy(t *testing.T, cost price.Pico, change func(*ledger.Entry)) {
	t.Helper()
	e := row(uuid.New(), "", cost)
	change(&e)
	if err := b.ledger.Append(t.Context(), []ledger.Entry{e}); err != nil {
		t.Fatal(err)
	}
}

// compare compares budgets until all rows are read.
func (b *books) compare(t *testing.T) {
	t.Helper()
	h := postgres.NewHouseEvents(b.pool)
	last := testkit.Value[string](t, b.pool, "SELECT txid::text FROM ledger_entry ORDER BY ledger_entry.txid DESC LIMIT 1")
	testkit.Wait(t, "the comparison of budgets", func() error {
		if _, err := h.Compare(t.Context(), 3); err != nil {
			return err
		}
		if at := testkit.Value[string](t, b.pool, "SELECT txid::text FROM budget_mark"); at != last {
			return fmt.Errorf("read up to %s, want %s", at, last)
		}
		return nil
	})
}

func TestBudgetThresholds(t *testing.T) {
	b := openBooks(t)
	b.ceiling(t, 100, organization.PeriodDay)
	none := func(*ledger.Entry) {}
	for _, step := range []struct {
		cost price.Pico
		want []string
	}{
		{49 * cent, []string{}},
		{cent, []string{"budget.threshold organization/acme 50"}},
		{29 * cent, []string{"budget.threshold organization/acme 50"}},
		{cent, []string{"budget.threshold organization/acme 50", "budget.threshold organization/acme 80"}},
		{40 * cent, []string{"budget.threshold organization/acme 50", "budget.threshold organization/acme 80", "budget.threshold organization/acme 100"}},
		{cent, []string{"budget.threshold organization/acme 50", "budget.threshold organization/acme 80", "budget.threshold organization/acme 100"}},
	} {
		b.spendBy(t, step.cost, none)
		b.compare(t)
		if diff := cmp.Diff(step.want, b.recorded(t)); diff != "" {
			t.Fatalf("after %d cents more (-want +got):\n%s", step.cost/cent, diff)
		}
	}
	data := testkit.Value[string](t, b.pool, "SELECT data - 'period_start' FROM house_event WHERE data->>'percent' = '80'")
	want := `{"budget": "organization", "period": "day", "percent": 80, "subject": "acme", "spent_cents": 80, "ceiling_cents": 100, "organization_id": "acme"}`
	if data != want {
		t.Errorf("data %s, want %s", data, want)
	}
	b.checkData(t)
}

// Every threshold is recorded, also if a call reaches several: a rule may be for one of them.
func TestBudgetThresholdsOfAnOrganizationsChoice(t *testing.T) {
	b := openBooks(t)
	set := organization.Budget{CeilingCents: 100, Period: organization.PeriodMonth, Thresholds: []int{10, 90}}
	if err := b.organizations.SetBudget(operator(t), "acme", set, ""); err != nil {
		t.Fatal(err)
	}
	b.spendBy(t, 95*cent, func(*ledger.Entry) {})
	b.compare(t)
	if diff := cmp.Diff([]string{"budget.threshold organization/acme 10", "budget.threshold organization/acme 90"}, b.recorded(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A higher ceiling is another budget.
	set.CeilingCents = 900
	if err := b.organizations.SetBudget(operator(t), "acme", set, ""); err != nil {
		t.Fatal(err)
	}
	b.spendBy(t, 0, func(*ledger.Entry) {})
	b.compare(t)
	want := []string{"budget.threshold organization/acme 10", "budget.threshold organization/acme 10", "budget.threshold organization/acme 90"}
	if diff := cmp.Diff(want, b.recorded(t)); diff != "" {
		t.Errorf("after the ceiling was raised (-want +got):\n%s", diff)
	}
}

func TestBudgetThresholdsOfKeysAndRuns(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r1", run.Limits{MaxCostCents: 10})
	call := budget.Call{
		ID: uuid.New(), Organization: "acme", Run: "r1", KeyOrigin: "key_1", KeyBudget: keyterm.Budget{CeilingCents: 20, Period: organization.PeriodDay},
		Worst: 9 * cent,
	}
	if err := b.reservations.Reserve(t.Context(), b.replica, call); err != nil {
		t.Fatal(err)
	}
	b.spendBy(t, 10*cent, func(e *ledger.Entry) { e.ID, e.Run, e.KeyOrigin = call.ID, "r1", "key_1" })
	b.compare(t)
	if err := b.reservations.EndRuns(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.reservations.EndRuns(t.Context()); err != nil { // another replica's
		t.Fatal(err)
	}
	b.wants(t, "spent", "budget.threshold key/key_1 50",
		"budget.threshold run/r1 50", "budget.threshold run/r1 80", "budget.threshold run/r1 100", "run.exhausted run/r1")
}

// Replicas that compare at the same time, and one that is killed in a comparison, tell once and miss nothing.
func TestBudgetThresholdsOfManyReplicas(t *testing.T) {
	b := openBooks(t)
	b.ceiling(t, 100, organization.PeriodTotal)
	h := postgres.NewHouseEvents(b.pool)
	group, ctx := errgroup.WithContext(t.Context())
	for range 4 {
		group.Go(func() error {
			for range 20 {
				if err := b.ledger.Append(ctx, []ledger.Entry{row(uuid.New(), "", cent)}); err != nil {
					return err
				}
				if _, err := h.Compare(ctx, 2); err != nil {
					return err
				}
				cut, cancel := context.WithCancel(ctx)
				go cancel()
				_, _ = h.Compare(cut, 2)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	b.compare(t)
	if diff := cmp.Diff([]string{"budget.threshold organization/acme 50", "budget.threshold organization/acme 80"}, b.recorded(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApprovalsAreReported(t *testing.T) {
	control, pool, _ := newControl(t)
	store, b := postgres.NewApprovals(control), &books{pool: pool}
	a := create(t, store, "acme", "deploy")
	if diff := cmp.Diff([]string{"approval.pending approval/" + a.Ref}, b.recorded(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 2 { // the second one is refused
		_, _ = store.Decide(t.Context(), "acme", a.Ref, approval.Decision{Event: approval.Approve, By: "ada"}, noon.Add(time.Minute), entry("approval.approve", "acme", a.Ref))
	}
	b.wants(t, "decided", "approval.decided approval/"+a.Ref, "approval.pending approval/"+a.Ref)
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM house_event WHERE data ? 'arguments' OR organization_id <> 'acme'"); n != 0 {
		t.Errorf("%d events hold arguments of the tool, or are another organization's", n)
	}
}

func TestOutbox(t *testing.T) {
	_, pool, _ := newControl(t)
	h := postgres.NewHouseEvents(pool)
	add := func(organization, subject, transition string) {
		testkit.Exec(t, pool, "SELECT house_event_add($1, 'switchyard.circuit.opened', $2, $3, '{\"a\": 1}')", organization, subject, transition)
	}
	add("", "provider/openai", "1")
	add("", "provider/openai", "1")
	add("", "provider/openai", "2")
	add("acme", "provider/openai", "1")
	take := func(limit int) (ids []string) {
		t.Helper()
		events, err := h.Take(t.Context(), limit, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Attempts < 1 || string(e.Data) != `{"a": 1}` || e.OccurredAt.IsZero() {
				t.Errorf("event %+v", e)
			}
			ids = append(ids, e.ID)
		}
		return ids
	}
	first := take(2)
	rest := take(9)
	if len(first) != 2 || len(rest) != 1 || slices.Contains(first, rest[0]) || len(take(9)) != 0 {
		t.Fatalf("leased %q, then %q: want all three, each once", first, rest)
	}
	if err := h.Sent(t.Context(), first[:1]); err != nil {
		t.Fatal(err)
	}
	if err := h.Postpone(t.Context(), map[string]time.Duration{first[0]: 0, first[1]: 0, rest[0]: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if again := take(9); !cmp.Equal(again, first[1:]) {
		t.Errorf("taken again: %q, want %q: one is sent, one is not due", again, first[1:])
	}
	if waiting, oldest, err := h.Waiting(t.Context()); err != nil || waiting != 2 || oldest < 0 {
		t.Errorf("%d wait, the oldest for %s (%v)", waiting, oldest, err)
	}

	testkit.Exec(t, pool, "UPDATE house_event SET occurred_at = now() - interval '8 days', keep_until = now() - interval '1 second' WHERE event_id = ANY($1)", first)
	if n, err := h.GiveUp(t.Context(), 7*24*time.Hour); err != nil || n != 1 {
		t.Errorf("gave up %d, want the one that was not sent (%v)", n, err)
	}
	for _, want := range []int{1, 1, 0} {
		if n, err := h.Purge(t.Context(), 1); err != nil || n != want {
			t.Errorf("purged %d, want %d (%v)", n, want, err)
		}
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM house_event"); n != 1 {
		t.Errorf("%d events left, want the one that waits", n)
	}
}

// A circuit is recorded once when it opens on any replica, and once when none has it open any longer.
func TestCircuitsAreReported(t *testing.T) {
	_, pool, _ := newControl(t)
	h, b := postgres.NewHouseEvents(pool), &books{pool: pool}
	open := []event.Circuit{{Provider: "openai", Family: "gpt-6"}, {Provider: "anthropic"}}
	group, ctx := errgroup.WithContext(t.Context())
	for range 3 { // replicas
		group.Go(func() error {
			for range 5 {
				if err := h.Circuits(ctx, open, time.Minute); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	opened := []string{"circuit.opened circuit/anthropic/", "circuit.opened circuit/openai/gpt-6"}
	if diff := cmp.Diff(opened, b.recorded(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	testkit.Exec(t, pool, "UPDATE circuit_open SET seen_at = now() - interval '2 minutes' WHERE provider = 'openai'")
	for range 2 {
		if err := h.Circuits(t.Context(), nil, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	b.wants(t, "after it closed", append([]string{"circuit.closed circuit/openai/gpt-6"}, opened...)...)
	if err := h.Circuits(t.Context(), open[:1], time.Minute); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM house_event WHERE type = 'switchyard.circuit.opened'"); n != 3 {
		t.Errorf("%d openings, want 3: the circuit has opened again", n)
	}
}

// An invoice that differs from the ledger is recorded with exact decimals.
func TestDriftIsReported(t *testing.T) {
	control, pool, _ := newControl(t)
	b := &books{pool: pool}
	start := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	billed, err := amount.ParseCents("1250.50")
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]reconcile.Line{"same": {Provider: "openai"}, "more": {Provider: "openai", Amount: billed}} {
		result := reconcile.Compare(reconcile.Invoice{Ref: "INV-" + name, Start: start, End: start.AddDate(0, 1, 0), Lines: []reconcile.Line{line}}, nil)
		result.ID, result.CreatedAt = uuid.New(), start
		if _, _, err := postgres.NewReconciliations(control).Keep(operator(t), name, result); err != nil {
			t.Fatal(err)
		}
		if name == "more" {
			defer b.wants(t, "compared", "price.drift reconciliation/"+result.ID.String())
		}
	}
}
