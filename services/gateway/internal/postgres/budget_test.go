package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/testkit"
)

// cent is 0.01 USD.
const cent = price.Pico(1e10)

// books is the stores that count money, on a database of their own.
type books struct {
	pool          *pgxpool.Pool
	control       *postgres.Control
	organizations *postgres.Organizations
	runs          *postgres.Runs
	reservations  *postgres.Reservations
	ledger        *postgres.Ledger
	replica       uuid.UUID
}

func openBooks(t *testing.T) *books {
	t.Helper()
	c, pool, _ := newControl(t)
	b := &books{
		pool: pool, control: c, organizations: postgres.NewOrganizations(c), reservations: postgres.NewReservations(pool),
		ledger: postgres.NewLedger(pool), replica: uuid.New(),
	}
	b.runs = postgres.NewRuns(c, b.replica)
	if _, err := b.reservations.Heartbeat(t.Context(), b.replica, nil, false); err != nil {
		t.Fatal(err)
	}
	return b
}

func operator(t *testing.T) context.Context {
	t.Helper()
	return caller.With(t.Context(), caller.Caller{Name: "ops", Role: caller.RoleOperator})
}

func (b *books) mint(t *testing.T, id string, limits run.Limits) {
	t.Helper()
	if limits.ExpiresAt.IsZero() {
		limits.ExpiresAt = time.Now().Add(time.Hour)
	}
	if _, err := b.runs.Mint(operator(t), run.Run{Organization: "acme", ID: id, InitiatedBy: "ada", Limits: limits}, run.MaxDepth); err != nil {
		t.Fatal(err)
	}
}

// expire sets a run's expiry to now, without waiting for it.
func (b *books) expire(t *testing.T, id string) {
	t.Helper()
	testkit.Exec(t, b.pool, `UPDATE run SET expires_at = now() - interval '1 second' WHERE run_id = $1`, id)
}

func (b *books) ceiling(t *testing.T, cents float64, period organization.Period) {
	t.Helper()
	if err := b.organizations.SetBudget(operator(t), "acme", organization.Budget{CeilingCents: cents, Period: period}, ""); err != nil {
		t.Fatal(err)
	}
}

func (b *books) reserve(t *testing.T, id string, worst price.Pico) (uuid.UUID, error) {
	t.Helper()
	call := uuid.New()
	return call, b.reservations.Reserve(t.Context(), b.replica, budget.Call{ID: call, Organization: "acme", Run: id, Worst: worst})
}

// settle records the cost of a call.
func (b *books) settle(t *testing.T, call uuid.UUID, id string, cost price.Pico) {
	t.Helper()
	if err := b.ledger.Append(t.Context(), []ledger.Entry{row(call, id, cost)}); err != nil {
		t.Fatal(err)
	}
}

func row(call uuid.UUID, id string, cost price.Pico) ledger.Entry {
	at := time.Now()
	return ledger.Entry{
		ID: call, RequestID: "req", Organization: "acme", Run: id, Operation: "chat", Provider: "p", Model: "m", Credential: "fleet",
		Attempts: 1, State: ledger.StateReported, Cost: cost, PriceVersion: "p/m@1", Outcome: ledger.OutcomeCompleted, StartedAt: at, EndedAt: at,
	}
}

