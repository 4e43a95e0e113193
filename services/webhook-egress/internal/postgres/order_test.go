package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
)

// keyed returns drafts of one flow with an ordering key.
func keyed(key string, n int) []*delivery.Draft {
	drafts := make([]*delivery.Draft, n)
	for i := range drafts {
		drafts[i] = draft("acme")
		drafts[i].OrderingKey = key
	}
	return drafts
}

// enqueueEach enqueues drafts one after the other, with a lease where the replica takes it.
func enqueueEach(t *testing.T, s *postgres.Store, reserve bool, drafts ...*delivery.Draft) (stored []delivery.Stored) {
	t.Helper()
	for _, d := range drafts {
		stored = append(stored, enqueue(t, s, leaseOf(1, reserve), d)...)
	}
	return stored
}

func failed(job delivery.Job) dispatch.Result {
	r := delivered(job)
	r.Step.Status, r.Step.Outcome, r.Step.Fault = delivery.StatusFailed, delivery.OutcomeFailed, delivery.FaultClient
	r.Attempt.Outcome, r.Attempt.ResponseCode = delivery.OutcomeFailed, 400
	return r
}

// claimOne claims the only delivery that is due, and compares it with the wanted one.
func claimOne(t *testing.T, s *postgres.Store, pool *pgxpool.Pool, what string, want *delivery.Draft) delivery.Job {
	t.Helper()
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now() WHERE ready_at < 'infinity' AND NOT paused")
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 1 || jobs[0].ID != want.ID || jobs[0].OrderingKey != want.OrderingKey {
		t.Fatalf("%s: claimed %v, want %s alone", what, idsOf(jobs), want.ID)
	}
	return jobs[0]
}

func idsOf(jobs []delivery.Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.ID.String())
	}
	return ids
}

func keysLeft(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return testkit.Value[int](t, pool, "SELECT count(*) FROM ordering_key")
}

// Whatever ends a delivery releases the next one with its key, and only that.
func TestOrder(t *testing.T) {
	s, pool := open(t)
	drafts := keyed("k", 7)
	drafts[4].Deadline = time.Now().Add(-time.Second)
	enqueueEach(t, s, true, drafts...)
	if leases := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue WHERE leased_by IS NOT NULL"); leases != 1 {
		t.Fatalf("%d of the deliveries are leased at once, want the first alone", leases)
	}
	blocked := statusIs(t, s, "acme", drafts[1].ID, delivery.StatusQueued)
	if blocked.LastError != string(delivery.FaultOrderingKey) || !blocked.NextAttempt.IsZero() || blocked.OrderingKey != "k" {
		t.Errorf("a blocked delivery says %q, next attempt %s, key %q", blocked.LastError, blocked.NextAttempt, blocked.OrderingKey)
	}
	first := drafts[0].Job(delivery.Stored{Flow: delivery.Flow{ID: testkit.Value[int64](t, pool, "SELECT flow_id FROM flow")}, LeaseSeq: 1, Position: 1})
	settle(t, s, retried(first, time.Hour))
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 0 {
		t.Fatalf("%v overtook a delivery that is retried", idsOf(jobs))
	}
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now() WHERE delivery_id = $1", drafts[0].ID.String())
	settle(t, s, delivered(claimOne(t, s, pool, "the retry", drafts[0])))
	settle(t, s, failed(claimOne(t, s, pool, "after a delivered one", drafts[1])))
	if _, err := s.Cancel(t.Context(), drafts[3].ID); err != nil { // blocked
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), drafts[2].ID); err != nil { // due
		t.Fatal(err)
	}
	if n, err := s.ExpireDue(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("%d expired, %v", n, err)
	}
	settle(t, s, delivered(claimOne(t, s, pool, "after cancelled and expired ones", drafts[5])))
	settle(t, s, delivered(claimOne(t, s, pool, "the last", drafts[6])))
	if n := keysLeft(t, pool); n != 0 {
		t.Errorf("%d ordering keys are left without a delivery", n)
	}
}

