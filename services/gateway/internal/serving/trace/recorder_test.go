package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a store in memory that fails on demand.
type fakeStore struct {
	Store

	mu      sync.Mutex
	err     error
	refuses string // id of a request that is refused
	breaks  string // id of a request that makes it panic
	records []Record
	tries   int
	dropped []int
}

func (s *fakeStore) Append(_ context.Context, records []Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.err != nil {
		return s.err
	}
	for i := range records {
		if s.breaks != "" && records[i].RequestID == s.breaks {
			panic("bug in storing")
		}
		if records[i].RequestID == s.refuses {
			return ErrRefused
		}
	}
	s.records = append(s.records, records...)
	return nil
}

func (s *fakeStore) Drop(context.Context, time.Time, int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dropped) == 0 {
		return 0, s.err
	}
	n := s.dropped[0]
	s.dropped = s.dropped[1:]
	return n, nil
}

// checkWhole checks that the record has both digests and its content whole and sealed.
func checkWhole(t *testing.T, e Record) {
	t.Helper()
	if len(e.RequestDigest) != 32 || len(e.ResponseDigest) != 32 {
		t.Errorf("%s: digests %x and %x, want 32 bytes each", e.RequestID, e.RequestDigest, e.ResponseDigest)
	}
	if e.Content == nil {
		t.Errorf("%s: no content", e.RequestID)
		return
	}
	if bytes.Contains(e.Content.Sealed, []byte(`"a"`)) {
		t.Errorf("%s: the content is not sealed: %s", e.RequestID, e.Content.Sealed)
	}
	if !e.Content.Replayable || e.Content.Truncated {
		t.Errorf("%s: replayable %t, truncated %t, want a whole content", e.RequestID, e.Content.Replayable, e.Content.Truncated)
	}
}

func long(c string) string { return strings.Repeat(c, MinSecret) }

func newRecorder(t *testing.T, store Store) *Recorder {
	t.Helper()
	keys, err := NewKeys(secret.File(testkit.File(t, long("a"))))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRecorder(Options{
		Store: store, Keys: keys, Log: testkit.Logger(t), Meter: metricnoop.NewMeterProvider().Meter(""),
		Rule: func(string) Rule {
			return Rule{Lineage: true, Retention: time.Hour, SamplePercent: 100, MaxBytes: 4096, ContentRetention: time.Minute}
		},
		Answer: func(a *Observation) (json.RawMessage, error) { return json.Marshal(a.Answer.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func recordOf(id, body string) *Observation {
	a := &Observation{
		ID: uuid.New(), Status: StatusOK, Started: time.Now(), Ended: time.Now(), Keep: 4096,
		Answer: &Answer{Text: "answer"}, AnswerBytes: 6, Report: &ledger.Report{Prompt: 1},
	}
	a.Request.ID, a.Request.Organization = id, "acme"
	a.Request.Raw = RawRequest{Form: "chat", Body: json.RawMessage(body)}
	return a
}

func TestRecorderStoresBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{err: errors.New("away")}
		r := newRecorder(t, s)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx) })
		r.Record(ctx, recordOf("one", `{"a":1}`))
		time.Sleep(10 * time.Second) // The store is unavailable; the first batch and later ones wait.
		r.Record(ctx, recordOf("two", `{"a":2}`))
		r.Record(ctx, recordOf("bad", `{"a":3}`))
		s.mu.Lock()
		s.err, s.refuses = nil, "bad"
		s.mu.Unlock()
		time.Sleep(2 * time.Second)
		stop()
		group.Wait()
		r.Record(ctx, recordOf("last", `{"a":4}`))
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		var ids []string
		for _, e := range s.records {
			ids = append(ids, e.RequestID)
			checkWhole(t, e)
		}
		if strings.Join(ids, " ") != "one two last" || r.dropped.Load() > 1 || r.bytes.Load() != 0 {
			t.Errorf("stored %v, %d bytes held", ids, r.bytes.Load())
		}
	})
}

