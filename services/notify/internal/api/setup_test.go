package api_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/notify/internal/api"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is the service on a database of its own, with both faces listening.
type bench struct {
	pool   *pgxpool.Pool
	feed   *inbox.Feed
	server *rpc.Server
	http   *httptest.Server
	conn   *grpc.ClientConn
	log    *testkit.Buffer
}

// overrides are what an option may change before the service is put together.
type overrides struct {
	services *api.Services
	senders  []channel.Sender
	box      *seal.Box
}

type option func(t *testing.T, b *bench, p *overrides)

func setup(t *testing.T, options ...option) *bench {
	t.Helper()
	b := &bench{pool: testkit.Postgres(t, migrations.FS), log: &testkit.Buffer{}}
	outbox, inboxes := postgres.NewOutbox(b.pool), postgres.NewInboxes(b.pool)
	b.feed = inbox.NewFeed(inboxes, 100, slog.New(slog.DiscardHandler))
	counts := countfeed.New(b.pool, nil)
	recorder := countfeed.NewRecorder(counts)
	run(t, b.feed.Run, recorder.Run)
	services := api.Services{
		Logs: outbox, Inboxes: inboxes.Announce(b.feed.Notify), Feed: b.feed,
		CallCounts: countfeed.NewPager(counts, slog.New(slog.DiscardHandler)),
	}
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "notify")
	if err != nil {
		t.Fatal(err)
	}
	p := &overrides{services: &services, senders: []channel.Sender{channel.InAppSender{}}, box: box}
	for _, o := range options {
		o(t, b, p)
	}
	services.Sender = send.NewService(send.Options{
		Registry: channel.NewRegistry(services.Push != nil, p.senders...), Outbox: outbox, Updates: outbox, Sealer: box, Opener: box, Lifetime: time.Hour,
	})

	b.server, err = rpc.New(rpc.Options{
		Log:    slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
		Tokens: testkit.Tokens(t,
			testkit.Token{Name: caller.NameEdge, Role: caller.RoleService, Text: "svc"},
			testkit.Token{Name: "product", Role: caller.RoleService, Text: "prd"},
			testkit.Token{Name: "desk", Role: caller.RoleSupport, Text: "sup"},
			testkit.Token{Name: "olga", Role: caller.RoleOperator, Text: "ops"}),
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson,
		ErrorBody: apierr.NewPlain, MaxBody: 1 << 20, UnaryTimeout: 30 * time.Second, Counts: recorder,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Register(t.Context(), b.server, services); err != nil {
		t.Fatal(err)
	}
	if err := b.server.Check(); err != nil {
		t.Fatal(err)
	}
	b.http = httptest.NewServer(b.server.Handler())
	t.Cleanup(b.http.Close)
	b.conn = testkit.Dial(t, b.server.GRPC())
	return b
}

// run runs parts of the service until the test ends.
func run(t *testing.T, parts ...func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { _ = part(ctx) })
	}
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
}

// answer is what came back on the JSON face.
type answer struct {
	status int
	body   string
	header http.Header
}

// do calls the JSON face as the edge, for the organization acme unless a header
// (name, value, ...) says otherwise; an empty value leaves the header out.
func (b *bench) do(t *testing.T, verb, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), verb, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer svc")
	r.Header.Set("X-Organization-Id", "acme")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	status, text, header := testkit.Do(t, b.http.Client(), r)
	return answer{status, text, header}
}

// want stops the test unless the answer has the status.
func (a answer) want(t *testing.T, status int) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
}

// into reads the answer's JSON, which must have come with the status.
func (a answer) into(t *testing.T, status int, v any) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// refused checks a refusal: status, the error document's one field, its text.
func (a answer) refused(t *testing.T, status int, text string) {
	t.Helper()
	var document map[string]string
	a.into(t, status, &document)
	if len(document) != 1 || !strings.Contains(document["error"], text) {
		t.Errorf("error %s, want the one field with %q", a.body, text)
	}
}

type accepted struct {
	NotificationID   string   `json:"notification_id"`
	AcceptedChannels []string `json:"accepted_channels"`
}

type record struct {
	ID     string          `json:"id"`
	UserID *string         `json:"user_id"`
	Text   string          `json:"message"`
	Data   json.RawMessage `json:"data"`
	Read   bool            `json:"read"`
	ReadAt *time.Time      `json:"read_at"`
}

type list struct {
	Records []record `json:"notifications"`
	Next    string   `json:"next_cursor"`
	Unread  int      `json:"unread_count"`
}

// notifyUser stores an in-app record and returns the id of the send.
func (b *bench) notifyUser(t *testing.T, user, message string, headers ...string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"channels": []string{"in_app"}, "message": message, "target": map[string]string{"user_id": user},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got accepted
	b.do(t, "POST", "/v1/notify", string(body), headers...).into(t, http.StatusAccepted, &got)
	return got.NotificationID
}

func (b *bench) list(t *testing.T, query string, headers ...string) list {
	t.Helper()
	var got list
	b.do(t, "GET", "/v1/notifications"+query, "", headers...).into(t, http.StatusOK, &got)
	return got
}
