package postgres_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// below counts the rows that no claim would find.
const below = "SELECT count(*) FROM delivery_queue q JOIN flow f USING (flow_id) WHERE q.due_at < f.floor"

func retried(job delivery.Job, delay time.Duration) dispatch.Result {
	r := delivered(job)
	r.Step.Status, r.Step.Outcome, r.Step.Delay = delivery.StatusRetrying, delivery.OutcomeRetry, delay
	r.Attempt.Outcome, r.Attempt.ResponseCode = delivery.OutcomeRetry, 500
	return r
}

// A transaction that adds a row due before the floor lowers the floor too. A floor
// far ahead stands for one that was raised after the transaction had begun.
func TestFloorIsLowered(t *testing.T) {
	for name, add := range map[string]func(t *testing.T, s *postgres.Store, raise func()){
		"enqueue": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			raise()
			enqueue(t, s, leaseOf(1, false), draft("acme"))
		},
		"enqueue leased": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			raise()
			enqueue(t, s, leaseOf(1, true), draft("acme"))
		},
		"fan out": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			register(t, s, subscription("acme", "", "a"))
			raise()
			emit(t, s, happening("acme", "", "a"))
		},
		"resend": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			id := ended(t, s, "acme", 1, delivery.StatusFailed, nil)[0]
			raise()
			if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: id}); err != nil {
				t.Fatal(err)
			}
		},
		"retry": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			enqueue(t, s, leaseOf(1, false), draft("acme"))
			jobs := claim(t, s, 1, 8).Jobs
			raise()
			settle(t, s, retried(jobs[0], time.Second))
		},
		"held with its flow": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			enqueue(t, s, leaseOf(1, false), draft("acme"))
			step := delivery.Step{Status: delivery.StatusQueued, Fault: "why", Delay: time.Second, Held: true}
			jobs := claim(t, s, 1, 8).Jobs
			raise()
			settle(t, s, dispatch.Result{Job: jobs[0], Step: step})
		},
		"held alone": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			enqueue(t, s, leaseOf(1, false), draft("acme"))
			step := delivery.Step{Status: delivery.StatusQueued, Fault: "why", Delay: time.Second, Held: true, Alone: true}
			jobs := claim(t, s, 1, 8).Jobs
			raise()
			settle(t, s, dispatch.Result{Job: jobs[0], Step: step})
		},
		"given back": func(t *testing.T, s *postgres.Store, raise func()) {
			t.Helper()
			id, err := s.Join(t.Context(), "leaves")
			if err != nil {
				t.Fatal(err)
			}
			enqueue(t, s, leaseOf(1, false), draft("acme"))
			claim(t, s, id, 8)
			raise()
			if err := s.Leave(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pool := open(t)
			enqueue(t, s, leaseOf(1, true), draft("acme")) // the flow
			testkit.Exec(t, pool, "DELETE FROM delivery_queue")
			add(t, s, func() { testkit.Exec(t, pool, "UPDATE flow SET floor = now() + interval '1 hour'") })
			if n := testkit.Value[int](t, pool, below); n != 0 || testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue") != 1 {
				t.Errorf("%d rows below the floor", n)
			}
		})
	}
}

// Floors follow the clock, those of flows that always have rows left too.
func TestFloorIsRaised(t *testing.T) {
	const low = "SELECT count(*) FROM flow WHERE floor NOT BETWEEN now() - interval '10 s' AND now() - interval '1 s'"
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"), draft("acme"), draft("acme"))
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now() - interval '2 s'")
	if jobs := claim(t, s, 1, 1).Jobs; len(jobs) != 1 || testkit.Value[int](t, pool, low) != 0 {
		t.Error("the floor of a flow with rows left was not raised")
	}
	testkit.Exec(t, pool, "UPDATE flow SET floor = 'epoch'")
	if jobs := claim(t, s, 1, 1).Jobs; len(jobs) != 1 || testkit.Value[int](t, pool, low) != 1 {
		t.Error("a floor was raised again at once")
	}
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 || testkit.Value[int](t, pool, low) != 0 {
		t.Error("the floor of a drained flow was not raised")
	}
	testkit.Exec(t, pool, "UPDATE delivery_queue SET due_at = now() - interval '1 hour'")
	testkit.Exec(t, pool, "UPDATE flow SET floor = 'epoch', floor_at = 'epoch', ready_at = now()")
	if jobs := claim(t, s, 1, 1).Jobs; len(jobs) != 1 || testkit.Value[int](t, pool, below) != 0 {
		t.Error("the floor is above a row that has waited for long")
	}
}