func (b *books) usage(t *testing.T, id string) run.Usage {
	t.Helper()
	u, err := b.runs.Usage(t.Context(), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A reservation is held until its ledger row replaces it, in one step.
func TestReserveAndSettle(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCostCents: 10})
	call, err := b.reserve(t, "r", 6*cent)
	if err != nil {
		t.Fatal(err)
	}
	inFlight := b.usage(t, "r")
	if inFlight.FirstCallAt.IsZero() {
		t.Error("in flight: the run has no first call")
	}
	ignoreTimes := cmpopts.IgnoreFields(run.Usage{}, "FirstCallAt", "LastCallAt", "Elsewhere")
	if diff := cmp.Diff(run.Usage{ReservedCents: 6, InFlight: 1}, inFlight, ignoreTimes); diff != "" {
		t.Errorf("in flight (-want +got):\n%s", diff)
	}
	if of, _, err := b.runs.Get(t.Context(), "acme", "r"); err != nil || of.Status != run.Active || of.ActivatedAt.IsZero() {
		t.Errorf("after its first call: %+v %v", of, err)
	}
	if _, err := b.reserve(t, "r", 5*cent); !errors.Is(err, run.ErrCostLeft) {
		t.Errorf("a call that doesn't fit beside it: %v", err)
	}
	b.settle(t, call, "r", 2*cent)
	b.settle(t, call, "r", 2*cent) // A writer that is unsure repeats it.
	if u := b.usage(t, "r"); u.ReservedCents != 0 || u.SpentCents != 2 || u.InFlight != 0 || u.Calls != 1 {
		t.Errorf("settled: %+v", u)
	}
	if _, err := b.reserve(t, "r", 8*cent); err != nil {
		t.Errorf("a call that fits exactly: %v", err)
	}
}

func TestReserveRefuses(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "calls", run.Limits{MaxCalls: 1})
	b.mint(t, "cost", run.Limits{MaxCostCents: 1})
	b.mint(t, "revoked", run.Limits{})
	b.mint(t, "expired", run.Limits{})
	b.expire(t, "expired")
	b.mint(t, "aborted", run.Limits{})
	want := func(id string, worst price.Pico, refusal error) {
		t.Helper()
		if _, err := b.reserve(t, id, worst); !errors.Is(err, refusal) {
			t.Errorf("%s: %v, want %v", id, err, refusal)
		}
	}
	call, err := b.reserve(t, "calls", cent)
	if err != nil {
		t.Fatal(err)
	}
	want("calls", 0, run.ErrCallsLeft)
	b.settle(t, call, "calls", 0)
	want("calls", 0, run.ErrExhausted)

	call, err = b.reserve(t, "cost", cent)
	if err != nil {
		t.Fatal(err)
	}
	want("cost", 1, run.ErrCostLeft)
	b.settle(t, call, "cost", 2*cent) // More than was reserved.
	want("cost", 0, run.ErrExhausted)

	if _, err := b.runs.Revoke(operator(t), "acme", "revoked", "ada", ""); err != nil {
		t.Fatal(err)
	}
	want("revoked", 0, run.ErrRevoked)
	if _, err := b.runs.Abort(operator(t), "acme", "aborted", "ada", ""); err != nil {
		t.Fatal(err)
	}
	want("aborted", 0, run.ErrAborted)
	want("expired", 0, run.ErrExpired)
	want("nobody minted it", 1000*cent, nil)
	if _, err := b.organizations.SetStatus(operator(t), "acme", organization.Change{Suspended: true, By: "ada", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	want("nobody minted it", 0, organization.ErrSuspended)
}

// A replica that is silent is forgotten with what it held; one that lives, or that
// only comes late, is not.
func TestForget(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCalls: 2})
	dead := uuid.New()
	if _, err := b.reservations.Heartbeat(t.Context(), dead, map[budget.Session]int{{Organization: "acme", Run: "r"}: 1}, true); err != nil {
		t.Fatal(err)
	}
	lost := budget.Call{ID: uuid.New(), Organization: "acme", Run: "r", Worst: cent}
	if err := b.reservations.Reserve(t.Context(), dead, lost); err != nil {
		t.Fatal(err)
	}
	if _, err := b.reserve(t, "r", cent); err != nil {
		t.Fatal(err)
	}
	if err := b.reservations.RemoveSilent(t.Context(), b.replica, time.Minute); err != nil {
		t.Fatal(err)
	}
	if u := b.usage(t, "r"); u.InFlight != 2 || u.Elsewhere != 1 {
		t.Fatalf("both live: %+v", u)
	}
	testkit.Exec(t, b.pool, `UPDATE replica SET seen_at = now() - interval '2 minutes'`)
	if err := b.reservations.RemoveSilent(t.Context(), b.replica, time.Minute); err != nil {
		t.Fatal(err)
	}
	if u := b.usage(t, "r"); u.InFlight != 1 || u.ReservedCents != 1 || u.Elsewhere != 0 {
		t.Errorf("the dead one is gone: %+v", u)
	}
	// It was not dead after all: it must be known again before it reserves.
	if err := b.reservations.Reserve(t.Context(), dead, budget.Call{ID: uuid.New(), Organization: "acme", Run: "r"}); err == nil {
		t.Error("a forgotten replica reserves")
	}
	if _, err := b.reservations.Heartbeat(t.Context(), dead, nil, false); err != nil {
		t.Fatal(err)
	}
	if err := b.reservations.Reserve(t.Context(), dead, lost); err != nil {
		t.Errorf("once known again: %v", err)
	}
}

