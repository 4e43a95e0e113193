package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/platform/testkit"
)

// An organization's ceiling applies to all its runs and its calls without one, in its period.
func TestOrganizationCeiling(t *testing.T) {
	b := openBooks(t)
	testkit.Exec(t, b.pool, `INSERT INTO spend_day VALUES ('acme', (now() AT TIME ZONE 'UTC')::date - 40, 0, 1, 50e10)`)
	b.ceiling(t, 10, organization.PeriodMonth)
	b.settle(t, uuid.New(), "", 3*cent)
	call, err := b.reserve(t, "any", 4*cent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.reserve(t, "", 4*cent); !errors.Is(err, budget.ErrExceeded) {
		t.Errorf("beyond the ceiling: %v", err)
	}
	spend, err := b.organizations.Spend(t.Context(), "acme", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if spend.SpentCents != 3 || spend.ReservedCents != 4 {
		t.Errorf("%v cents spent, %v reserved, want 3 and 4", spend.SpentCents, spend.ReservedCents)
	}
	if got := spend.Organization.Budget.CeilingCents; got != 10 {
		t.Errorf("ceiling %v cents, want 10", got)
	}
	if spend.Start.Day() != 1 {
		t.Errorf("the month begins at %s", spend.Start)
	}
	b.settle(t, call, "any", cent)
	if spend, err = b.organizations.Spend(t.Context(), "acme", time.Now()); err != nil || spend.ActiveSessions != 1 || spend.ActiveSessionsCents != 1 {
		t.Errorf("%+v %v", spend, err)
	}
	b.ceiling(t, 10, organization.PeriodTotal)
	if _, err := b.reserve(t, "", 1); !errors.Is(err, budget.ErrExceeded) {
		t.Errorf("the month before counts for a total: %v", err)
	}
	b.ceiling(t, 0, "")
	if _, err := b.reserve(t, "", 1000*cent); err != nil {
		t.Errorf("without a ceiling: %v", err)
	}
	if of, err := b.organizations.Get(t.Context(), "acme"); err != nil || of.Budget.Period != organization.PeriodTotal {
		t.Errorf("the period is not kept: %+v %v", of, err)
	}
}

// Concurrent calls on two replicas never exceed a ceiling, and use all of it.
func TestParallelCallsKeepToTheCeilings(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCostCents: 20, MaxCalls: 1000})
	b.ceiling(t, 15, organization.PeriodDay)
	other := uuid.New()
	if _, err := b.reservations.Heartbeat(t.Context(), other, nil, false); err != nil {
		t.Fatal(err)
	}
	var served, refused atomic.Int64
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			replica := b.replica
			if i%2 == 0 {
				replica = other
			}
			call := budget.Call{ID: uuid.New(), Organization: "acme", Run: "r", Worst: 2 * cent}
			switch err := b.reservations.Reserve(t.Context(), replica, call); {
			case err == nil:
				served.Add(1)
			case errors.Is(err, budget.ErrExceeded):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if served.Load() != 7 || refused.Load() != 43 {
		t.Errorf("%d served, %d refused; 7 calls of 2 cents fit into 15", served.Load(), refused.Load())
	}
}
