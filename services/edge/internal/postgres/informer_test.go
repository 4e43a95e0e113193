package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// outside is the feed, the gateway and notify of several replicas. Notify refuses another message of a known key.
type outside struct {
	mu       sync.Mutex
	events   []alert.Event
	tokens   int
	messages map[string]string // by key
	calls    int
	lose     func() // is called amid every third call of notify
}

func (o *outside) After(_ context.Context, _, cursor string, limit int) ([]alert.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done, _ := strconv.Atoi(cursor)
	return o.events[done:min(done+limit, len(o.events))], nil
}

// add adds an event.
func (o *outside) add(eventType, ref string, data map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	data["ref"], data["tool"], data["expires_at"] = ref, "deploy", time.Now().Add(time.Hour).Format(time.RFC3339)
	o.events = append(o.events, alert.Event{
		Cursor: fmt.Sprint(len(o.events) + 1), ID: fmt.Sprint("e", len(o.events)), Organization: "acme", Type: eventType, Data: data, RecordedAt: time.Now(),
	})
}

func (o *outside) Approval(context.Context, string, string) (approver.Present, error) {
	return approver.Present{State: approver.Waiting}, nil
}

func (o *outside) Mint(context.Context, string, string, string, string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tokens++
	return fmt.Sprintf("%064x", o.tokens), nil
}

func (o *outside) Version(context.Context, string) (string, error) { return "v1", nil }

func (o *outside) put(m approver.Message) (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	before, known := o.messages[m.Repeated]
	o.messages[m.Repeated] = string(text)
	o.calls++
	lose := o.calls%3 == 0
	o.mu.Unlock()
	if known && before != string(text) {
		return "", fmt.Errorf("another message of the key %s: %w", m.Repeated, alert.ErrRefused)
	}
	if lose {
		o.lose()
	}
	return "n-" + m.Repeated, nil
}

func (o *outside) Send(_ context.Context, _ string, m approver.Message) (string, error) {
	return o.put(m)
}

func (o *outside) Update(_ context.Context, _, _ string, m approver.Message) error {
	_, err := o.put(m)
	return err
}

// inform runs an informer over a pool until ctx ends.
func (o *outside) inform(ctx context.Context, t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	box, err := usertoken.NewBox(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		return err
	}
	i, err := approver.NewInformer(approver.Options{
		Feed: o, Gateway: o, Notifier: o, Store: postgres.NewApprovers(pool), Box: box, Public: &url.URL{Scheme: "https", Host: "api.example.com"},
		Log: testkit.Logger(t), Meter: noop.NewMeterProvider().Meter(""),
	})
	if err != nil {
		return err
	}
	return i.Run(ctx)
}

// Two replicas notify of the same approvals, and lose their connections to Postgres, as a killed one does, after every third
// call of notify: each member gets each message, and each its update, under one key with one text.
func TestInformersLoseNothing(t *testing.T) {
	const number = 6
	pool := testkit.Postgres(t, migrations.FS)
	by := alert.Author{Name: "olga", At: time.Now()}
	groups := []approver.Group{{
		Name: "default", Members: []approver.Member{{User: "ann", Email: "ann@example.com"}, {User: "bob"}},
		Steps: []approver.Step{{After: "0s", Channels: []string{"in_app", "email"}}, {After: "1h", Channels: []string{"web_push"}}},
	}}
	if err := approver.NewGroups(postgres.NewApprovers(pool)).Set(t.Context(), by, "acme", groups); err != nil {
		t.Fatal(err)
	}
	o := &outside{messages: map[string]string{}}
	var lost atomic.Int32
	o.lose = func() {
		if lost.Add(1) > 4*number { // Afterwards they may finish.
			return
		}
		_, _ = pool.Exec(context.WithoutCancel(t.Context()), endTransactions)
	}
	ctx, stop := context.WithCancel(t.Context())
	var replicas errgroup.Group
	for range 2 {
		replicas.Go(func() error { return o.inform(ctx, t, pool) })
	}
	for n := range number {
		o.add("switchyard.approval.pending", fmt.Sprint("r", n), map[string]any{"status": "pending"})
	}
	await := func(state string, want int) {
		t.Helper()
		testkit.Wait(t, "the notices that are "+state, func() error {
			if got := testkit.Value[int](t, pool, "SELECT count(*) FROM approval_notice WHERE state = '"+state+"'"); got != want {
				return fmt.Errorf("%d, want %d", got, want)
			}
			return nil
		})
	}
	await(approver.Sent, 3*number)
	for n := range number {
		o.add("switchyard.approval.decided", fmt.Sprint("r", n), map[string]any{"status": "approved", "decided_by": "ann"})
	}
	await(approver.Closed, 3*number)
	stop()
	if err := replicas.Wait(); err != nil {
		t.Error(err)
	}
	if cancelled := testkit.Value[int](t, pool, "SELECT count(*) FROM approval_notice WHERE state = 'cancelled'"); len(o.messages) != 6*number || cancelled != 2*number {
		t.Errorf("%d messages and updates, %d cancelled; want %d and %d", len(o.messages), cancelled, 6*number, 2*number)
	}
	if lost.Load() < number {
		t.Errorf("connections were lost %d times", lost.Load())
	}
}
