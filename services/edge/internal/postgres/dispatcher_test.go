package postgres_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// dispatched is the feed and notify of several replicas that apply alert rules. Notify knows repeats by their keys.
type dispatched struct {
	events []alert.Event
	mu     sync.Mutex
	// messages are the notifications by organization and key.
	messages map[string]alert.Notification
	calls    int
	lose     func() // is called during every third call of notify
}

func (d *dispatched) After(_ context.Context, organization, cursor string, limit int) (page []alert.Event, err error) {
	done, _ := strconv.Atoi(cursor)
	for _, e := range d.events[done:] {
		if len(page) < limit && (organization == "" || e.Organization == organization) {
			page = append(page, e)
		}
	}
	return page, nil
}

func (d *dispatched) Notify(_ context.Context, n alert.Notification) error {
	d.mu.Lock()
	key := n.Organization + " " + n.Key
	before, known := d.messages[key]
	d.messages[key] = n
	d.calls++
	lose := d.calls%3 == 0
	d.mu.Unlock()
	if known && before != n {
		return fmt.Errorf("another notification of the key %s: %w", key, alert.ErrRefused)
	}
	if lose {
		d.lose()
	}
	return nil
}

// add adds events of an organization, each of another subject.
func (d *dispatched) add(organization string, number int) {
	for range number {
		at := len(d.events) + 1
		d.events = append(d.events, alert.Event{
			Cursor: fmt.Sprint(at), ID: fmt.Sprint("e", at), Organization: organization, Type: "switchyard.run.exhausted",
			Subject: fmt.Sprint("run/", at), RecordedAt: time.Now(),
		})
	}
}

// dispatch applies rules over a pool until ctx ends.
func (d *dispatched) dispatch(ctx context.Context, t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	meter := noop.NewMeterProvider().Meter("")
	dispatcher, err := alert.NewDispatcher(d, d, postgres.NewAlerts(pool), testkit.Logger(t), meter)
	if err != nil {
		return err
	}
	return dispatcher.Run(ctx)
}

// Two replicas apply rules, and lose their connections to Postgres during calls of notify, as a killed one does: each
// target gets each event under one key. The events of one organization can't be recorded; it alone waits.
func TestDispatchersLoseNothing(t *testing.T) {
	const losses = 3
	pool := testkit.Postgres(t, migrations.FS)
	store := postgres.NewAlerts(pool)
	putRules(t, store, "bad", "busy", "calm")
	d := &dispatched{messages: map[string]alert.Notification{}}
	d.add("bad", 1)
	d.events[0].Subject = "\x00" // Postgres refuses it.
	d.add("busy", 60)
	d.add("none", 3)
	d.add("calm", 2)
	var lost atomic.Int32
	d.lose = func() {
		if lost.Add(1) > losses { // Afterwards they may finish.
			return
		}
		_, _ = pool.Exec(context.WithoutCancel(t.Context()), endTransactions)
	}
	ctx, stop := context.WithCancel(t.Context())
	var replicas errgroup.Group
	for range 2 {
		replicas.Go(func() error { return d.dispatch(ctx, t, pool) })
	}
	testkit.Wait(t, "the organizations whose events can be recorded", func() error {
		const waiting = `SELECT count(*) FROM (VALUES ('busy', '61'), ('calm', '66')) AS w (organization_id, cursor)
			WHERE NOT EXISTS (SELECT FROM alert_progress AS p
				WHERE p.organization_id = w.organization_id AND p.cursor = w.cursor AND p.due_at IS NULL)`
		if n := testkit.Value[int](t, pool, waiting); n > 0 {
			return fmt.Errorf("%d of them wait", n)
		}
		return nil
	})
	stop()
	if err := replicas.Wait(); err != nil {
		t.Error(err)
	}
	sent := map[string]int{}
	for _, n := range d.messages {
		sent[n.Organization]++
	}
	if sent["busy"] != 2*60 || sent["calm"] != 2*2 || len(sent) != 2 {
		t.Errorf("notifications by organization: %v, want two for each event of busy and calm", sent)
	}
	const retried = "SELECT cursor = '' AND failures > 0 FROM alert_progress WHERE organization_id = 'bad'"
	if !testkit.Value[bool](t, pool, retried) {
		t.Error("the failing organization's event is not tried again")
	}
	if lost.Load() < losses {
		t.Errorf("connections were lost %d times", lost.Load())
	}
}