// A claim that saw all flows and leaves rows behind writes none of them: each
// version would stay for as long as some transaction is kept open.
func TestClaimsLeaveFlowsAsTheyAre(t *testing.T) {
	s, pool := open(t)
	for _, organization := range []string{"a", "b", "c"} {
		enqueue(t, s, leaseOf(1, false), draft(organization), draft(organization), draft(organization))
	}
	testkit.Exec(t, pool, "UPDATE flow SET floor_at = now()")
	const written = "SELECT sum(ctid::text::point <-> point(0, 0))::text || count(DISTINCT xmin::text) FROM flow"
	var before, after string
	if err := pool.QueryRow(t.Context(), written).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if jobs := claim(t, s, 1, 1).Jobs; len(jobs) != 3 {
			t.Errorf("%d jobs", len(jobs))
		}
	}
	if err := pool.QueryRow(t.Context(), written).Scan(&after); err != nil || before != after {
		t.Errorf("the flows were written: %s, before %s (%v)", after, before, err)
	}
}

// The release before 00005 lowers no floor. What it leaves below one is passed over
// while there are other rows, and found before the flow sleeps for good.
func TestFloorAndTheReleaseBefore(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"), draft("acme"))
	testkit.Exec(t, pool, `UPDATE delivery_queue SET due_at = now() - interval '1 hour'
		WHERE delivery_id = (SELECT delivery_id FROM delivery_queue LIMIT 1)`)
	testkit.Exec(t, pool, "UPDATE flow SET floor = now() - interval '1 minute'")
	first := claim(t, s, 1, 8).Jobs
	if len(first) != 1 {
		t.Fatalf("%d jobs", len(first))
	}
	settle(t, s, delivered(first[0]))
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()") // the end of the lease
	if claimed := claim(t, s, 1, 8); len(claimed.Jobs) != 0 || claimed.Next != 0 {
		t.Fatalf("claimed %+v; the flow has a row that is due", claimed)
	}
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// Everything that adds, moves and takes rows at once, while floors are raised
// without any margin: at no moment is a row below its floor. Of many flows, so that
// most are empty, or have leases only, when theirs is raised.
func TestFloorAmongAll(t *testing.T) {
	s, pool := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var all sync.WaitGroup
	busy := func(what string, do func() error) {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	var mu sync.Mutex
	var done []delivery.Job
	for replica := range int64(2) {
		busy("enqueue", func() error {
			_, err := s.Enqueue(ctx, []*delivery.Draft{draft(strconv.Itoa(rand.N(40)))}, leaseOf(replica, rand.N(2) == 0))
			return err
		})
		busy("claim and settle", func() error {
			claimed, err := s.Claim(ctx, dispatch.Claim{
				Replica: replica, Lease: time.Minute, Flows: 10, Bytes: 1 << 20,
				FullFlows: []int64{}, FullOrganizations: []string{}, Grant: rooms(1 + rand.N(20)),
			})
			if err != nil || len(claimed.Jobs) == 0 {
				return err
			}
			results := make([]dispatch.Result, len(claimed.Jobs))
			for i, job := range claimed.Jobs {
				results[i] = delivered(job)
				switch n := rand.N(4); {
				case n == 0 && job.Attempts < job.MaxAttempts-1:
					results[i] = retried(job, time.Duration(rand.N(20))*time.Millisecond)
				case n == 1:
					results[i] = dispatch.Result{Job: job, Step: delivery.Step{Status: delivery.StatusQueued, Attempts: job.Attempts, Fault: "why", Delay: time.Millisecond, Held: true}}
				}
			}
			if _, err := s.Settle(ctx, results); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				if r.Step.Status == delivery.StatusDelivered {
					done = append(done, r.Job)
				}
			}
			return nil
		})
	}
	busy("resend", func() error {
		mu.Lock()
		if len(done) == 0 {
			mu.Unlock()
			return nil
		}
		job := done[rand.N(len(done))]
		mu.Unlock()
		_, _ = s.Resend(ctx, delivery.Resend{Organization: job.Organization, ID: job.ID}) // or it is in flight again
		return nil
	})
	raised := 0
	busy("raise", func() error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		rows, err := tx.Query(ctx, "SELECT flow_id FROM flow FOR UPDATE SKIP LOCKED")
		if err != nil {
			return err
		}
		idle, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE flow f SET floor = coalesce(
			(SELECT min(due_at) FROM delivery_queue q WHERE q.flow_id = f.flow_id), clock_timestamp()) WHERE f.flow_id = ANY ($1)`, idle)
		raised += int(tag.RowsAffected())
		if err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	busy("look", func() error {
		var n int
		err := pool.QueryRow(ctx, below).Scan(&n)
		if n > 0 {
			t.Errorf("%d rows below their floor", n)
			cancel()
		}
		return err
	})
	all.Wait()
	t.Logf("%d delivered, %d floors raised", len(done), raised)
	if len(done) == 0 || raised == 0 { // A slow machine has few of both.
		t.Errorf("%d delivered, %d floors raised", len(done), raised)
	}
}
