package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
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
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/cohere"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
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
	http   *httptest.Server
	vendor *vendor
	conn   *grpc.ClientConn
	log    *lockedBuffer
	custody
	traced
	operations
	// policies reloads with a result that a test sets.
	policies policies
	// purger counts purges.
	purger purger
}

func setup(tb testing.TB) *bench {
	tb.Helper()
	return setupWith(tb, policyText)
}

// setupWith returns a bench with another policy, in which %[1]s is the vendor's URL.
func setupWith(tb testing.TB, policy string) *bench {
	tb.Helper()
	b := &bench{policy: policy, pool: testkit.Postgres(tb, migrations.FS), vendor: newVendor(tb), log: &lockedBuffer{}}
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
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
	if err := api.Register(tb.Context(), server, api.Dependencies{
		Engine: engine, Prober: b.newProber(engine), Policies: &b.policies, Usage: postgres.NewLedger(b.pool), Answers: &b.purger, Byok: b.custodian, Traces: b.archive,
		Organizations: b.organizations, Runs: b.runs, Calls: b.admission,
		Approvals: postgres.NewApprovals(b.control), Trust: postgres.NewTrust(b.control),
		Exposure: postgres.NewExposure(b.pool), Audit: b.control,
		Catalog: b.models, Steering: b.overrides, Status: b.status, Reconciler: b.reconciler(), Prices: func() *price.Table { return b.prices },
		Canonical: func(name string) (string, bool) { return strings.ToLower(name), true },
	}); err != nil {
		tb.Fatal(err)
	}
	if err := server.Check(); err != nil {
		tb.Fatal(err)
	}
	b.server = server
	b.http = httptest.NewServer(server.Handler())
	tb.Cleanup(b.http.Close)
	b.dial(tb, server)
	return b
}

func (b *bench) engine(tb testing.TB, log *slog.Logger) *inference.Engine {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "first.key"), []byte(canary+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	policy, err := policy.Parse(policy.Source{Text: fmt.Appendf(nil, b.policy, b.vendor.URL), KeysDir: dir}, policy.Source{})
	if err != nil {
		tb.Fatal(err)
	}
	transport := wire.NewTransport(time.Second)
	tb.Cleanup(transport.CloseIdleConnections)
	providers, files := make(map[string]provider.Provider), make(map[string]string)
	for _, p := range policy.Providers {
		files[p.Name] = p.KeyFile
		switch p.Dialect {
		case "openai":
			var made *openai.Provider
			made, err = openai.New(openai.Config{Name: p.Name, BaseURL: p.BaseURL, Transport: transport})
			providers[p.Name] = brittle{made}
		case "anthropic":
			providers[p.Name], err = anthropic.New(anthropic.Config{Name: p.Name, BaseURL: p.BaseURL, Transport: transport})
		case "gemini":
			providers[p.Name], err = gemini.New(gemini.Config{Name: p.Name, BaseURL: p.BaseURL, Transport: transport})
		case "cohere":
			providers[p.Name], err = cohere.New(cohere.Config{Name: p.Name, BaseURL: p.BaseURL, Transport: transport})
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
	fleet := &inference.Fleet{NeedsApproval: policy.NeedsApproval(), Keys: keyring.New(keyring.Options{Log: log, Files: files, Fingerprint: fingerprint, Own: b.vault, Canonical: policy.Canonical}), Planner: routing.NewRouter(routing.Options{Policy: policy, Prices: prices, Live: b.monitor, Lifecycles: b.models, Override: b.overrides.Override}), Providers: providers, Prices: prices}
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

// images returns a fetcher that fetches from the fake vendor without name lookups.
func (b *bench) images(tb testing.TB) *imagefetch.Fetcher {
	tb.Helper()
	images, err := imagefetch.New(imagefetch.Options{
		AllowTargets: []string{b.vendor.Listener.Addr().String()},
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
	writer := ledger.NewWriter(postgres.NewLedger(b.pool), rows, ledger.ModeCommitted, log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = writer.Run(ctx) })
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return writer
}

func (b *bench) dial(tb testing.TB, server *rpc.Server) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.GRPC().Serve(listener) })
	b.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = b.conn.Close()
		server.GRPC().Stop()
		wg.Wait()
	})
}

// tokens accepts "svc" as a service, "sup" as support and "ops" as an operator.
func tokens(tb testing.TB) *caller.Tokens {
	tb.Helper()
	sum := func(s string) string { d := sha256.Sum256([]byte(s)); return hex.EncodeToString(d[:]) }
	path := filepath.Join(tb.TempDir(), "tokens.yaml")
	text := "tokens:\n- {name: edge, role: service, sha256: " + sum("svc") + "}\n- {name: desk, role: support, sha256: " + sum("sup") + "}\n- {name: ops, role: operator, sha256: " + sum("ops") + "}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	loaded, err := caller.LoadTokens(path)
	if err != nil {
		tb.Fatal(err)
	}
	return loaded
}

// answer is a response of the JSON face.
type answer struct {
	status int
	body   string
	header http.Header
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
	return b.do(ctx, tb, http.MethodPost, path, body, headers...)
}

// say is post for any method.
func (b *bench) say(tb testing.TB, method, path, body string, headers ...string) answer {
	tb.Helper()
	resp := b.do(tb.Context(), tb, method, path, body, headers...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header}
}

// do sends a request as chat does; an empty header is omitted.
func (b *bench) do(ctx context.Context, tb testing.TB, method, path, body string, headers ...string) *http.Response {
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
	resp, err := b.http.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	return resp
}

// refused checks the whole error document.
func (a answer) refused(tb testing.TB, status int, reason, text string) apierr.Document {
	tb.Helper()
	var document apierr.Document
	if err := json.Unmarshal([]byte(a.body), &document); err != nil {
		tb.Fatalf("%v: %s", err, a.body)
	}
	if a.status != status || string(document.Error) != reason || !strings.Contains(document.Reason, text) ||
		document.ErrorClass == "" || document.RequestID != "req-test" {
		tb.Errorf("%d %s, want %d %s with %q", a.status, a.body, status, reason, text)
	}
	return document
}

func (b *bench) client() (gatewayv1.InferenceServiceClient, metadata.MD) {
	return gatewayv1.NewInferenceServiceClient(b.conn),
		metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme", "x-request-id", "req-test")
}

func (b *bench) rows(tb testing.TB, where string, args ...any) int {
	tb.Helper()
	var n int
	if err := b.pool.QueryRow(tb.Context(), "SELECT count(*) FROM ledger_entry WHERE "+where, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// lockedBuffer collects log lines of concurrent calls.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
