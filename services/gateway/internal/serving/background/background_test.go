package background_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ada = conversation.Scope{Organization: "acme", Owner: "ada"}

// fixture is a database with replicas of a queue.
type fixture struct {
	pool      *pgxpool.Pool
	keys      *trace.Keys
	responses *conversation.Manager
}

func open(t *testing.T) *fixture {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	testkit.WriteFile(t, file, strings.Repeat("k", trace.MinSecret)+"\n")
	keys, err := trace.NewKeys(secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{pool: testkit.Postgres(t, migrations.FS), keys: keys}
	f.responses = conversation.NewManager(postgres.NewResponses(f.pool), keys, func(string) time.Duration { return time.Hour })
	return f
}

func (f *fixture) replica(name string, limit, share int) *background.Queue {
	return background.NewQueue(background.Options{
		Store: postgres.NewBackground(f.pool), Conversations: f.responses, Sealer: f.keys, Replica: name,
		Limit: limit, Share: share, Log: slog.New(slog.DiscardHandler),
	})
}

// run runs a queue until the test ends or stop is called.
func run(t *testing.T, q *background.Queue, work func(context.Context, *background.Job)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { _ = q.Run(ctx, work) })
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func job(id string, of conversation.Scope) background.Job {
	return background.Job{
		Scope: of, ID: id, Request: []byte(`{"ask":"` + id + `"}`),
		Record: conversation.Record{ID: id, Input: []byte(`[1]`), Response: []byte(`{"status":"queued"}`), CreatedAt: time.Now()},
	}
}

func (f *fixture) create(t *testing.T, q *background.Queue, j background.Job, events *background.Events) {
	t.Helper()
	if err := q.Create(t.Context(), j, events); err != nil {
		t.Fatal(err)
	}
}

func ended(j *background.Job, response string) conversation.Record {
	end := j.Record
	end.Response = []byte(response)
	return end
}

// A job comes to one replica with all that it was created with, and ends once: a second end changes nothing.
func TestJob(t *testing.T) {
	f := open(t)
	q := f.replica("one", 4, 100)
	first := background.Events{First: 0, Last: 1, Text: []byte("event: a\n\n")}
	created := job("resp_1", ada)
	created.Streamed = true
	f.create(t, q, created, &first)
	jobs := make(chan *background.Job, 1)
	done := make(chan struct{})
	run(t, q, func(_ context.Context, j *background.Job) {
		jobs <- j
		<-done
	})
	got := <-jobs
	want := created
	want.Attempts, want.LastEvent = 1, 1
	want.Record.CreatedAt, got.Record.CreatedAt = time.Time{}, time.Time{}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	if state, err := q.State(t.Context(), "acme", "resp_1"); state != "in_progress" || err != nil {
		t.Errorf("state %q, %v", state, err)
	}
	if state, err := q.State(t.Context(), "bolt", "resp_1"); state != "" || err != nil {
		t.Errorf("another organization sees the state %q, %v", state, err)
	}
	more := background.Events{First: 2, Last: 4, Text: []byte("event: b\n\n")}
	if err := q.Append(t.Context(), got, more); err != nil {
		t.Fatal(err)
	}
	got.Record.CreatedAt = created.Record.CreatedAt
	last := background.Events{First: 5, Last: 5, Text: []byte("event: c\n\n")}
	if ok, err := q.Finish(t.Context(), got, ended(got, `{"status":"completed"}`), &last); !ok || err != nil {
		t.Fatalf("finished %t, %v", ok, err)
	}
	for name, end := range map[string]func() (bool, error){
		"finished again": func() (bool, error) { return q.Finish(t.Context(), got, ended(got, `{"status":"failed"}`), nil) },
		"cancelled":      func() (bool, error) { return q.Cancel(t.Context(), ada, ended(got, `{"status":"cancelled"}`)) },
	} {
		if ok, err := end(); ok || err != nil {
			t.Errorf("%s: %t, %v, want no change", name, ok, err)
		}
	}
	close(done)
	record, err := f.responses.Get(t.Context(), ada, "resp_1")
	if err != nil || string(record.Response) != `{"status":"completed"}` || string(record.Input) != `[1]` {
		t.Errorf("stored %s for %s, %v", record.Response, record.Input, err)
	}
	for after, want := range map[int][]background.Events{-1: {first, more, last}, 1: {more, last}, 3: {more, last}, 4: {last}, 5: {}} {
		events, err := q.Events(t.Context(), "acme", "resp_1", after)
		if diff := cmp.Diff(want, events); diff != "" || err != nil {
			t.Errorf("events after %d: %v (-want +got):\n%s", after, err, diff)
		}
	}
	if _, err := q.Events(t.Context(), "bolt", "resp_1", -1); err == nil {
		t.Error("another organization opens the events")
	}
	if sealed := testkit.Value[[]byte](t, f.pool, "SELECT sealed FROM response_event LIMIT 1"); strings.Contains(string(sealed), "event") {
		t.Error("events are stored in plain text")
	}
}

// A cancelled, deleted or erased job ends wherever it is made, within a second.
func TestEnd(t *testing.T) {
	f := open(t)
	here, there := f.replica("here", 8, 100), f.replica("there", 8, 100)
	causes := make(chan error, 3)
	begun := make(chan *background.Job, 3)
	run(t, here, func(ctx context.Context, j *background.Job) {
		begun <- j
		<-ctx.Done()
		causes <- context.Cause(ctx)
	})
	for name, end := range map[string]func(j *background.Job) error{
		"cancelled": func(j *background.Job) error {
			_, err := there.Cancel(t.Context(), ada, ended(j, `{"status":"cancelled"}`))
			return err
		},
		"deleted": func(j *background.Job) error { return f.responses.Delete(t.Context(), ada, j.ID) },
		"erased":  func(*background.Job) error { _, err := f.responses.Erase(t.Context(), "acme"); return err },
	} {
		f.create(t, there, job("resp_"+name, ada), nil)
		j := <-begun
		if err := end(j); err != nil {
			t.Fatal(err)
		}
		if cause := <-causes; !errors.Is(cause, background.ErrEnded) {
			t.Errorf("%s: ended by %v", name, cause)
		}
		if ok, err := here.Finish(t.Context(), j, ended(j, `{"status":"completed"}`), nil); ok || err != nil {
			t.Errorf("%s, and then finished: %t, %v", name, ok, err)
		}
	}
}

// What a replica gives back or leaves behind, another one makes; a replica that stops ends its own first.
func TestTakeOver(t *testing.T) {
	f := open(t)
	one, two := f.replica("one", 8, 100), f.replica("two", 8, 100)
	begun := make(chan int, 4)
	stop := run(t, one, func(ctx context.Context, j *background.Job) {
		begun <- j.Attempts
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), background.ErrStopping) {
			one.Release(context.WithoutCancel(ctx), j)
		}
	})
	f.create(t, one, job("resp_1", ada), nil)
	<-begun
	stop()
	run(t, two, func(_ context.Context, j *background.Job) { begun <- j.Attempts })
	if attempts := <-begun; attempts != 2 {
		t.Errorf("given back: begun %d times, want 2", attempts)
	}
	testkit.Exec(t, f.pool, "UPDATE background SET holder = 'gone', held_until = now() - interval '1 second'")
	if attempts := <-begun; attempts != 3 {
		t.Errorf("left behind: begun %d times, want 3", attempts)
	}
}

