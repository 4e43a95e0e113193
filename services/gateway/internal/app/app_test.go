package app

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"))
}

func settings(t *testing.T, databaseURL string) Config {
	t.Helper()
	return Config{
		HTTPListen: testkit.FreeAddress(t), GRPCListen: testkit.FreeAddress(t), DatabaseURLFile: secret.File(testkit.File(t, databaseURL)), AuthDisabled: true,
		AnswerTimeout: time.Minute, FirstTokenTimeout: time.Minute, IdleTimeout: time.Minute,
		TotalTimeout: time.Minute, ConnectTimeout: time.Second, DrainGrace: 20 * time.Second, SettingsStale: time.Minute,
		SpoolDir: t.TempDir(), SpoolLimit: 1 << 20, LedgerMode: "committed", ProbeOrganization: "probes", ProbeBudgetCents: 100,
	}
}

func TestServeRefusesAnOldSchema(t *testing.T) {
	err := Serve(t.Context(), settings(t, testkit.PostgresURL(t, nil)))
	if err == nil || !strings.Contains(err.Error(), "run `gateway migrate`") {
		t.Errorf("error %v, want one that says what to do", err)
	}
}

func TestMigrate(t *testing.T) {
	cfg := settings(t, testkit.PostgresURL(t, nil))
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := "applied " + strings.Join(files, "\napplied ") + "\n"
	for _, want := range []string{all, "the schema is up to date\n"} {
		var out strings.Builder
		if err := Migrate(t.Context(), cfg, &out); err != nil || out.String() != want {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
	}
}

// A stream in flight when the service is stopped ends by itself, and its row is written before the service ends.
func TestServeDrains(t *testing.T) {
	url := testkit.PostgresURL(t, migrations.FS)
	cfg := settings(t, url)
	vendor := newSlowVendor(t)
	cfg.ExtraProvidersFile = testkit.File(t, "providers: [{name: slow, dialect: openai, base_url: "+vendor.url+"}]")
	base, stop := serve(t, cfg)
	resp := chat(t, base, `{"model":"slow/m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "data: {\"content\":\"one\"}\n" {
		t.Fatalf("%q, %v", line, err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	testkit.Wait(t, "not ready any more", func() error {
		if get(t, base+"/health/ready") == http.StatusOK {
			return errors.New("still ready")
		}
		return nil
	})
	close(vendor.goOn)
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), `{"content":"two"}`) || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the stream was cut: %q, %v", rest, err)
	}
	<-stopped
	pool := testkit.Pool(t, pgdb.Options{URL: url})
	if outcome := testkit.Value[string](t, pool, "SELECT outcome FROM ledger_entry"); outcome != "completed" {
		t.Errorf("outcome %q, want completed", outcome)
	}
}

type slowVendor struct {
	url  string
	goOn chan struct{}
}

func newSlowVendor(t *testing.T) *slowVendor {
	t.Helper()
	v := &slowVendor{goOn: make(chan struct{})}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-v.goOn
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"two\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	v.url = "http://" + l.Addr().String()
	return v
}

// get returns the status of a response, 0 without one.
func get(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func chat(t *testing.T, base, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/llm/chat", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Organization-Id", "acme")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