// Other keys, other flows and deliveries without a key don't wait.
func TestOrderHoldsOnlyItsKey(t *testing.T) {
	s, _ := open(t)
	other, elsewhere := keyed("other", 1)[0], keyed("k", 1)[0]
	elsewhere.Target.Host, elsewhere.URL = "elsewhere.example", "https://elsewhere.example/"
	free := append(keyed("k", 1), other, elsewhere, draft("acme"), draft("acme"))
	enqueue(t, s, leaseOf(1, false), append(keyed("k", 2)[1:], free[1:]...)...)
	enqueue(t, s, leaseOf(1, false), keyed("k", 20)...)
	if jobs := claim(t, s, 1, 64).Jobs; len(jobs) != len(free) {
		t.Errorf("%d deliveries are claimed, want the first of each key and all without one: %d", len(jobs), len(free))
	}
}

// An event's deliveries are ordered at each endpoint.
func TestOrderOfEvents(t *testing.T) {
	s, pool := open(t)
	register(t, s, subscription("acme", "", "*"))
	register(t, s, subscription("acme", "", "*"))
	var fanned [2][]delivery.ID
	for i := range fanned {
		e := happening("acme", "", "e")
		e.OrderingKey = "k"
		for _, d := range emit(t, s, e).Deliveries {
			fanned[i] = append(fanned[i], d.Delivery)
		}
	}
	jobs := claim(t, s, 1, 8).Jobs
	for _, j := range jobs {
		if !slices.Contains(fanned[0], j.ID) {
			t.Errorf("delivery %s of the second event is claimed before the first has ended", j.ID)
		}
	}
	if len(jobs) != 2 {
		t.Fatalf("%d deliveries claimed, want the first event's", len(jobs))
	}
	settle(t, s, delivered(jobs[0]))
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now() WHERE ready_at < 'infinity'")
	after := claim(t, s, 1, 8).Jobs
	if len(after) != 1 || after[0].FlowID != jobs[0].FlowID || !slices.Contains(fanned[1], after[0].ID) {
		t.Errorf("after one endpoint got the first event: %v, want the second for the same endpoint", idsOf(after))
	}
}

// What is resent is queued behind what waits.
func TestOrderOfResends(t *testing.T) {
	s, pool := open(t)
	drafts := keyed("k", 3)
	enqueueEach(t, s, false, drafts...)
	settle(t, s, failed(claimOne(t, s, pool, "first", drafts[0])))
	second := claimOne(t, s, pool, "second", drafts[1])
	if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: drafts[0].ID}); err != nil {
		t.Fatal(err)
	}
	settle(t, s, delivered(second))
	settle(t, s, delivered(claimOne(t, s, pool, "third", drafts[2])))
	settle(t, s, delivered(claimOne(t, s, pool, "the resent one", drafts[0])))
	if n := keysLeft(t, pool); n != 0 {
		t.Errorf("%d ordering keys are left", n)
	}
}

// A late result releases nothing: its delivery is another replica's.
func TestLateResultsKeepTheOrder(t *testing.T) {
	s, pool := open(t)
	drafts := keyed("k", 2)
	enqueueEach(t, s, false, drafts...)
	late := claimOne(t, s, pool, "first", drafts[0])
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now() WHERE leased_by IS NOT NULL")
	again := claimOne(t, s, pool, "taken over", drafts[0])
	settle(t, s, delivered(late))
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now() WHERE ready_at < 'infinity'")
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 0 {
		t.Fatalf("a late result released %v", idsOf(jobs))
	}
	settle(t, s, delivered(again), delivered(again))
	claimOne(t, s, pool, "second", drafts[1])
}

