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

// tool reserves a call of a tool in a run, and checks the refusal.
func (b *books) tool(t *testing.T, id string, tool budget.Tool, refusal error) uuid.UUID {
	t.Helper()
	c := budget.Call{ID: uuid.New(), Organization: "acme", Run: id, Worst: cent, Tool: &tool}
	b.reserves(t, c, refusal)
	return c.ID
}

func (b *books) state(t *testing.T, id string) run.Run {
	t.Helper()
	of, _, err := b.runs.Get(t.Context(), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	return of.At(of.CreatedAt, b.usage(t, id))
}

func digest(n byte) budget.Tool { return budget.Tool{Digest: [32]byte{n}} }

// Calls of tools are counted with their reservations: those in flight refuse a call, those that were made end the run.
func TestMaxToolCalls(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxToolCalls: 2, AllowedTools: []string{"a/*"}})
	first := b.tool(t, "r", digest(1), nil)
	second := b.tool(t, "r", digest(2), nil)
	b.tool(t, "r", digest(3), run.ErrToolCallsLeft)
	if u := b.usage(t, "r"); u.ToolCalls != 0 || u.ToolsInFlight != 2 {
		t.Errorf("in flight: %+v", u)
	}
	if err := b.reservations.Release(t.Context(), b.replica, []uuid.UUID{second}); err != nil {
		t.Fatal(err)
	}
	second = b.tool(t, "r", digest(2), nil) // What wasn't sent doesn't count.
	b.settle(t, first, "r", cent)
	b.tool(t, "r", digest(3), run.ErrToolCallsLeft)
	b.settle(t, second, "r", cent)
	if of := b.state(t, "r"); of.Status != run.Exhausted || of.EndReason != run.EndMaxToolCalls || of.Limits.MaxToolCalls != 2 || len(of.Limits.AllowedTools) != 1 {
		t.Errorf("%+v", of)
	}
	b.tool(t, "r", digest(3), run.ErrToolsExhausted)
	b.tool(t, "r", digest(3), run.ErrExhausted) // The run has ended, for all calls.
	if _, err := b.reserve(t, "r", cent); !errors.Is(err, run.ErrExhausted) {
		t.Errorf("a call of a model: %v", err)
	}
	if n := testkit.Value[int](t, b.pool, `SELECT count(*) FROM audit_entry WHERE action = 'run.exhaust' AND reason = 'max_tool_calls'`); n != 1 {
		t.Errorf("%d audit entries", n)
	}
	if n := testkit.Value[int](t, b.pool, `SELECT count(*) FROM house_event WHERE type = 'switchyard.run.exhausted'`); n != 1 {
		t.Errorf("%d events", n)
	}
	if n := testkit.Value[int](t, b.pool, `SELECT count(*) FROM budget_reservation`); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}

// The replicas' round ends a run whose last call of a tool has been made, without another call.
func TestEndRunsOfTools(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxToolCalls: 1})
	b.settle(t, b.tool(t, "r", digest(1), nil), "r", cent)
	if err := b.reservations.EndRuns(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Value[string](t, b.pool, `SELECT status || ' ' || end_reason FROM run`); got != "exhausted max_tool_calls" {
		t.Error(got)
	}
}

// The same call over and over ends a run, also where replicas take turns.
func TestToolLoop(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{})
	same, other := digest(1), digest(2)
	same.Repeats, other.Repeats = 2, 2
	first := b.tool(t, "r", same, nil)
	second := b.tool(t, "r", same, nil)
	b.tool(t, "r", same, run.ErrToolRepeatLeft)
	b.settle(t, b.tool(t, "r", other, nil), "r", cent)
	b.settle(t, first, "r", cent)
	if err := b.reservations.Release(t.Context(), b.replica, []uuid.UUID{second}); err != nil {
		t.Fatal(err)
	}
	b.settle(t, b.tool(t, "r", same, nil), "r", cent)
	b.tool(t, "r", same, run.ErrToolLoop)
	if of := b.state(t, "r"); of.Status != run.Exhausted || of.EndReason != run.EndToolLoop {
		t.Errorf("%+v", of)
	}
	b.tool(t, "r", other, run.ErrExhausted)
}

