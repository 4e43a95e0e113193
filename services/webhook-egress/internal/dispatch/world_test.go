package dispatch_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/rate"
	"switchyard.dev/services/webhook-egress/internal/replica"
	"switchyard.dev/services/webhook-egress/internal/signing"
	"switchyard.dev/services/webhook-egress/migrations"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// requestTimeout bounds an attempt.
const requestTimeout = 5 * time.Second

const signingSecret = "canary-signing-secret-0123456789"

// secrets are the organizations' secrets, which a test may change.
type secrets struct {
	mu      sync.Mutex
	missing bool
}

func (s *secrets) Of(context.Context, string) []secret.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing {
		return nil
	}
	return []secret.Value{secret.New(signingSecret)}
}

func (s *secrets) set(missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing = missing
}

// world is a database and what several replicas share.
type world struct {
	t        testing.TB
	pool     *pgxpool.Pool
	store    *postgres.Store
	secrets  *secrets
	guard    *netguard.Guard
	log      *slog.Logger
	limits   dispatch.Limits
	breaker  breaker.Policy
	breakers kv.Store // nil for none
	rates    kv.Store // nil for none
	now      func() time.Time
	opener   dispatch.Opener
	sealer   delivery.Sealer
	roots    *x509.CertPool  // of receivers with TLS; nil for the machine's
	keys     *signing.KeySet // nil for none
}

// newWorld lets the guard through to the receivers.
func newWorld(tb testing.TB, receivers ...*receiver) *world {
	tb.Helper()
	var allowed []string
	for _, r := range receivers {
		allowed = append(allowed, r.Listener.Addr().String())
	}
	guard, err := netguard.New(netguard.Options{AllowTargets: allowed})
	if err != nil {
		tb.Fatal(err)
	}
	pool := testkit.Pool(tb, pgdb.Options{
		URL: testkit.PostgresURL(tb, migrations.FS), MaxConns: 8, ApplicationName: tb.Name(), Settings: postgres.Settings(),
	})
	w := &world{
		t: tb, pool: pool, store: postgres.New(pool, time.Hour), secrets: &secrets{}, guard: guard,
		log: testkit.Logger(tb), limits: limitsOf(64), breaker: breaker.DefaultPolicy(), now: time.Now,
	}
	tb.Cleanup(w.checkNoRowIsForgotten)
	return w
}

// checkNoRowIsForgotten is the invariant behind every test: a flow is looked at no later than its first row is due, or
// within the milliseconds for which a claim puts it behind the others, and no row is due before the floor.
func (w *world) checkNoRowIsForgotten() {
	ctx := context.WithoutCancel(w.t.Context())
	var n int
	var first string
	err := w.pool.QueryRow(ctx, `SELECT count(*), coalesce(min(concat_ws(' ', 'at', now(), 'due', q.due_at, row_to_json(f))), '')
		FROM delivery_queue q JOIN flow f USING (flow_id)
		WHERE f.ready_at > greatest(q.due_at, f.parked_until, now() + interval '50 milliseconds') OR q.due_at < f.floor`).Scan(&n, &first)
	if err != nil || n > 0 {
		w.t.Errorf("%d rows would not be looked at when they are due (%v); the first: %s", n, err, first)
	}
}

func limitsOf(total int) dispatch.Limits { return dispatch.LimitsOf(total, 64<<20) }

// node is one replica.
type node struct {
	engine  *dispatch.Engine
	service *delivery.Service
	member  *replica.Member
	stop    func() // as a kill does: nothing is given back
}