// Records that arrive within linger share a transaction. A full batch is stored before linger ends.
func TestRecorderGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{}
		r := newRecorder(t, s)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx) })
		for range 3 {
			r.Record(ctx, recordOf("few", `{}`))
			time.Sleep(linger / 10)
		}
		stored := func() (records, tries int) {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.records), s.tries
		}
		if _, tries := stored(); tries != 0 {
			t.Errorf("stored after %s", 3*linger/10)
		}
		time.Sleep(linger)
		if records, tries := stored(); tries != 1 || records != 3 {
			t.Errorf("%d in %d transactions", records, tries)
		}
		begun := time.Now()
		for range maxBatch + 2 {
			r.Record(ctx, recordOf("many", `{}`))
		}
		if records, _ := stored(); records < maxBatch || time.Since(begun) != 0 {
			t.Errorf("%d stored after %s", records, time.Since(begun))
		}
		stop()
		group.Wait()
	})
}

// A record that makes the recorder or its store panic is dropped; all others are kept.
func TestRecorderOutlivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{breaks: "unstorable"}
		r := newRecorder(t, s)
		write := r.Answer
		r.Answer = func(a *Observation) (json.RawMessage, error) {
			if a.Request.ID == "unreadable" {
				panic("bug in writing an answer")
			}
			return write(a)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		for _, batch := range [][]string{{"unreadable"}, {"a", "unreadable", "b"}, {"c", "unstorable", "d"}} {
			for _, id := range batch {
				r.Record(ctx, recordOf(id, `{}`))
			}
			time.Sleep(time.Second)
		}
		cancel()
		running.Wait()
		var kept []string
		for _, e := range s.records {
			kept = append(kept, e.RequestID)
		}
		if got := strings.Join(kept, " "); got != "a b c d" {
			t.Errorf("kept %s, want a b c d", got)
		}
		if r.bytes.Load() != 0 {
			t.Errorf("%d bytes count as held", r.bytes.Load())
		}
	})
}

// A full queue drops records and never blocks.
func TestRecorderDrops(t *testing.T) {
	r := newRecorder(t, &fakeStore{})
	for range maxQueue + 100 {
		r.Record(t.Context(), recordOf("x", `{}`))
	}
	if r.dropped.Load() != 100 {
		t.Errorf("%d dropped, want 100", r.dropped.Load())
	}
	r = newRecorder(t, &fakeStore{})
	big := strings.Repeat("x", maxQueueBytes/4)
	for range 8 {
		r.Record(t.Context(), recordOf("x", big))
	}
	if r.dropped.Load() != 5 || r.bytes.Load() > maxQueueBytes {
		t.Errorf("%d dropped, %d bytes held", r.dropped.Load(), r.bytes.Load())
	}
}

func TestUpkeepTakesBoundedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{dropped: []int{dropBatch, dropBatch, 7, dropBatch}}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = NewUpkeep(s, "traces", testkit.Logger(t)).Run(ctx) })
		synctest.Wait()
		s.mu.Lock()
		left := len(s.dropped)
		s.mu.Unlock()
		if left != 1 {
			t.Errorf("%d batches left after the first look", left)
		}
		stop()
		group.Wait()
	})
}

// discard empties the queue without storing anything.
func (r *Recorder) discard(_ context.Context, observations []*Observation) {
	for _, o := range observations {
		r.bytes.Add(-weight(o))
	}
}

// BenchmarkRecord measures what recording adds to a request before its answer.
func BenchmarkRecord(b *testing.B) {
	r := &Recorder{Options: Options{Rule: func(string) Rule { return Rule{} }}}
	r.queue = batch.NewQueue(batch.Options{Size: 1, Most: 1}, r.discard)
	r.outcomes, _ = metricnoop.NewMeterProvider().Meter("").Int64Counter("x")
	a := recordOf("x", `{}`)
	for b.Loop() {
		r.Record(b.Context(), a)
		_ = r.queue.Drain(b.Context())
	}
}
