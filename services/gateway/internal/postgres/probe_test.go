package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestProbeLease(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	lease := postgres.NewProbeLease(pool)
	var taken atomic.Int64
	var winner atomic.Value
	var group sync.WaitGroup
	for range 16 { // As many replicas concurrently.
		group.Go(func() {
			holder := uuid.New()
			ok, err := lease.Take(t.Context(), holder, probe.KindCanary, time.Minute)
			if err != nil {
				t.Error(err)
			}
			if ok {
				taken.Add(1)
				winner.Store(holder)
			}
		})
	}
	group.Wait()
	if taken.Load() != 1 {
		t.Fatalf("%d have the lease", taken.Load())
	}
	holder := winner.Load().(uuid.UUID)
	if kind, since, err := lease.Running(t.Context()); err != nil || kind != probe.KindCanary || time.Since(since) > time.Minute {
		t.Errorf("%s %s %v", kind, since, err)
	}
	if kept, err := lease.Prolong(t.Context(), holder, time.Minute); err != nil || !kept {
		t.Errorf("%v %v", kept, err)
	}
	if kept, err := lease.Prolong(t.Context(), uuid.New(), time.Minute); err != nil || kept {
		t.Errorf("a stranger prolonged: %v %v", kept, err)
	}
	// The lease of a replica that died expires, and that replica may not prolong it.
	if _, err := pool.Exec(t.Context(), "UPDATE probe_lease SET taken_at = now() - interval '1 h', until = now() - interval '1 s'"); err != nil {
		t.Fatal(err)
	}
	next := uuid.New()
	if ok, err := lease.Take(t.Context(), next, probe.KindLiveness, time.Minute); err != nil || !ok {
		t.Errorf("%v %v", ok, err)
	}
	if kept, err := lease.Prolong(t.Context(), holder, time.Minute); err != nil || kept {
		t.Errorf("the dead prolonged: %v %v", kept, err)
	}
	if err := lease.Release(t.Context(), holder); err != nil {
		t.Error(err)
	}
	if kind, _, _ := lease.Running(t.Context()); kind != probe.KindLiveness {
		t.Errorf("the dead released it: %q", kind)
	}
	if err := lease.Release(t.Context(), next); err != nil {
		t.Error(err)
	}
	if kind, _, err := lease.Running(t.Context()); kind != "" || err != nil {
		t.Errorf("%q %v", kind, err)
	}
}
