package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/testkit"
)

// plain keeps work as it is.
type plain struct{}

func (plain) Open(sealed []byte, _ string) ([]byte, error) { return sealed, nil }

// closedBreaker lets everything through.
type closedBreaker struct{}

func (closedBreaker) Admit(context.Context, string, string, time.Duration) time.Duration { return 0 }

func (closedBreaker) Report(context.Context, string, string, bool, bool, time.Duration) string {
	return ""
}

func (closedBreaker) Release(context.Context, string, string) {}

// transport answers by what the work says, and counts.
type transport struct {
	mu    sync.Mutex
	tasks []channel.Task
	do    func(ctx context.Context, t channel.Task) channel.Outcome
}

func (x *transport) Deliver(ctx context.Context, t channel.Task) channel.Outcome {
	x.mu.Lock()
	x.tasks = append(x.tasks, t)
	x.mu.Unlock()
	return x.do(ctx, t)
}

func (x *transport) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.tasks)
}

// enqueue accepts a send by email.
func enqueue(t *testing.T, pool *pgxpool.Pool, lifetime time.Duration) uuid.UUID {
	t.Helper()
	a := send.Accepted{
		ID: uuid.Must(uuid.NewV7()), Lifetime: lifetime,
		Request: send.Request{Message: channel.Message{Organization: "acme"}, Channels: []channel.Name{channel.Email}},
		Works:   []channel.Work{{Channel: channel.Email, Body: []byte("work"), Destination: "smtp://x"}},
	}
	if _, err := postgres.NewOutbox(pool).Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a.ID
}

func options(t *testing.T, pool *pgxpool.Pool, x channel.Transport) dispatch.Options {
	t.Helper()
	return dispatch.Options{
		Channel: channel.Email, Transport: x, Store: postgres.NewQueue(pool), Opener: plain{}, Breaker: closedBreaker{},
		Policy: channel.Policy{Schedule: []time.Duration{time.Millisecond}, MaxAttempts: 3}, InFlight: 4,
		Timeout: time.Second, Lease: 6 * time.Second, Log: testkit.Logger(t), Meter: metricnoop.NewMeterProvider().Meter(""),
		Now: time.Now, Random: func() float64 { return 0 },
	}
}

// start runs an engine until the test ends, or until the function it gives is called.
func start(t *testing.T, o dispatch.Options) (stop func()) {
	t.Helper()
	engine, err := dispatch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = engine.Run(context.WithoutCancel(t.Context()))
	}()
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
		defer cancel()
		_ = engine.Drain(ctx)
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// ended waits until a send has, and gives its log.
func ended(t *testing.T, pool *pgxpool.Pool, id uuid.UUID) send.Log {
	t.Helper()
	for range 500 {
		log := logOf(t, pool, id)
		if log.Status() != "pending" {
			return log
		}
		<-time.After(20 * time.Millisecond)
	}
	log := logOf(t, pool, id)
	t.Fatalf("the send does not end: %+v", log)
	return log
}

func logOf(t *testing.T, pool *pgxpool.Pool, id uuid.UUID) send.Log {
	t.Helper()
	log, err := postgres.NewOutbox(pool).Log(t.Context(), send.LogQuery{ID: id, Organization: "acme", Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func outcomes(log send.Log) []string {
	var all []string
	for _, a := range log.Attempts {
		text := fmt.Sprint(a.Number, " ", a.Outcome)
		if a.Error != nil {
			text += " " + *a.Error
		}
		all = append(all, text)
	}
	return all
}

func TestOutcomesAreLogged(t *testing.T) {
	tests := map[string]struct {
		answers  []channel.Outcome // the last one repeats
		lifetime time.Duration
		status   send.Status
		log      []string
		doubled  bool
	}{
		"delivered": {[]channel.Outcome{channel.Delivered(250)}, time.Hour, "delivered", []string{"1 ok"}, false},
		"retried": {
			[]channel.Outcome{channel.Retry("smtp_4xx", 451, 0), channel.Delivered(250)},
			time.Hour,
			"delivered",
			[]string{"1 retry_after smtp_4xx", "2 ok"},
			false,
		},
		"refused": {[]channel.Outcome{channel.Failed("recipient_refused", 550, "x")}, time.Hour, "failed", []string{"1 permanent recipient_refused"}, false},
		"given up": {
			[]channel.Outcome{channel.Retry("smtp_4xx", 451, 0)},
			time.Hour,
			"failed",
			[]string{"1 retry_after smtp_4xx", "2 retry_after smtp_4xx", "3 retry_after smtp_4xx"},
			false,
		},
		"unknown, then sent": {
			[]channel.Outcome{channel.Lost("timeout"), channel.Delivered(250)},
			time.Hour,
			"delivered",
			[]string{"1 unknown timeout", "2 ok"},
			true,
		},
		"unknown, then refused": {
			[]channel.Outcome{channel.Lost("timeout"), channel.Failed("x", 550, "")},
			time.Hour,
			"failed",
			[]string{"1 unknown timeout", "2 permanent x"},
			false,
		},
		"handed over": {
			[]channel.Outcome{channel.HandedOver("dlv", 0), channel.HandedOver("dlv", 0), channel.Delivered(200)},
			time.Hour,
			"delivered",
			[]string{"1 ok"},
			false,
		},
		"expired": {[]channel.Outcome{channel.Delivered(250)}, -time.Second, "failed", []string{"1 permanent expired"}, false},
	}
	pool := testkit.Postgres(t, migrations.FS)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var n int
			x := &transport{do: func(context.Context, channel.Task) channel.Outcome {
				n++
				return tt.answers[min(n, len(tt.answers))-1]
			}}
			id := enqueue(t, pool, tt.lifetime)
			start(t, options(t, pool, x))
			log := ended(t, pool, id)
			if diff := cmp.Diff(tt.log, outcomes(log)); diff != "" || log.Status() != tt.status {
				t.Errorf("status %s, attempts (-want +got):\n%s", log.Status(), diff)
			}
			c := log.Channels[0]
			if c.PossiblyDuplicated != tt.doubled {
				t.Errorf("possibly duplicated %t, want %t", c.PossiblyDuplicated, tt.doubled)
			}
			if c.Delivered+c.Failed != 1 {
				t.Errorf("%d delivered and %d failed, want 1 together", c.Delivered, c.Failed)
			}
			if c.FinishedAt == nil || c.Attempts != len(tt.log) {
				t.Errorf("finished at %v after %d attempts, want a time after %d", c.FinishedAt, c.Attempts, len(tt.log))
			}
			var left int
			query := "SELECT count(*) FROM channel_send WHERE notification_id = $1 AND work IS NOT NULL"
			if err := pool.QueryRow(t.Context(), query, id).Scan(&left); err != nil || left != 0 {
				t.Errorf("work is kept: %d, %v", left, err)
			}
		})
	}
}

