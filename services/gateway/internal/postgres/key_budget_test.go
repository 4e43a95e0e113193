package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/testkit"
)

// keyed returns a call of a key with a ceiling for the day.
func keyed(key string, ceilingCents int64, worst price.Pico) budget.Call {
	c := budget.Call{ID: uuid.New(), Organization: "acme", KeyOrigin: key, Worst: worst}
	if ceilingCents > 0 {
		c.KeyBudget = keyterm.Budget{CeilingCents: ceilingCents, Period: organization.PeriodDay}
	}
	return c
}

// reserves reserves a call and checks the refusal; nil is none.
func (b *books) reserves(t *testing.T, c budget.Call, refusal error) {
	t.Helper()
	if err := b.reservations.Reserve(t.Context(), b.replica, c); !errors.Is(err, refusal) {
		t.Errorf("%v, want %v", err, refusal)
	}
}

// settleKeyed records the cost of calls of a key, each in a row of another of the key's rotations.
func (b *books) settleKeyed(t *testing.T, key string, cost price.Pico, calls ...uuid.UUID) {
	t.Helper()
	var entries []ledger.Entry
	for i, call := range calls {
		e := row(call, "", cost)
		e.Key, e.KeyOrigin = fmt.Sprintf("%s-%d", key, i), key
		entries = append(entries, e)
	}
	if err := b.ledger.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// spentBy returns the sum of the ledger's trigger, in cents, and the number of calls.
func (b *books) spentBy(t *testing.T, key string) (cents float64, calls int) {
	t.Helper()
	const query = "SELECT coalesce(sum(%s), 0)::float8 FROM spend_key WHERE organization_id = 'acme' AND key_origin = $1"
	cents = testkit.Value[float64](t, b.pool, fmt.Sprintf(query, "cost_pico_usd / 1e10"), key)
	return cents, int(testkit.Value[float64](t, b.pool, fmt.Sprintf(query, "calls"), key))
}

// The ledger row takes the reservation's place, in whichever rotation of the key the call came. Other keys, and the same
// key of another organization, have budgets of their own.
func TestKeyBudget(t *testing.T) {
	b := openBooks(t)
	first, second := keyed("k", 10, 4*cent), keyed("k", 10, 6*cent)
	b.reserves(t, first, nil)
	b.reserves(t, second, nil)
	b.reserves(t, keyed("k", 10, 1), budget.ErrKeyExceeded)
	b.reserves(t, keyed("l", 10, 10*cent), nil)
	elsewhere := keyed("k", 10, 10*cent)
	elsewhere.Organization = "other"
	b.reserves(t, elsewhere, nil)

	b.settleKeyed(t, "k", 3*cent, first.ID, second.ID)
	b.settleKeyed(t, "k", 3*cent, first.ID, second.ID) // A writer that is unsure repeats them.
	if cents, calls := b.spentBy(t, "k"); cents != 6 || calls != 2 {
		t.Errorf("%v cents in %d calls, want 6 in 2", cents, calls)
	}
	b.reserves(t, keyed("k", 10, 4*cent+1), budget.ErrKeyExceeded)
	last := keyed("k", 10, 4*cent)
	b.reserves(t, last, nil)
	if err := b.reservations.Release(t.Context(), b.replica, []uuid.UUID{last.ID}); err != nil {
		t.Fatal(err)
	}
	b.reserves(t, keyed("k", 10, 4*cent), nil)
	b.reserves(t, keyed("k", 11, cent), nil) // The ceiling is that of the call's terms.
}

// What a key spends while it has terms without a budget counts once it has one, and so do its calls in flight.
func TestKeyThatGetsABudget(t *testing.T) {
	b := openBooks(t)
	b.settleKeyed(t, "k", 3*cent, uuid.New())
	b.reserves(t, keyed("k", 0, 1000*cent), nil)
	b.reserves(t, keyed("k", 1003, 1), budget.ErrKeyExceeded)
	b.reserves(t, keyed("k", 1004, cent), nil)
}

func TestPeriodsOfAKeyBudget(t *testing.T) {
	b := openBooks(t)
	testkit.Exec(t, b.pool, `INSERT INTO spend_key VALUES
		('acme', 'k', (now() AT TIME ZONE 'UTC')::date - 40, 0, 1, 50e10), ('acme', 'k', (now() AT TIME ZONE 'UTC')::date - 1, 0, 1, 7e10)`)
	yesterday := price.Pico(0) // What yesterday's spend is in this month.
	if time.Now().UTC().Day() > 1 {
		yesterday = 7 * cent
	}
	for _, tt := range []struct {
		period organization.Period
		left   price.Pico
	}{
		{organization.PeriodDay, 60 * cent},
		{organization.PeriodMonth, 60*cent - yesterday},
		{organization.PeriodTotal, 3 * cent},
	} {
		c := keyed("k", 60, tt.left+1)
		c.KeyBudget.Period = tt.period
		b.reserves(t, c, budget.ErrKeyExceeded)
		c.Worst = tt.left
		b.reserves(t, c, nil)
		if err := b.reservations.Release(t.Context(), b.replica, []uuid.UUID{c.ID}); err != nil {
			t.Fatal(err)
		}
	}
}

// The limits of the key, the run and the organization hold together. A refused call reserves under none of them, and
// does not begin its run.
func TestKeyRunAndOrganizationTogether(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCostCents: 5})
	b.ceiling(t, 8, organization.PeriodDay)
	call := func(ceiling int64, id string, worst price.Pico) budget.Call {
		c := keyed("k", ceiling, worst)
		c.Run = id
		return c
	}
	b.reserves(t, call(4, "r", 5*cent), budget.ErrKeyExceeded)
	if of, _, err := b.runs.Get(t.Context(), "acme", "r"); err != nil || of.Status != run.Minted {
		t.Errorf("after a call that its key's budget refused: %+v %v", of, err)
	}
	b.reserves(t, call(6, "r", 6*cent), run.ErrCostLeft)
	b.reserves(t, call(20, "", 9*cent), budget.ErrExceeded)
	b.reserves(t, call(4, "r", 4*cent), nil)
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM budget_reservation"); n != 1 {
		t.Errorf("%d reservations, want that of the one call", n)
	}
}

