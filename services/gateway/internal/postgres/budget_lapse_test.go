package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/testkit"
)

// cutOff makes another replica reserve one call under "r" and then appear dead.
func (b *books) cutOff(t *testing.T, worst price.Pico) (replica, call uuid.UUID) {
	t.Helper()
	replica, call = uuid.New(), uuid.New()
	if _, err := b.reservations.Heartbeat(t.Context(), replica, nil, false); err != nil {
		t.Fatal(err)
	}
	if err := b.reservations.Reserve(t.Context(), replica, budget.Call{ID: call, Organization: "acme", Run: "r", Worst: worst}); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, b.pool, `UPDATE replica SET seen_at = now() - interval '2 minutes' WHERE id = $1`, replica)
	if err := b.reservations.RemoveSilent(t.Context(), b.replica, time.Minute); err != nil {
		t.Fatal(err)
	}
	return replica, call
}

// comeBack is the replica's next heartbeat; it returns the lost calls.
func (b *books) comeBack(t *testing.T, replica uuid.UUID) []uuid.UUID {
	t.Helper()
	if unknown, err := b.reservations.Heartbeat(t.Context(), replica, nil, false); err != nil || !unknown {
		t.Fatalf("unknown %v, %v", unknown, err)
	}
	lost, err := b.reservations.Reclaim(t.Context(), replica)
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

func (b *books) overruns(t *testing.T) []audit.Entry {
	t.Helper()
	entries, err := b.control.List(t.Context(), audit.Filter{Action: "budget.overrun", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// A replica that was only cut off reclaims, once, what no other call has reserved since.
func TestCutOffReplicaReclaims(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCostCents: 10, MaxCalls: 1})
	replica, call := b.cutOff(t, 6*cent)
	if u := b.usage(t, "r"); u.InFlight != 0 || u.ReservedCents != 0 {
		t.Fatalf("forgotten: %+v", u)
	}
	if lost := b.comeBack(t, replica); len(lost) != 0 {
		t.Fatalf("lost %v", lost)
	}
	if u := b.usage(t, "r"); u.InFlight != 1 || u.ReservedCents != 6 {
		t.Fatalf("back again: %+v", u)
	}
	if _, err := b.reserve(t, "r", cent); err == nil {
		t.Error("another call passes beside it")
	}
	if lost, err := b.reservations.Reclaim(t.Context(), replica); err != nil || len(lost) != 0 || b.usage(t, "r").InFlight != 1 {
		t.Errorf("again: %v %v", lost, err)
	}
	b.settle(t, call, "r", 5*cent)
	if u := b.usage(t, "r"); u.SpentCents != 5 || u.InFlight != 0 || len(b.overruns(t)) != 0 {
		t.Errorf("settled: %+v, %v", u, b.overruns(t))
	}
}

// What others have reserved is lost. The call is ended; its cost until then is billed, and if it exceeds a limit, the
// audit log records it.
func TestOverrunIsMarked(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCostCents: 10})
	b.ceiling(t, 12, organization.PeriodDay)
	replica, call := b.cutOff(t, 6*cent)
	taken, err := b.reserve(t, "r", 9*cent)
	if err != nil {
		t.Fatal(err)
	}
	if lost := b.comeBack(t, replica); len(lost) != 1 || lost[0] != call {
		t.Fatalf("lost %v, want %s", lost, call)
	}
	b.settle(t, taken, "r", 9*cent)
	if n := len(b.overruns(t)); n != 0 {
		t.Fatalf("%d marks before the row has come", n)
	}
	b.settle(t, call, "r", 4*cent)
	b.settle(t, call, "r", 4*cent) // A writer that is not sure repeats it.
	if u := b.usage(t, "r"); u.SpentCents != 13 {
		t.Errorf("%+v", u)
	}
	marked := map[string]audit.Entry{}
	for _, e := range b.overruns(t) {
		marked[e.SubjectType+" "+e.Subject] = e
	}
	ofRun, ofOrganization := marked["run r"], marked["organization acme"]
	if len(marked) != 2 {
		t.Errorf("%d marks, want one of the run and one of the organization: %+v", len(marked), marked)
	}
	if ofRun.Organization != "acme" || ofRun.RequestID != "req" || ofRun.ActorRole != audit.RoleSystem {
		t.Errorf("the run's mark: %q of %q as %s, want req of acme as %s", ofRun.RequestID, ofRun.Organization, ofRun.ActorRole, audit.RoleSystem)
	}
	if text := string(ofRun.Details); !strings.Contains(text, `"used_cents": 13.0`) || !strings.Contains(text, `"max_cost_cents": 10`) || !strings.Contains(text, `"cost_cents": 4.0`) {
		t.Error(text)
	}
	if text := string(ofOrganization.Details); !strings.Contains(text, `"budget_ceiling_cents": 12`) {
		t.Error(text)
	}
}

// A late row that fits is not recorded; a call that ended without a row does not come back either.
func TestLapseWithoutHarm(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCostCents: 10})
	_, late := b.cutOff(t, 6*cent)
	b.settle(t, late, "r", 5*cent)
	replica, failed := b.cutOff(t, cent)
	if err := b.reservations.Release(t.Context(), replica, []uuid.UUID{failed}); err != nil {
		t.Fatal(err)
	}
	if lost := b.comeBack(t, replica); len(lost) != 0 || b.usage(t, "r").InFlight != 0 || len(b.overruns(t)) != 0 {
		t.Errorf("lost %v, %+v, %v", lost, b.usage(t, "r"), b.overruns(t))
	}
}