func TestReleaseAndLeave(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCalls: 1})
	call, err := b.reserve(t, "r", cent)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.reservations.Deregister(t.Context(), b.replica); err != nil {
		t.Fatal(err)
	}
	if u := b.usage(t, "r"); u.InFlight != 1 {
		t.Errorf("leaving took a call along whose row may wait: %+v", u)
	}
	if err := b.reservations.Release(t.Context(), uuid.New(), []uuid.UUID{call}); err != nil || b.usage(t, "r").InFlight != 1 {
		t.Errorf("another replica released it: %v", err)
	}
	if err := b.reservations.Release(t.Context(), b.replica, []uuid.UUID{call}); err != nil || b.usage(t, "r").InFlight != 0 {
		t.Errorf("released: %v", err)
	}
	if _, err := b.reserve(t, "r", cent); err != nil {
		t.Errorf("a call that failed took its place along: %v", err)
	}
}

// Ends without a request are recorded once, with their audit entry.
func TestEndRuns(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "expires", run.Limits{})
	b.expire(t, "expires")
	b.mint(t, "exhausts", run.Limits{MaxCalls: 1})
	b.mint(t, "goes on", run.Limits{MaxCalls: 2})
	for _, id := range []string{"exhausts", "goes on"} {
		call, err := b.reserve(t, id, cent)
		if err != nil {
			t.Fatal(err)
		}
		b.settle(t, call, id, cent)
	}
	for range 2 {
		if err := b.reservations.EndRuns(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]run.Status{"expires": run.Expired, "exhausts": run.Exhausted, "goes on": run.Active} {
		if of, _, err := b.runs.Get(t.Context(), "acme", id); err != nil || of.Status != want || of.EndedAt.IsZero() != (want == run.Active) {
			t.Errorf("%s: %+v %v", id, of, err)
		}
	}
	for _, action := range []string{"run.expire", "run.exhaust"} {
		entries, err := b.control.List(t.Context(), audit.Filter{Action: action, Limit: 10})
		if err != nil || len(entries) != 1 || entries[0].ActorRole != audit.RoleSystem {
			t.Errorf("%s: %+v %v", action, entries, err)
		}
	}
}

// Spend is the sum of the ledger rows, whichever writer wrote them and in whichever groups.
func TestSpendIsTheLedgersSum(t *testing.T) {
	b := openBooks(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				entries := []ledger.Entry{row(uuid.New(), "b", cent), row(uuid.New(), "a", cent), row(uuid.New(), "", cent), row(uuid.New(), "a", 2*cent)}
				if err := b.ledger.Append(t.Context(), entries); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if u := b.usage(t, "a"); u.SpentCents != 120 || u.Calls != 80 {
		t.Errorf("a: %+v", u)
	}
	spend, err := b.organizations.Spend(t.Context(), "acme", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if spend.SpentCents != 200 {
		t.Errorf("%v cents spent, want 200", spend.SpentCents)
	}
	if spend.ActiveSessions != 2 || spend.ActiveSessionsCents != 160 {
		t.Errorf("%d active sessions with %v cents, want 2 with 160", spend.ActiveSessions, spend.ActiveSessionsCents)
	}
}