// Concurrent calls of a key on two replicas never exceed its ceiling, and use all of it, while others are settled.
func TestParallelCallsKeepToTheKeysBudget(t *testing.T) {
	b := openBooks(t)
	other := uuid.New()
	if _, err := b.reservations.Heartbeat(t.Context(), other, nil, false); err != nil {
		t.Fatal(err)
	}
	var served, refused atomic.Int64
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() {
			replica := b.replica
			if i%2 == 0 {
				replica = other
			}
			call := keyed("k", 15, 2*cent)
			switch err := b.reservations.Reserve(t.Context(), replica, call); {
			case err == nil:
				served.Add(1)
				b.settleKeyed(t, "k", 2*cent, call.ID)
			case errors.Is(err, budget.ErrKeyExceeded):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if served.Load() != 7 || refused.Load() != 53 {
		t.Errorf("%d served, %d refused; 7 calls of 2 cents fit into 15", served.Load(), refused.Load())
	}
	if cents, calls := b.spentBy(t, "k"); cents != 14 || calls != 7 {
		t.Errorf("%v cents in %d calls, want 14 in 7", cents, calls)
	}
}

// The release before reserves by the functions that it knows and writes rows without an origin.
func TestReleaseBeforeKeysRuns(t *testing.T) {
	b := openBooks(t)
	b.ceiling(t, 10, organization.PeriodDay)
	for _, tt := range []struct {
		call, want string
		amount     price.Pico
	}{
		{"budget_reserve($1, $2, 'acme', 'r', $3)", "", 4 * cent},
		{"budget_reserve($1, $2, 'acme', 'r', $3, 2)", "", 4 * cent},
		{"budget_reserve($1, $2, 'acme', 'r', $3)", "budget_exceeded", 4 * cent},
	} {
		id := uuid.New()
		if got := testkit.Value[string](t, b.pool, "SELECT "+tt.call, id, b.replica, int64(tt.amount)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.call, got, tt.want)
		}
		b.settle(t, id, "r", 4*cent)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM spend_key"); n != 0 {
		t.Errorf("%d sums of keys for rows without one", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM budget_reservation"); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}