func (w *world) start() *node {
	w.t.Helper()
	n := &node{}
	var err error
	n.member, err = replica.Join(w.t.Context(), w.store, "test", w.log, func() { n.engine.Wake() })
	if err != nil {
		w.t.Fatal(err)
	}
	sender := dispatch.NewHTTP(w.guard, dispatch.HTTPOptions{Timeout: requestTimeout, PerHost: w.limits.Flow, Roots: w.roots})
	tokens := auth.NewTokens(w.guard, w.now)
	n.engine, err = dispatch.New(dispatch.Options{
		Store: w.store, Secrets: w.secrets, Opener: w.opener, Sender: sender, Replica: n.member,
		Tokens: tokens, Timeout: requestTimeout, Keys: w.keys,
		Policy:  delivery.Policy{Schedule: []time.Duration{10 * time.Millisecond}, HoldDelay: 50 * time.Millisecond},
		Breaker: breaker.New(breaker.Options{Policy: w.breaker, Store: w.breakers, Log: w.log, Now: w.now, Random: rand.Float64}),
		Rates:   rate.New(w.rates, w.log, w.now),
		Limits:  w.limits, Lease: 20 * time.Second, Log: w.log, Meter: metricnoop.NewMeterProvider().Meter("test"),
		Tracer: noop.NewTracerProvider().Tracer("test"), Now: w.now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n.service = delivery.NewService(delivery.Options{
		Store: w.store, Dispatcher: n.engine, Targets: delivery.NewTargets(w.guard, w.now),
		Intake:      delivery.Intake{Sealer: w.sealer, MaxAttempts: 12},
		SigningMode: signing.OrgTimestamp, Now: w.now,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{n.engine.Run, n.service.Run, n.member.Run} {
		parts.Go(func() { _ = part(ctx) })
	}
	n.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		sender.Close()
		tokens.Close()
	})
	w.t.Cleanup(n.stop)
	return n
}

// request is one that is accepted for the receiver.
func request(r *receiver) delivery.Request {
	return delivery.Request{Organization: "acme", URL: r.URL + "/hook", EventType: "order.paid", Payload: []byte(`{"n": 1}`)}
}

func (w *world) enqueue(n *node, r delivery.Request) delivery.ID {
	w.t.Helper()
	accepted, err := n.service.Enqueue(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return accepted.ID
}

// leave stores deliveries that no replica has leased, as a full one would.
func (w *world) leave(n int, organization, url string) []delivery.ID {
	w.t.Helper()
	guard, err := w.guard.CheckURL(url)
	if err != nil {
		w.t.Fatal(err)
	}
	port, err := strconv.Atoi(guard.Port())
	if err != nil {
		w.t.Fatal(err)
	}
	var drafts []*delivery.Draft
	var ids []delivery.ID
	for range n {
		d := &delivery.Draft{
			SigningMode: signing.OrgTimestamp,
			ID:          delivery.NewID(time.Now()), Organization: organization, URL: url, EventType: "order.paid", Body: []byte(`{}`),
			Target:      delivery.Target{Organization: organization, Scheme: guard.Scheme, Host: guard.Hostname(), Port: port},
			MaxAttempts: 5,
		}
		drafts, ids = append(drafts, d), append(ids, d.ID)
	}
	lease := delivery.Lease{Duration: time.Second, Reserve: func(delivery.Flow, int) bool { return false }}
	if _, err := w.store.Enqueue(w.t.Context(), drafts, lease); err != nil {
		w.t.Fatal(err)
	}
	return ids
}

func (w *world) get(id delivery.ID) delivery.Record {
	w.t.Helper()
	record, err := w.store.Get(w.t.Context(), "acme", "", id, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

func (w *world) attempts(id delivery.ID) []delivery.Attempt {
	w.t.Helper()
	page, _, err := w.store.Attempts(w.t.Context(), id, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return page
}

// count runs a query that gives one number.
func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	return testkit.Value[int](w.t, w.pool, query, args...)
}

func (w *world) exec(query string) {
	w.t.Helper()
	testkit.Exec(w.t, w.pool, query)
}

// until waits for a condition; that it never comes true fails the test.
func until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-ticker.C:
		case <-timeout:
			tb.Fatalf("never happened: %s", what)
		}
	}
}

func (w *world) untilStatus(id delivery.ID, want delivery.Status) {
	w.t.Helper()
	until(w.t, "status "+string(want), func() bool { return w.get(id).Status == want })
}

// receiver is a customer's server that remembers what it got.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

// newReceiver answers with what handle writes; nil answers 200.
func newReceiver(tb testing.TB, handle http.HandlerFunc) *receiver {
	tb.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.requests, r.bodies = append(r.requests, q), append(r.bodies, string(body))
		r.mu.Unlock()
		if handle != nil {
			handle(w, q)
		}
	}))
	tb.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// perDelivery is how often each delivery arrived.
func (r *receiver) perDelivery() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]int)
	for _, q := range r.requests {
		seen[q.Header.Get("X-Webhook-Id")]++
	}
	return seen
}

// everything dumps all rows of all tables as text.
func (w *world) everything() string {
	w.t.Helper()
	var all strings.Builder
	for _, table := range []string{
		"flow", "flow_health", "delivery_queue", "replica", "deliveries", "attempts", "idempotency", "endpoints",
	} {
		rows, err := w.pool.Query(w.t.Context(), "SELECT to_jsonb(t) FROM "+table+" t")
		if err != nil {
			w.t.Fatal(err)
		}
		for rows.Next() {
			var row json.RawMessage
			if err := rows.Scan(&row); err != nil {
				w.t.Fatal(err)
			}
			all.Write(row)
		}
		if err := rows.Err(); err != nil {
			w.t.Fatal(err)
		}
	}
	return all.String()
}