// A run without an authority has the policy's limits. It can't end: only calls of tools are refused.
func TestToolsWithoutAuthority(t *testing.T) {
	b := openBooks(t)
	limited := func(n byte) budget.Tool { return budget.Tool{Digest: [32]byte{n}, MaxCalls: 3, Repeats: 1} }
	b.settle(t, b.tool(t, "s", limited(1), nil), "s", cent)
	b.tool(t, "s", limited(1), run.ErrToolLoop)
	b.settle(t, b.tool(t, "s", limited(2), nil), "s", cent)
	b.settle(t, b.tool(t, "s", limited(3), nil), "s", cent)
	b.tool(t, "s", limited(4), run.ErrToolsExhausted)
	b.tool(t, "", limited(1), nil) // Without a run nothing is counted.
	b.tool(t, "", limited(1), nil)
	if _, err := b.reserve(t, "s", cent); err != nil {
		t.Errorf("a call of a model: %v", err)
	}
	b.mint(t, "own", run.Limits{MaxToolCalls: 4})
	for n := range byte(4) {
		b.settle(t, b.tool(t, "own", limited(n), nil), "own", cent) // Its own limit holds in place of the policy's.
	}
	b.tool(t, "own", limited(9), run.ErrToolsExhausted)
}

// What refuses a call of a model refuses one of a tool, which is then not counted.
func TestToolsKeepToTheOtherLimits(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxCalls: 1, MaxToolCalls: 5})
	call := b.tool(t, "r", digest(1), nil)
	b.tool(t, "r", digest(1), run.ErrCallsLeft)
	b.ceiling(t, 0.5, organization.PeriodTotal)
	b.tool(t, "s", digest(1), budget.ErrExceeded)
	b.settle(t, call, "r", 0)
	b.tool(t, "r", digest(1), run.ErrExhausted)
	if u := b.usage(t, "r"); u.ToolCalls != 1 || u.ToolsInFlight != 0 || u.Calls != 1 {
		t.Errorf("%+v", u)
	}
}

// Concurrent calls on two replicas never exceed the limits of a run, and use all of them.
func TestParallelToolsKeepToTheirLimits(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxToolCalls: 20})
	other := uuid.New()
	if _, err := b.reservations.Heartbeat(t.Context(), other, nil, false); err != nil {
		t.Fatal(err)
	}
	var made, refused atomic.Int64
	var group sync.WaitGroup
	for i := range 40 {
		replica := []uuid.UUID{b.replica, other}[i%2]
		group.Go(func() {
			tool := budget.Tool{Digest: [32]byte{byte(i % 10)}, Repeats: 3}
			c := budget.Call{ID: uuid.New(), Organization: "acme", Run: "r", Worst: cent, Tool: &tool}
			switch err := b.reservations.Reserve(t.Context(), replica, c); {
			case err == nil:
				made.Add(1)
			case errors.Is(err, run.ErrToolCallsLeft), errors.Is(err, run.ErrToolRepeatLeft):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if u := b.usage(t, "r"); made.Load() != 20 || refused.Load() != 20 || u.ToolsInFlight != 20 || u.ToolCalls != 0 {
		t.Errorf("%d made, %d refused: %+v", made.Load(), refused.Load(), u)
	}
	if n := testkit.Value[int](t, b.pool, `SELECT max(calls) FROM run_tool_repeat`); n > 3 {
		t.Errorf("a call was made %d times", n)
	}
}

// The calls of a replica that died may have been made, and count.
func TestToolsOfDeadReplicas(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "r", run.Limits{MaxToolCalls: 1})
	call := b.tool(t, "r", digest(1), nil)
	testkit.Exec(t, b.pool, `DELETE FROM replica`)
	if u := b.usage(t, "r"); u.ToolCalls != 1 || u.ToolsInFlight != 0 {
		t.Errorf("%+v", u)
	}
	if err := b.reservations.Release(t.Context(), b.replica, []uuid.UUID{call}); err != nil {
		t.Fatal(err)
	}
	if u := b.usage(t, "r"); u.ToolCalls != 1 {
		t.Errorf("after a late release: %+v", u)
	}
}

func TestToolUseIsDropped(t *testing.T) {
	b := openBooks(t)
	tool := digest(1)
	tool.Repeats = 5
	b.tool(t, "old", tool, nil)
	b.tool(t, "new", tool, nil)
	testkit.Exec(t, b.pool, `UPDATE run_tool_use SET first_at = now() - interval '32 days' WHERE run_id = 'old'`)
	if err := b.reservations.RemoveSilent(t.Context(), b.replica, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Value[string](t, b.pool, `SELECT string_agg(u.run_id || ' ' || r.run_id, ',') FROM run_tool_use AS u JOIN run_tool_repeat AS r USING (organization_id, run_id)`); got != "new new" {
		t.Errorf("left: %q", got)
	}
}
