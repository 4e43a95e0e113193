package api_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/adapter"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/socket"
	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-canary-1a2b3c4d5e6f"

const policyText = `
default_model: sandbox/sandbox
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox]}
  - {name: first, dialect: openai, base_url: %[1]s, key_file: first.key}
  - {name: second, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [spare]}
  - {name: third, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: shared, upstream: shared-down}]}
  - {name: fourth, dialect: openai, base_url: %[1]s, key_file: first.key, models: [shared]}
  - {name: fifth, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: eyes, features: []}]}
  - {name: keyless, dialect: openai, base_url: %[1]s, key_file: absent.key, models: [nobody]}
ladder: [second/spare]
tools_needing_approval: [deploy, "danger_*"]
`

const pricesText = `
providers:
  - {provider: sandbox, models: [{model: sandbox, effective_from: 2020-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {provider: first, models: [{model: ok, effective_from: 2020-01-01, input_per_mtok_usd: 3, output_per_mtok_usd: 15}, {model: vectors, effective_from: 2020-01-01, input_per_mtok_usd: 3, output_per_mtok_usd: 15}]}
  - {provider: second, models: [{model: spare, effective_from: 2020-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 5}]}
`

// bench is the gateway with its own database and a fake vendor, listening on both faces.
type bench struct {
	policy  string
	pool    *pgxpool.Pool
	control *postgres.Control
	// organizations, runs and admission follow the settings, as in production.
	organizations *postgres.Organizations
	runs          *postgres.Runs
	admission     *admission.Controller

	server *rpc.Server
	drain  *socket.Drain
	bodies *bodymemory.Budget
	http   *httptest.Server
	vendor *vendor
	// documents is the https URL of a server with a PDF below every path but /gone, from which the gateway may fetch.
	documents string
	conn      *grpc.ClientConn
	log       testkit.Buffer
	custody
	traced
	batched
	operations
	tooled
	// policies reloads with a result that a test sets.
	policies policies
	// purger counts purges.
	purger  purger
	oneTool oneTool
}

func setup(tb testing.TB) *bench {
	tb.Helper()
	return setupWith(tb, policyText)
}

// setupWith returns a bench with another policy, in which %[1]s is the vendor's URL.
func setupWith(tb testing.TB, policy string) *bench {
	tb.Helper()
	return setupBench(tb, policy, true)
}

// setupBench is setupWith for a gateway that keeps files and batches, or that has no keys to do so.
func setupBench(tb testing.TB, policy string, keepsFiles bool) *bench {
	tb.Helper()
	b := &bench{policy: policy, pool: testkit.Postgres(tb, migrations.FS), vendor: newVendor(tb)}
	log := slog.New(slog.NewJSONHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.openControl(tb, log)
	b.openTraces(tb, log)
	server, err := rpc.New(rpc.Options{
		Log: log, Tracer: b.tracer, Meter: b.meter, RefuseBody: api.RefuseRawKeyBody, RefuseMessage: api.ScreenMessage,
		Tokens: tokens(tb), Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, NullJSON: optionsv1.E_NullJson,
		ErrorBody: apierr.NewDocument, Dialect: api.DialectOf, MaxBody: 1 << 20, UnaryTimeout: 30 * time.Second,
	})
	if err != nil {
		tb.Fatal(err)
	}
	engine := b.engine(tb, log)
	b.drain, b.bodies = socket.NewDrain(), bodymemory.New(2<<20, 1<<20, 1)
	files, jobs := b.openBatches(tb, log, keepsFiles)
	if err := api.Register(tb.Context(), server, api.Dependencies{
		Files: files, BatchJobs: jobs,
		Engine: engine, Prober: b.newProber(engine), Policies: &b.policies, Usage: postgres.NewLedger(b.pool), Spend: postgres.NewSpend(b.pool), Counts: countfeed.NewPager(postgres.NewCounts(b.pool), log), Answers: &b.purger, Byok: b.manager, Traces: b.archive, Conversations: b.responses,
		Organizations: b.organizations, Runs: b.runs, MostDepth: func() int { return 2 }, Calls: b.admission,
		Approvals: postgres.NewApprovals(b.control), Expressions: expressions(tb), Trust: postgres.NewTrust(b.control), Tools: b.tools,
		Exposure: postgres.NewExposure(b.pool), Audit: b.control,
		Catalog: b.models, Steering: b.overrides, Status: b.status, Reconciler: b.reconciler(), Prices: func() *price.Table { return b.prices },
		Canonical:  func(name string) (string, bool) { return strings.ToLower(name), true },
		Background: api.Background{Queue: b.queue, Start: b.start(tb)},
		ToolFace:   api.ToolFace{Caller: &b.oneTool, Tracer: b.tracer, Meter: b.meter},
		Sockets:    api.Sockets{Connections: 8, Memory: 1 << 20, Share: 50, Message: 1 << 20, Bodies: b.bodies, Drain: b.drain, Admission: b.admission},
	}); err != nil {
		tb.Fatal(err)
	}
	if err := server.Check(); err != nil {
		tb.Fatal(err)
	}
	b.server = server
	handler := server.Handler()
	var handlers sync.WaitGroup // The test server doesn't wait for those of WebSockets.
	tb.Cleanup(handlers.Wait)
	b.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		handler.ServeHTTP(w, r)
	}))
	tb.Cleanup(b.http.Close)
	b.conn = testkit.Dial(tb, server.GRPC())
	return b
}

