package batchjob_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit"
)

// A claim that is lost while the vendor makes the job changes nothing: the job is found by the replica that has it next.
func TestLostDuringCreation(t *testing.T) {
	f := open(t)
	f.one.status = provider.BatchInProgress
	j := f.create(t, 1, nil)
	f.one.during = func() { testkit.Exec(t, f.pool, "UPDATE batch_job SET lease = lease + 1, holder = 'there'") }
	f.turn(t, 1)
	f.one.during = nil
	if got := f.get(t, j.ID); got.Stage != batchjob.StageMaking || got.VendorID != "" {
		t.Fatalf("stage %s with %q after a lost claim", got.Stage, got.VendorID)
	}
	f.turn(t, 1)
	if got := f.get(t, j.ID); got.Stage != batchjob.StageRunning || len(f.one.created) != 1 {
		t.Errorf("stage %s, %d jobs made; want one that runs", got.Stage, len(f.one.created))
	}
}

// shared is a vendor that replicas ask at once.
type shared struct {
	*vendor

	mu sync.Mutex
}

func (s *shared) CreateBatch(ctx context.Context, c provider.Credential, job *provider.BatchJob) (*provider.BatchReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vendor.CreateBatch(ctx, c, job)
}

func (s *shared) FindBatch(ctx context.Context, c provider.Credential, search provider.BatchSearch) (*provider.BatchReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vendor.FindBatch(ctx, c, search)
}

func (s *shared) ReadBatch(ctx context.Context, c provider.Credential, id string) (*provider.BatchReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vendor.ReadBatch(ctx, c, id)
}

func (s *shared) BatchResults(ctx context.Context, c provider.Credential, job *provider.BatchJob, report *provider.BatchReport, each func(provider.BatchResult) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vendor.BatchResults(ctx, c, job, report, each)
}

func (s *shared) DeleteBatch(ctx context.Context, c provider.Credential, report *provider.BatchReport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vendor.DeleteBatch(ctx, c, report)
}

// Replicas that work on the same jobs make each once and bill each request once.
func TestReplicasRace(t *testing.T) {
	const jobs, replicas = 12, 4
	f := open(t)
	one := &shared{vendor: f.one}
	f.one.results = func(ids []string) (all []provider.BatchResult) {
		for _, id := range ids {
			all = append(all, answer(id, &tenTwo))
		}
		return all
	}
	fleet := &inference.Fleet{Keys: f.keyless, Providers: map[string]provider.Provider{"one": one}, Prices: f.Fleet().Prices}
	for range jobs {
		f.create(t, 2, nil)
	}
	var group sync.WaitGroup
	for n := range replicas {
		options := f.Options
		options.Fleet, options.Replica = func() *inference.Fleet { return fleet }, string(rune('a'+n))
		options.Ledger = f.ledger.Ledger
		m, err := batchjob.New(options)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for range 2 * jobs {
				if err := m.Turn(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if ended := testkit.Value[int](t, f.pool, "SELECT count(*) FROM batch_job WHERE stage = 'ended'"); ended != jobs {
		t.Errorf("%d jobs have ended, want %d", ended, jobs)
	}
	creations := 0
	for _, call := range f.one.calls {
		if call == "create by fleet" {
			creations++
		}
	}
	if rows, cost := f.billed(t); creations != jobs || len(f.one.created) != jobs || rows != 2*jobs || cost != 2*jobs*tenTwoCost {
		t.Errorf("%d jobs were made in %d calls, %d rows cost %d; want %d jobs, once each", len(f.one.created), creations, rows, cost, jobs)
	}
}

// A replica whose clock is ahead takes no job that another one holds, and puts none off for longer than it means to.
func TestClocksDiffer(t *testing.T) {
	f := open(t)
	f.one.status = provider.BatchInProgress
	f.create(t, 1, nil)
	held, found, err := f.Store.Claim(t.Context(), "there", time.Minute, []string{})
	if err != nil || !found {
		t.Fatal(found, err)
	}
	f.ahead = time.Hour
	if err := f.Turn(t.Context()); err != nil || len(f.one.calls) != 0 {
		t.Errorf("the vendor was asked to %v, %v, while another replica holds the job", f.one.calls, err)
	}
	if kept, err := f.Store.Renew(t.Context(), held.ID, held.Lease, time.Minute); !kept || err != nil {
		t.Errorf("the claim is lost: %v", err)
	}
	f.turn(t, 1)
	if left := testkit.Value[float64](t, f.pool, "SELECT extract(epoch FROM due_at - now())::float8 FROM batch_job"); left > 60 {
		t.Errorf("it is due in %v s, want a minute at most", left)
	}
}