// Several replicas and many sends: each is tried once.
func TestReplicasShareTheWork(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	var ids []uuid.UUID
	for range 60 {
		ids = append(ids, enqueue(t, pool, time.Hour))
	}
	x := &transport{do: func(context.Context, channel.Task) channel.Outcome { return channel.Delivered(250) }}
	for range 3 {
		start(t, options(t, pool, x))
	}
	for _, id := range ids {
		ended(t, pool, id)
	}
	if x.count() != len(ids) {
		t.Errorf("%d attempts for %d sends", x.count(), len(ids))
	}
}

// After a sender has died, its recipient is tried again when the lease is over, the
// log has the attempt with an unknown outcome, and the fence keeps a result that the
// sender may still report from counting.
func TestLostSender(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	queue := postgres.NewQueue(pool)
	id := enqueue(t, pool, time.Hour)
	lost, err := queue.Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: 5, Lease: 50 * time.Millisecond})
	if err != nil || len(lost) != 1 || lost[0].Lost {
		t.Fatalf("took %+v, %v", lost, err)
	}
	x := &transport{do: func(context.Context, channel.Task) channel.Outcome { return channel.Delivered(250) }}
	start(t, options(t, pool, x))
	log := ended(t, pool, id)
	if diff := cmp.Diff([]string{"1 unknown sender_lost", "2 ok"}, outcomes(log)); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if c := log.Channels[0]; !c.PossiblyDuplicated || c.Delivered != 1 {
		t.Errorf("channel %+v", c)
	}
	held, err := queue.Settle(t.Context(), channel.Email, []dispatch.Result{{Leased: lost[0], Step: channel.Step{Ended: true}, Attempts: 1}})
	if err != nil || held[0] {
		t.Errorf("the lost sender settled after all: %v, %v", held, err)
	}
	if again := logOf(t, pool, id); again.Status() != "delivered" || len(again.Attempts) != 2 {
		t.Errorf("log %+v", again)
	}
}

// A drain waits for what is under way, and what it has to cut is marked.
func TestDrain(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	begun := make(chan struct{}, 1)
	x := &transport{do: func(ctx context.Context, _ channel.Task) channel.Outcome {
		begun <- struct{}{}
		<-ctx.Done()
		return channel.Lost(channel.ClassTimeout)
	}}
	o := options(t, pool, x)
	o.Timeout = time.Minute
	id := enqueue(t, pool, time.Hour)
	stop := start(t, o)
	<-begun
	stop()
	log := logOf(t, pool, id)
	if diff := cmp.Diff([]string{"1 unknown timeout"}, outcomes(log)); diff != "" || log.Channels[0].State != send.StateRetrying {
		t.Errorf("state %s, attempts (-want +got):\n%s", log.Channels[0].State, diff)
	}
}

func TestTransportThatPanics(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	x := &transport{do: func(context.Context, channel.Task) channel.Outcome { panic("boom") }}
	id := enqueue(t, pool, time.Hour)
	start(t, options(t, pool, x))
	if got := outcomes(ended(t, pool, id)); len(got) != 3 || got[0] != "1 unknown internal" {
		t.Errorf("attempts %v", got)
	}
}

func TestUpkeep(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	open := enqueue(t, pool, time.Hour)
	done := accepted(t, inbox.Address{Organization: "acme"})
	done.IdempotencyKey = "k"
	if _, err := postgres.NewOutbox(pool).Accept(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, pool, "UPDATE notification SET created_at = now() - interval '2 days'")
	testkit.Exec(t, pool, "UPDATE idempotency_key SET created_at = now() - interval '2 days'")
	upkeep := postgres.NewUpkeep(pool)
	if n, err := upkeep.DeleteKeys(t.Context(), 72*time.Hour, 10); n != 0 || err != nil {
		t.Errorf("%d young keys deleted, %v", n, err)
	}
	if n, err := upkeep.DeleteKeys(t.Context(), 24*time.Hour, 10); n != 1 || err != nil {
		t.Errorf("%d keys deleted, %v, want 1", n, err)
	}
	if n, err := upkeep.DeleteLogs(t.Context(), 24*time.Hour, 10); n != 1 || err != nil {
		t.Errorf("%d logs deleted, %v, want the one that has ended", n, err)
	}
	if log := logOf(t, pool, open); log.Status() != "pending" {
		t.Errorf("the open send: %s", log.Status())
	}
}
