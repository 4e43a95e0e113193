package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/platform/testkit"
)

// cutOffWith makes another replica reserve calls and then appear dead.
func (b *books) cutOffWith(t *testing.T, calls ...budget.Call) (replica uuid.UUID) {
	t.Helper()
	replica = uuid.New()
	if _, err := b.reservations.Heartbeat(t.Context(), replica, nil, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if err := b.reservations.Reserve(t.Context(), replica, c); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Exec(t, b.pool, `UPDATE replica SET seen_at = now() - interval '2 minutes' WHERE id = $1`, replica)
	if err := b.reservations.RemoveSilent(t.Context(), b.replica, time.Minute); err != nil {
		t.Fatal(err)
	}
	return replica
}

// A replica that was only cut off reclaims under its keys' budgets what no other call has reserved since.
func TestCutOffReplicaReclaimsUnderKeys(t *testing.T) {
	b := openBooks(t)
	kept, taken := keyed("k", 10, 6*cent), keyed("l", 10, 6*cent)
	replica := b.cutOffWith(t, kept, taken)
	b.reserves(t, keyed("l", 10, 5*cent), nil)
	if lost := b.comeBack(t, replica); len(lost) != 1 || lost[0] != taken.ID {
		t.Fatalf("lost %v, want %s", lost, taken.ID)
	}
	b.reserves(t, keyed("k", 10, 5*cent), budget.ErrKeyExceeded)
	b.settleKeyed(t, "k", 5*cent, kept.ID)
	if n := len(b.overruns(t)); n != 0 {
		t.Errorf("%d marks for a call that was reserved again", n)
	}
	b.reserves(t, keyed("k", 10, 5*cent), nil)
}

// A late row counts once, and is marked where it overruns the budget of its key.
func TestOverrunOfAKeyIsMarked(t *testing.T) {
	b := openBooks(t)
	late, harmless := keyed("k", 10, 6*cent), keyed("l", 10, 6*cent)
	b.cutOffWith(t, late, harmless)
	other := keyed("k", 10, 9*cent)
	b.reserves(t, other, nil)
	b.settleKeyed(t, "k", 9*cent, other.ID)
	b.settleKeyed(t, "k", 4*cent, late.ID)
	b.settleKeyed(t, "k", 4*cent, late.ID)
	b.settleKeyed(t, "l", 4*cent, harmless.ID)
	if cents, calls := b.spentBy(t, "k"); cents != 13 || calls != 2 {
		t.Errorf("%v cents in %d calls, want 13 in 2", cents, calls)
	}
	marks := b.overruns(t)
	if len(marks) != 1 || marks[0].SubjectType != "key" || marks[0].Subject != "k" || marks[0].Organization != "acme" {
		t.Fatalf("marks %+v, want one of the key", marks)
	}
	for _, part := range []string{`"used_cents": 13.0`, `"budget_ceiling_cents": 10`, `"period": "day"`, `"cost_cents": 4.0`} {
		if text := string(marks[0].Details); !strings.Contains(text, part) {
			t.Errorf("%s: lacks %s", text, part)
		}
	}
}

// holds begins a transaction that has the lock of a key, until release is called.
func (b *books) holds(t *testing.T, key string) (release func()) {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(budget_key_lock('acme', $1))", key); err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(release)
	return release
}

// await waits until so many transactions wait for the lock of a key.
func (b *books) await(t *testing.T, waiting int) {
	t.Helper()
	const query = `SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	testkit.Wait(t, "transactions wait", func() error {
		if n := testkit.Value[int](t, b.pool, query); n != waiting {
			return fmt.Errorf("%d wait, want %d", n, waiting)
		}
		return nil
	})
}

// Calls of one key reserve one after another, so that the second sees what the first has reserved. A call without a
// budget waits for none.
func TestCallsOfAKeyQueue(t *testing.T) {
	b := openBooks(t)
	release := b.holds(t, "k")
	b.reserves(t, keyed("k", 0, cent), nil)
	b.reserves(t, keyed("l", 10, cent), nil)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if err := b.reservations.Reserve(t.Context(), b.replica, keyed("k", 10, 4*cent)); err != nil {
				t.Error(err)
			}
		})
	}
	b.await(t, 2)
	release()
	group.Wait()
	b.reserves(t, keyed("k", 10, cent+1), budget.ErrKeyExceeded)
}

// Replicas that reclaim calls of the same keys at the same time don't wait for each other in a circle: they take the
// locks of keys in one order, though the calls come in the order of their runs.
func TestReplicasReclaimTogether(t *testing.T) {
	b := openBooks(t)
	inOrder := func(prefix string, keys ...string) (calls []budget.Call) {
		for i, key := range keys {
			c := keyed(key, 100, cent)
			c.Run = fmt.Sprintf("%s%d", prefix, i)
			calls = append(calls, c)
		}
		return calls
	}
	one := b.cutOffWith(t, inOrder("r", "a", "middle", "z")...)
	two := b.cutOffWith(t, inOrder("s", "z", "middle", "a")...)
	release := b.holds(t, "middle")
	var group sync.WaitGroup
	for _, replica := range []uuid.UUID{one, two} {
		if _, err := b.reservations.Heartbeat(t.Context(), replica, nil, false); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if lost, err := b.reservations.Reclaim(t.Context(), replica); err != nil || len(lost) != 0 {
				t.Errorf("lost %v, %v", lost, err)
			}
		})
	}
	b.await(t, 2)
	release()
	group.Wait()
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM budget_reservation WHERE key_ceiling_cents = 100"); n != 6 {
		t.Errorf("%d reservations under keys, want 6", n)
	}
}