// A release that doesn't know ordering keys ends a delivery and releases none: upkeep does.
func TestStrandedDeliveriesAreReleased(t *testing.T) {
	s, pool := open(t)
	drafts := keyed("k", 2)
	enqueueEach(t, s, false, drafts...)
	enqueueEach(t, s, false, keyed("emptied", 1)...)
	sweep := func() (released int) {
		t.Helper()
		for after := (upkeep.OrderCursor{}); ; {
			next, n, err := s.ReleaseStranded(t.Context(), after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if released += n; next == (upkeep.OrderCursor{}) {
				return released
			}
			after = next
		}
	}
	if n := sweep(); n != 0 {
		t.Errorf("%d deliveries released before any had ended", n)
	}
	testkit.Exec(t, pool, "DELETE FROM delivery_queue WHERE delivery_id = $1 OR ordering_key = 'emptied'", drafts[0].ID.String())
	if n := sweep(); n != 1 {
		t.Errorf("%d deliveries released, want 1", n)
	}
	claimOne(t, s, pool, "second", drafts[1])
	if n := keysLeft(t, pool); n != 1 {
		t.Errorf("%d ordering keys are left, want the one with a delivery", n)
	}
}

// Concurrent enqueues, ends, cancellations and expiries leave no delivery behind and hand out one of a key at a time.
func TestOrderUnderConcurrency(t *testing.T) {
	s, pool := open(t)
	const keys, each = 4, 30
	var adding, working sync.WaitGroup
	for k := range keys {
		adding.Go(func() {
			for i := range each {
				d := keyed(fmt.Sprint(k), 1)[0]
				if i%5 == 4 {
					d.Deadline = time.Now().Add(-time.Second)
				}
				if _, err := s.Enqueue(t.Context(), []*delivery.Draft{d}, leaseOf(1, false)); err != nil {
					t.Error(err)
				}
				if i%5 == 3 {
					if _, err := s.Cancel(t.Context(), d.ID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	var mu sync.Mutex
	running := make(map[string]int)
	count := func(key string, n int) int {
		mu.Lock()
		defer mu.Unlock()
		running[key] += n
		return running[key]
	}
	added := make(chan struct{})
	for replica := range 3 {
		working.Go(func() {
			for last := false; ; {
				jobs := claim(t, s, int64(replica+1), 8).Jobs
				for _, j := range jobs {
					if count(j.OrderingKey, 1) > 1 {
						t.Errorf("two deliveries with the key %s are claimed at once", j.OrderingKey)
					}
				}
				for _, j := range jobs {
					count(j.OrderingKey, -1)
				}
				for _, j := range jobs {
					settle(t, s, delivered(j))
				}
				if _, err := s.ExpireDue(t.Context(), 10); err != nil {
					t.Error(err)
				}
				left := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue")
				if left == 0 && last {
					return
				}
				select {
				case <-added:
					last = true
				default:
				}
			}
		})
	}
	adding.Wait()
	close(added)
	working.Wait()
	if n := keysLeft(t, pool); n != 0 {
		t.Errorf("%d ordering keys are left", n)
	}
}

// A claim and a settle read neither the blocked deliveries of a key nor the ended ones, however many, although their
// plans were made while the queue was short.
func TestBlockedRowsAreNotRead(t *testing.T) {
	s, pool := openOne(t)
	const rounds, blocked = 20, 3000
	enqueue(t, s, leaseOf(1, false), keyed("k", 1)...)
	testkit.Exec(t, pool, "VACUUM ANALYZE")
	step := func() {
		jobs := claim(t, s, 1, 8).Jobs
		if len(jobs) != 1 {
			t.Fatalf("%d claimed, want the first of the key", len(jobs))
		}
		settle(t, s, delivered(jobs[0]))
	}
	enqueue(t, s, leaseOf(1, false), keyed("k", 2)...)
	step()
	for range blocked / 1000 {
		enqueue(t, s, leaseOf(1, false), keyed("k", 1000)...)
	}
	before := workOf(t, pool, "^(delivery_queue|ordering_key)$")
	for range rounds {
		step()
	}
	after := workOf(t, pool, "^(delivery_queue|ordering_key)$")
	if read := after.Read + after.Sequential - before.Read - before.Sequential; read > 10*rounds {
		t.Errorf("%d rows were read to deliver %d of %d with one key", read, rounds, blocked)
	}
}