// A job may be begun anew only while no reader has seen a part of it.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		attempts, last int
		want           bool
	}{{1, -1, true}, {2, -1, true}, {3, -1, false}, {1, 1, true}, {2, 1, true}, {2, 2, false}} {
		if j := (background.Job{Attempts: c.attempts, LastEvent: c.last}); j.Again() != c.want {
			t.Errorf("attempt %d after event %d: %t", c.attempts, c.last, j.Again())
		}
	}
}

// An organization has a share of a replica's places, and a bounded queue.
func TestShares(t *testing.T) {
	f := open(t)
	q := f.replica("one", 4, 50)
	bolt := conversation.Scope{Organization: "bolt"}
	for i := range 3 {
		f.create(t, q, job(fmt.Sprint("resp_a", i), ada), nil)
	}
	f.create(t, q, job("resp_b", bolt), nil)
	begun, done := make(chan *background.Job, 4), make(chan struct{})
	run(t, q, func(_ context.Context, j *background.Job) {
		begun <- j
		<-done
		_, _ = q.Finish(context.WithoutCancel(t.Context()), j, ended(j, `{}`), nil)
	})
	count := map[string]int{}
	for range 3 {
		count[(<-begun).Organization]++
	}
	if count["acme"] != 2 || count["bolt"] != 1 {
		t.Errorf("%v are made at once, want two of acme and one of bolt", count)
	}
	close(done)
	if j := <-begun; j.ID == "resp_b" || j.Attempts != 1 {
		t.Errorf("%s is the last, begun %d times; want one of acme for the first time", j.ID, j.Attempts)
	}
	testkit.Exec(t, f.pool, `INSERT INTO response (id, organization_id, owner_id, previous_id, item_ids, key_id, sealed, size, created_at, expires_at)
		SELECT 'resp_x' || n, 'cog', '', '', '{}', 'k', '', 0, now(), now() + interval '1 hour' FROM generate_series(1, $1::int) AS n`, background.MaxQueued)
	testkit.Exec(t, f.pool, `INSERT INTO background (response_id, organization_id, owner_id, state, streamed, key_id, sealed, attempts, holder, held_until, created_at)
		SELECT id, 'cog', '', 'in_progress', false, 'k', '', 1, 'other', now() + interval '1 hour', now() FROM response WHERE organization_id = 'cog'`)
	if err := q.Create(t.Context(), job("resp_y", conversation.Scope{Organization: "cog"}), nil); !errors.Is(err, background.ErrFull) {
		t.Errorf("one too many: %v, want ErrFull", err)
	}
	if _, err := f.responses.Get(t.Context(), conversation.Scope{Organization: "cog"}, "resp_y"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("the refused one is stored: %v", err)
	}
}

// Drain begins nothing new and waits for what is being made.
func TestDrain(t *testing.T) {
	f := open(t)
	q := f.replica("one", 4, 100)
	begun, done := make(chan struct{}, 2), make(chan struct{})
	run(t, q, func(_ context.Context, j *background.Job) {
		begun <- struct{}{}
		<-done
		_, _ = q.Finish(context.WithoutCancel(t.Context()), j, ended(j, `{}`), nil)
	})
	f.create(t, q, job("resp_1", ada), nil)
	<-begun
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Drain(short); err != nil {
		t.Error(err)
	}
	f.create(t, q, job("resp_2", ada), nil)
	close(done)
	if err := q.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if state, err := q.State(t.Context(), "acme", "resp_2"); state != "queued" || err != nil {
		t.Errorf("state %q, %v; want it queued for another replica", state, err)
	}
}
