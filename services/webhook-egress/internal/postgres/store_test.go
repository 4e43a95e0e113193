package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/migrations"
)

func open(t *testing.T) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool := testkit.Postgres(t, migrations.FS)
	return postgres.New(pool, time.Hour), pool
}

func draft(organization string) *delivery.Draft {
	return &delivery.Draft{
		ID: delivery.NewID(time.Now()), Organization: organization, URL: "https://example.com/", EventType: "e", SigningMode: "org_timestamp",
		Target: delivery.Target{Organization: organization, Scheme: "https", Host: "example.com", Port: 443},
		Body:   []byte("{ }"), MaxAttempts: 3,
	}
}

func leaseOf(replica int64, reserve bool) delivery.Lease {
	return delivery.Lease{Replica: replica, Duration: time.Minute, Reserve: func(delivery.Flow, int) bool { return reserve }}
}

// leased is the result of storing a draft with a lease.
func leased(flow delivery.Flow, seq int64) delivery.Stored {
	return delivery.Stored{Flow: flow, LeaseSeq: seq}
}

func enqueue(t *testing.T, s *postgres.Store, lease delivery.Lease, drafts ...*delivery.Draft) []delivery.Stored {
	t.Helper()
	stored, err := s.Enqueue(t.Context(), drafts, lease)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// rooms grants the same room to each flow, and one row to those that are tried.
func rooms(room int) func(context.Context, []dispatch.Picked) []dispatch.Grant {
	return func(_ context.Context, picked []dispatch.Picked) []dispatch.Grant {
		grants := make([]dispatch.Grant, len(picked))
		for i, p := range picked {
			grants[i].Rows = room
			if p.Held || p.Own.Phase == breaker.Open || p.Host.Phase == breaker.Open {
				grants[i].Rows = 1
			}
		}
		return grants
	}
}

func claim(tb testing.TB, s *postgres.Store, replica int64, room int) dispatch.Claimed {
	tb.Helper()
	claimed, err := s.Claim(tb.Context(), dispatch.Claim{
		Replica: replica, Lease: time.Minute, Flows: 10, Bytes: 1 << 20,
		FullFlows: []int64{}, FullOrganizations: []string{}, Grant: rooms(room),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return claimed
}

func delivered(job delivery.Job) dispatch.Result {
	return dispatch.Result{
		Job:  job,
		Step: delivery.Step{Status: delivery.StatusDelivered, Outcome: delivery.OutcomeDelivered, Attempts: job.Attempts + 1},
		Attempt: &delivery.Attempt{
			Generation: 1, Number: job.Attempts + 1, Outcome: delivery.OutcomeDelivered, URL: job.URL, ResponseCode: 200, Started: time.Now(),
		},
	}
}

func TestKeysExpire(t *testing.T) {
	s, pool := open(t)
	first, second, third := draft("acme"), draft("acme"), draft("acme")
	first.Key, second.Key, third.Key = "k", "k", "k"
	second.Fingerprint[0] = 1
	enqueue(t, s, leaseOf(1, false), first)
	if got := enqueue(t, s, leaseOf(1, false), second)[0]; !got.Deduplicated || !got.Mismatch || got.ID != first.ID {
		t.Errorf("another request = %+v", got)
	}
	testkit.Exec(t, pool, "UPDATE idempotency SET expires_at = now()")
	if got := enqueue(t, s, leaseOf(1, false), third)[0]; got.Deduplicated {
		t.Errorf("after the window = %+v", got)
	}
	testkit.Exec(t, pool, "UPDATE idempotency SET expires_at = now()")
	if n, err := s.PurgeKeys(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
}

// A key belongs to an owner. Another request with the key is a repeat that is marked as a mismatch; in a batch that is
// all or none, it refuses the batch.
func TestKeysBelongToOwners(t *testing.T) {
	s, pool := open(t)
	keyed := func(owner string, print byte) *delivery.Draft {
		d := draft("acme")
		d.Owner, d.Key, d.Fingerprint = owner, "k", [32]byte{print}
		return d
	}
	ann, other := keyed("ann", 1), keyed("ann", 2)
	got := enqueue(t, s, leaseOf(1, false), ann, keyed("bob", 2), keyed("", 3), keyed("ann", 1), other)
	if !got[0].New() || !got[1].New() || !got[2].New() {
		t.Errorf("keys of three owners: %+v", got[:3])
	}
	if !got[3].Deduplicated || got[3].Mismatch || got[3].ID != ann.ID || !got[4].Mismatch || got[4].ID != ann.ID {
		t.Errorf("ann's key again: %+v, for another request: %+v", got[3], got[4])
	}
	fresh := keyed("ann", 1)
	fresh.Key, fresh.AllOrNone, other.AllOrNone = "fresh", true, true
	_, err := s.Enqueue(t.Context(), []*delivery.Draft{fresh, other}, leaseOf(1, false))
	if refused, ok := errors.AsType[*delivery.RefusedError](err); !ok || refused.Place != 1 || !errors.Is(err, delivery.ErrKeyReused) {
		t.Errorf("all or none: %v", err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries"); n != 3 {
		t.Errorf("%d deliveries, want 3", n)
	}
}

func TestRejected(t *testing.T) {
	s, _ := open(t)
	bad := draft("acme")
	bad.EventType = "a\x00b"
	if _, err := s.Enqueue(t.Context(), []*delivery.Draft{bad}, leaseOf(1, false)); !errors.Is(err, delivery.ErrRejected) {
		t.Errorf("err = %v", err)
	}
}

func TestGetIsScoped(t *testing.T) {
	s, _ := open(t)
	d := draft("acme")
	d.Owner = "ann"
	enqueue(t, s, leaseOf(1, false), d)
	for _, tt := range []struct {
		organization, owner string
		id                  delivery.ID
		found               bool
	}{
		{"acme", "", d.ID, true},
		{"acme", "ann", d.ID, true},
		{"acme", "bob", d.ID, false},
		{"other", "", d.ID, false},
		{"acme", "", delivery.NewID(time.Now()), false},
		{"acme", "", delivery.NewID(time.Now().AddDate(-3, 0, 0)), false},
	} {
		record, err := s.Get(t.Context(), tt.organization, tt.owner, tt.id, true)
		if !tt.found {
			if apierr.From(err).Kind != apierr.KindNotFound {
				t.Errorf("%q %q: %v, want not found", tt.organization, tt.owner, err)
			}
			continue
		}
		if err != nil || string(record.Body) != "{ }" {
			t.Errorf("%q %q: body %q, %v", tt.organization, tt.owner, record.Body, err)
		}
	}
}

func TestExpireDue(t *testing.T) {
	s, pool := open(t)
	past, later, leased := draft("acme"), draft("acme"), draft("acme")
	past.Deadline, later.Deadline, leased.Deadline = time.Now().Add(-time.Second), time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	enqueue(t, s, leaseOf(1, false), past, later)
	enqueue(t, s, leaseOf(1, true), leased)
	if n, err := s.ExpireDue(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	record, err := s.Get(t.Context(), "acme", "", past.ID, false)
	if err != nil || record.Status != delivery.StatusExpired || record.Finished.IsZero() {
		t.Errorf("record %+v, %v", record, err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue"); n != 2 {
		t.Errorf("%d rows left, want 2", n)
	}
}

func TestPartitions(t *testing.T) {
	s, pool := open(t)
	if made, err := s.EnsurePartitions(t.Context(), 5); made != 0 || err != nil {
		t.Errorf("the migration left %d to make, %v", made, err)
	}
	if made, err := s.EnsurePartitions(t.Context(), 7); made != 10 || err != nil {
		t.Errorf("made %d for two more days, %v", made, err)
	}
	part := time.Now().UTC().AddDate(0, 0, 5).Format("20060102")
	indexes := testkit.Value[int](t, pool, `SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		JOIN pg_index x ON x.indexrelid = c.oid JOIN pg_class t ON t.oid = x.indrelid WHERE t.relname = $1`, "deliveries_"+part)
	if indexes != 4 {
		t.Errorf("%d indexes of the new partition belong to its parent's, want 4", indexes)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM pg_partitioned_table WHERE partdefid <> 0"); n != 0 {
		t.Error("there is a default partition")
	}
}

// A read by id has to open one partition, however many there are.
func TestReadPrunes(t *testing.T) {
	_, pool := open(t)
	id := delivery.NewID(time.Now())
	rows, err := pool.Query(t.Context(), fmt.Sprintf(
		"EXPLAIN SELECT status FROM deliveries WHERE id = '%s' AND created_at = '%s'", id, id.Time().Format(time.RFC3339Nano)))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines int
	for rows.Next() {
		lines++
	}
	if err := rows.Err(); err != nil || lines > 3 {
		t.Errorf("the plan has %d lines, %v", lines, err)
	}
}
