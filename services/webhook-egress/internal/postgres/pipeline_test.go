package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/migrations"
)

// An error of a queued statement appears with the next result. Nothing of the transaction stays: neither rows nor an open
// transaction on the connection.
func TestAFailureRollsAllBack(t *testing.T) {
	s, pool := open(t)
	first, second := draft("acme"), draft("acme")
	second.SigningMode = "none" // no value of the column
	_, err := s.Enqueue(t.Context(), []*delivery.Draft{first, second}, leaseOf(1, false))
	if !errors.Is(err, delivery.ErrRejected) {
		t.Fatalf("err = %v", err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow"); n != 0 {
		t.Errorf("%d flows stayed", n)
	}
	testkit.Wait(t, "no transaction is open", func() error { // The server sees a moment later that the pool closed one.
		if n := testkit.Value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' AND application_name = current_setting('application_name')"); n != 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
	enqueue(t, s, leaseOf(1, false), first)
	job := claim(t, s, 1, 8).Jobs[0]
	bad := dispatch.Result{Job: job, Step: delivery.Step{Status: "none", Attempts: 1}}
	if _, err := s.Settle(t.Context(), []dispatch.Result{bad}); !errors.Is(err, delivery.ErrRejected) {
		t.Fatalf("err = %v", err)
	}
	done := dispatch.Result{Job: job, Step: delivery.Step{Status: delivery.StatusDelivered, Outcome: delivery.OutcomeDelivered, Attempts: 1}}
	if held, err := s.Settle(t.Context(), []dispatch.Result{done}); err != nil || !held[0] {
		t.Errorf("held %v, %v", held, err)
	}
	statusIs(t, s, "acme", first.ID, delivery.StatusDelivered)
}

// The pipeline and a plain transaction leave the same rows: of an enqueue with a repeated key, a claim, and settles that
// end, retry and hold no lease.
func TestPipelineEqualsPlainTransaction(t *testing.T) {
	type state struct {
		Deduplicated, Held []bool
		Rows               string
	}
	run := func(t *testing.T, way func(*postgres.Store) *postgres.Store) (got state) {
		t.Helper()
		s, pool := open(t)
		way(s)
		first, second, third := draft("acme"), draft("acme"), draft("globex")
		first.Key, second.Key = "k", "k"
		for _, stored := range enqueue(t, s, leaseOf(1, false), first, second, third) {
			got.Deduplicated = append(got.Deduplicated, stored.Deduplicated)
		}
		jobs := claim(t, s, 1, 8).Jobs
		if len(jobs) != 2 {
			t.Fatalf("%d jobs, want 2", len(jobs))
		}
		slices.SortFunc(jobs, func(a, b delivery.Job) int { return strings.Compare(a.Organization, b.Organization) })
		foreign := delivered(jobs[1])
		foreign.Job.LeaseSeq++
		got.Held = append(settle(t, s, delivered(jobs[0]), retried(jobs[1], time.Hour)), settle(t, s, foreign)...)
		got.Rows = testkit.Value[string](t, pool, `SELECT string_agg(concat_ws(' ', organization_id, status, attempts), ', ' ORDER BY organization_id) FROM deliveries`)
		return got
	}
	var piped, plain state
	t.Run("pipeline", func(t *testing.T) { piped = run(t, func(s *postgres.Store) *postgres.Store { return s }) })
	t.Run("plain", func(t *testing.T) { plain = run(t, postgres.WithoutPipeline) })
	if diff := cmp.Diff(plain, piped); diff != "" {
		t.Errorf("the pipeline differs (-plain +pipeline):\n%s", diff)
	}
}

// BenchmarkPipeline enqueues, claims and settles eight deliveries, in the pipeline and in plain transactions.
func BenchmarkPipeline(b *testing.B) {
	for _, way := range []struct {
		name string
		set  func(*postgres.Store) *postgres.Store
	}{{"pipeline", func(s *postgres.Store) *postgres.Store { return s }}, {"plain", postgres.WithoutPipeline}} {
		b.Run(way.name, func(b *testing.B) {
			s := way.set(postgres.New(testkit.Postgres(b, migrations.FS), time.Hour))
			own := growth.ProcessorTime()
			for b.Loop() {
				cycle(b, s)
			}
			b.ReportMetric(float64((growth.ProcessorTime()-own).Nanoseconds())/float64(b.N), "own-cpu-ns/op")
		})
	}
}

func cycle(b *testing.B, s *postgres.Store) {
	b.Helper()
	drafts := make([]*delivery.Draft, 8)
	for i := range drafts {
		drafts[i] = draft("acme")
	}
	if _, err := s.Enqueue(b.Context(), drafts, leaseOf(1, false)); err != nil {
		b.Fatal(err)
	}
	claimed := claim(b, s, 1, len(drafts))
	results := make([]dispatch.Result, len(claimed.Jobs))
	for i, job := range claimed.Jobs {
		results[i] = delivered(job)
	}
	if len(results) != len(drafts) {
		b.Fatalf("%d claimed", len(results))
	}
	if _, err := s.Settle(b.Context(), results); err != nil {
		b.Fatal(err)
	}
}
