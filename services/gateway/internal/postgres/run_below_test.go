package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/platform/testkit"
)

// below mints a run below another.
func (b *books) below(t *testing.T, parent, id string, limits run.Limits, mostDepth int) (run.Run, error) {
	t.Helper()
	return b.runs.Mint(operator(t), run.Run{Organization: "acme", ID: id, Parent: parent, InitiatedBy: "ada", Limits: limits}, mostDepth)
}

// A run shares what it has not used, holds the rest to its calls, and ends with those below it.
func TestRunsBelow(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "root", run.Limits{MaxCostCents: 10, MaxCalls: 10})
	if _, err := b.reserve(t, "root", 2*cent); err != nil {
		t.Fatal(err)
	}
	if _, err := b.below(t, "root", "c", run.Limits{MaxCostCents: 8, MaxCalls: 2}, run.MaxDepth); err == nil {
		t.Error("what a call holds is shared")
	}
	child, err := b.below(t, "root", "c", run.Limits{MaxCostCents: 7, MaxCalls: 2}, run.MaxDepth)
	if err != nil || child.Depth != 1 || child.Parent != "root" || !child.Limits.ExpiresAt.After(time.Now()) {
		t.Fatalf("%+v %v", child, err)
	}
	if _, err := b.below(t, "c", "g", run.Limits{MaxCostCents: 1, MaxCalls: 1}, run.MaxDepth); err != nil {
		t.Fatal(err)
	}
	if of := b.state(t, "root"); of.Limits.MaxCostCents != 3 || of.Limits.MaxCalls != 8 {
		t.Errorf("the root keeps %+v", of.Limits)
	}
	if _, err := b.reserve(t, "root", 2*cent); !errors.Is(err, run.ErrCostLeft) {
		t.Errorf("a call of what was shared: %v", err)
	}
	if _, err := b.reserve(t, "c", 2*cent); err != nil {
		t.Errorf("a call of the run below: %v", err)
	}
	if _, err := b.runs.Revoke(operator(t), "acme", "root", "ops", "enough"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"root", "c", "g"} {
		if of := b.state(t, id); of.Status != run.Revoked || of.RevokeReason != "enough" {
			t.Errorf("%s: %+v", id, of)
		}
		if _, err := b.reserve(t, id, cent); !errors.Is(err, run.ErrRevoked) {
			t.Errorf("a call of %s: %v", id, err)
		}
	}
}

// An abort reaches the runs below; each replica reads them again.
func TestAbortReachesRunsBelow(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "root", run.Limits{})
	b.mint(t, "other", run.Limits{})
	for _, pair := range [][2]string{{"root", "c"}, {"c", "g"}} {
		if _, err := b.below(t, pair[0], pair[1], run.Limits{}, run.MaxDepth); err != nil {
			t.Fatal(err)
		}
	}
	_, level, err := b.runs.Since(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.runs.Abort(operator(t), "acme", "root", "ops", "stop"); err != nil {
		t.Fatal(err)
	}
	changed, _, err := b.runs.Since(t.Context(), level)
	if err != nil || len(changed) != 3 {
		t.Fatalf("%d runs changed, %v", len(changed), err)
	}
	for _, of := range changed {
		if !of.Abort.Requested() || of.ID == "other" {
			t.Errorf("%+v", of)
		}
	}
}

// A run that mints too deep ends with the reason.
func TestTooDeep(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "root", run.Limits{})
	if _, err := b.below(t, "root", "c", run.Limits{}, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Again it is refused since it has ended.
		_, err := b.below(t, "c", "g", run.Limits{}, 1)
		if !errors.Is(err, run.ErrTooDeep) && !errors.Is(err, run.ErrExhausted) {
			t.Errorf("minted too deep: %v", err)
		}
	}
	if of := b.state(t, "c"); of.Status != run.Exhausted || of.EndReason != run.EndMaxDepth {
		t.Errorf("%+v", of)
	}
	if of := b.state(t, "root"); of.Status.Ended() {
		t.Errorf("the root: %+v", of)
	}
	if n := testkit.Value[int](t, b.pool, `SELECT count(*) FROM audit_entry WHERE action = 'run.exhaust' AND reason = 'max_depth'`); n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

// Of many runs that are minted at once, those get a share for which the parent has something left.
func TestParallelSharesAddUp(t *testing.T) {
	b := openBooks(t)
	b.mint(t, "root", run.Limits{MaxCalls: 10})
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for i := range 16 {
		wg.Go(func() {
			if _, err := b.below(t, "root", fmt.Sprintf("c%d", i), run.Limits{MaxCalls: 2}, run.MaxDepth); err == nil {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if of := b.state(t, "root"); made != 4 || of.Limits.MaxCalls != 2 {
		t.Errorf("%d were minted, %d calls are left", made, of.Limits.MaxCalls)
	}
}