func (b *bench) engine(tb testing.TB, log *slog.Logger) *inference.Engine {
	tb.Helper()
	dir := tb.TempDir()
	testkit.WriteFile(tb, filepath.Join(dir, "first.key"), canary+"\n")
	policy, err := policy.Parse(policy.Source{Text: fmt.Appendf(nil, b.policy, b.vendor.URL), KeysDir: dir}, policy.Source{})
	if err != nil {
		tb.Fatal(err)
	}
	transport := network.NewTransport(time.Second)
	tb.Cleanup(transport.CloseIdleConnections)
	providers, fleetKeys := make(map[string]provider.Provider), make(map[string][]keyring.Member)
	for _, p := range policy.Providers {
		if p.KeyFile != "" {
			fleetKeys[p.Name] = []keyring.Member{{File: p.KeyFile}}
		} else {
			fleetKeys[p.Name] = nil
		}
		settings := p.Adapter()
		settings.Transport = transport
		switch p.Dialect {
		case "openai":
			var made *openai.Provider
			made, err = openai.New(settings)
			providers[p.Name] = brittle{made}
		case "anthropic", "gemini", "bedrock", "vertex", "cohere":
			of, _ := adapter.Find(p.Dialect)
			providers[p.Name], err = of.New(settings)
		default:
			providers[p.Name] = sandbox.New(sandbox.Config{Name: p.Name})
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	rows, err := price.Parse([]byte(pricesText))
	if err != nil {
		tb.Fatal(err)
	}
	prices, err := price.NewTable(rows)
	if err != nil {
		tb.Fatal(err)
	}
	b.knows(tb, policy, prices)
	fleet := &inference.Fleet{Hedge: policy.Hedge, NeedsApproval: policy.NeedsApproval(), Keys: keyring.New(keyring.Options{Log: log, Fleet: fleetKeys, Fingerprint: fingerprint, Own: b.cache, Canonical: policy.Canonical}), Planner: routing.NewRouter(routing.Options{Policy: policy, Prices: prices, Live: b.monitor, Lifecycles: b.models, Override: b.overrides.Override}), Providers: providers, Prices: prices}
	b.fleet = fleet
	engine, err := inference.New(inference.Options{
		Fleet:  func() *inference.Fleet { return fleet },
		Canary: b.overrides, Health: b.monitor, After: rpc.After,
		Admission: b.admission, Recorder: b.recorder, Ledger: b.writer(tb, log), Approvals: postgres.NewApprovals(b.control), Images: b.images(tb), Log: log, Meter: b.meter, Tracer: b.tracer,
		Clocks: inference.Clocks{Answer: 5 * time.Second, FirstToken: 5 * time.Second, Idle: 5 * time.Second, Total: 20 * time.Second},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return engine
}

// images returns a fetcher that fetches from the fake vendor and the server of documents without name lookups.
func (b *bench) images(tb testing.TB) *imagefetch.Fetcher {
	tb.Helper()
	documents := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, "%PDF-")
	}))
	tb.Cleanup(documents.Close)
	b.documents = documents.URL
	roots := x509.NewCertPool()
	roots.AddCert(documents.Certificate())
	images, err := imagefetch.New(imagefetch.Options{
		AllowTargets: []string{b.vendor.Listener.Addr().String(), documents.Listener.Addr().String()},
		Transport:    netguard.TransportOptions{RootCAs: roots},
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no lookups in tests")
		}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(images.Close)
	return images
}

func (b *bench) writer(tb testing.TB, log *slog.Logger) *ledger.Writer {
	tb.Helper()
	rows, err := spool.Open(tb.TempDir(), 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	announcer, err := postgres.NewAnnouncer(b.pool)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(announcer.Close)
	store := struct {
		*postgres.Ledger
		*pgdb.Announcer
	}{postgres.NewLedger(b.pool), announcer}
	writer := ledger.NewWriter(store, rows, ledger.ModeCommitted, log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = writer.Run(ctx) })
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return writer
}

// tokens accepts "svc" as a service, "sup" as support and "ops" as an operator.
func tokens(tb testing.TB) *caller.Tokens {
	tb.Helper()
	return testkit.Tokens(tb,
		testkit.Token{Name: "edge", Role: caller.RoleService, Text: "svc"},
		testkit.Token{Name: "desk", Role: caller.RoleSupport, Text: "sup"},
		testkit.Token{Name: "ops", Role: caller.RoleOperator, Text: "ops"})
}

// chat calls the JSON face as the edge does, for the organization acme unless a header (name, value, …) sets another.
func (b *bench) chat(tb testing.TB, body string, headers ...string) answer {
	tb.Helper()
	return b.post(tb, chatPath, body, headers...)
}

// post is chat for any path.
func (b *bench) post(tb testing.TB, path, body string, headers ...string) answer {
	tb.Helper()
	return b.say(tb, http.MethodPost, path, body, headers...)
}

const chatPath = "/v1/llm/chat"

func (b *bench) open(ctx context.Context, tb testing.TB, body string, headers ...string) *http.Response {
	tb.Helper()
	return b.openAt(ctx, tb, chatPath, body, headers...)
}

func (b *bench) openAt(ctx context.Context, tb testing.TB, path, body string, headers ...string) *http.Response {
	tb.Helper()
	resp, err := b.http.Client().Do(b.request(ctx, tb, http.MethodPost, path, body, headers...))
	if err != nil {
		tb.Fatal(err)
	}
	return resp
}

// say is post for any method.
func (b *bench) say(tb testing.TB, method, path, body string, headers ...string) answer {
	tb.Helper()
	status, text, header := testkit.Do(tb, b.http.Client(), b.request(tb.Context(), tb, method, path, body, headers...))
	return answer{status, text, header}
}

// request returns one as chat sends it; an empty header is left out.
func (b *bench) request(ctx context.Context, tb testing.TB, method, path, body string, headers ...string) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, method, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer svc", "X-Organization-Id": "acme", "X-Request-Id": "req-test"} {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return r
}

func (b *bench) client() (gatewayv1.InferenceServiceClient, metadata.MD) {
	return gatewayv1.NewInferenceServiceClient(b.conn),
		metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme", "x-request-id", "req-test")
}

func (b *bench) rows(tb testing.TB, where string, args ...any) int {
	tb.Helper()
	return testkit.Value[int](tb, b.pool, "SELECT count(*) FROM ledger_entry WHERE "+where, args...)
}
