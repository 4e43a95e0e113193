package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// folder holds the files of a test.
type folder string

func (f folder) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(string(f), name)
	next := path + ".new" // Replaced as a whole, as an operator's tool does.
	testkit.WriteFile(t, next, text)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func newFleets(t *testing.T, cfg Config, log io.Writer) *fleets {
	t.Helper()
	f := &fleets{cfg: cfg, network: direct{}, log: slog.New(slog.NewJSONHandler(log, nil)), affinities: routing.NewAffinityTable(), models: catalog.NewStore(nil), releases: &releaseStore{}}
	first, err := f.read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f.present.Store(first)
	if err := f.measure(metricnoop.NewMeterProvider().Meter("")); err != nil {
		t.Fatal(err)
	}
	return f
}

const smallPolicy = "default_model: box/m\nproviders:\n  - {name: box, dialect: sandbox, models: [{name: m, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}\n"

func TestReload(t *testing.T) {
	dir, log := folder(t.TempDir()), &bytes.Buffer{}
	cfg := Config{PolicyFile: dir.write(t, "policy.yaml", smallPolicy), PricesFile: dir.write(t, "prices.yaml", "providers: []\n")}
	cfg.ExtraProvidersFile = dir.write(t, "extra.yaml", "providers: []\n")
	f := newFleets(t, cfg, log)
	old := f.fleet()

	unchanged, err := f.Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if unchanged.Changed || len(unchanged.Changes) != 0 {
		t.Errorf("the same files: changed %t, changes %q, want none", unchanged.Changed, unchanged.Changes)
	}
	if unchanged.Now.Hash != unchanged.Before.Hash || unchanged.Now.Models != 1 {
		t.Errorf("the same files: %+v after %+v, want the same hash and 1 model", unchanged.Now, unchanged.Before)
	}
	dir.write(t, "extra.yaml", "providers: [{name: more, dialect: openai, base_url: 'http://127.0.0.1:9', key_file: more.key, models: [x, y]}, {name: free, dialect: sandbox, models: [z]}]")
	done, err := f.Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"provider more added", "provider free added"}, done.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if !done.Changed || done.Now.Models != 4 {
		t.Errorf("changed %t, %d models, want true, 4", done.Changed, done.Now.Models)
	}
	if done.Before.Hash != unchanged.Now.Hash {
		t.Errorf("hash before %s, want %s", done.Before.Hash, unchanged.Now.Hash)
	}
	want := []string{"provider more has no key in " + filepath.Join(string(dir), "more.key"), "model free/z has no price"}
	if diff := cmp.Diff(want, done.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if f.fleet().Providers["more"] == nil || old.Providers["more"] != nil {
		t.Error("the new provider is not there, or in a fleet from before")
	}
	dir.write(t, "more.key", "sk-more")
	testkit.Wait(t, "the key of the new provider", func() error { // The file is checked ten times a second.
		key, err := f.fleet().Keys.Resolve(t.Context(), keyring.Scope{}, "more")
		if err == nil && key[0].Key.Reveal() != "sk-more" {
			err = errors.New("another key")
		}
		return err
	})
	dir.write(t, "prices.yaml", "providers: [{provider: free, models: [{model: z, effective_from: 2026-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]")
	if done, err = f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !done.Changed || strings.Join(done.Changes, "") != "prices changed" {
		t.Errorf("changed %t, changes %q, want the prices to have changed", done.Changed, done.Changes)
	}
	if len(done.Warnings) != 2 {
		t.Errorf("warnings %q, want 2", done.Warnings)
	}
	dir.write(t, "policy.yaml", smallPolicy+"resilience: {breaker: {sample: 9}}\n")
	if done, err = f.Reload(t.Context()); err != nil || !strings.Contains(strings.Join(done.Warnings, "; "), "changes of resilience take effect at the next start") {
		t.Errorf("%+v, %v, want a warning", done, err)
	}
	if text := log.String(); strings.Count(text, "policy reloaded") != 4 || strings.Contains(text, "sk-more") {
		t.Errorf("the log: %s", text)
	}
}

// An invalid file changes nothing, the error says where and why, and it is logged.
func TestReloadRefuses(t *testing.T) {
	dir, log := folder(t.TempDir()), &bytes.Buffer{}
	good := map[string]string{"policy.yaml": smallPolicy, "prices.yaml": "providers: []\n", "extra.yaml": "providers: []\n"}
	cfg := Config{PolicyFile: dir.write(t, "policy.yaml", smallPolicy), PricesFile: dir.write(t, "prices.yaml", good["prices.yaml"]), ExtraProvidersFile: dir.write(t, "extra.yaml", "")}
	f := newFleets(t, cfg, log)
	fleet := f.fleet()
	for _, c := range []struct{ file, text, want string }{
		{"policy.yaml", smallPolicy + "colour: red\n", "policy.yaml: line 4: field colour: there is no such field"},
		{"policy.yaml", "\tnot yaml", "policy.yaml: found character"},
		{"policy.yaml", "", "policy.yaml: default_model"},
		{"extra.yaml", "providers: [{name: x, dialect: openai}]", "provider x: base_url"},
		{"prices.yaml", "providers: [{provider: box, models: [{model: m, effective_from: tomorrow, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]", "effective_from: want a day"},
		{"prices.yaml", "", "prices: the file is empty"},
		{"policy.yaml", strings.Replace(smallPolicy, ", output_per_mtok_usd: 2", "", 1), "box/m"},
	} {
		dir.write(t, c.file, c.text)
		log.Reset()
		_, err := f.Reload(t.Context())
		e := apierr.From(err)
		if e == nil || e.Kind != apierr.KindUnprocessable || e.Reason != policy.ReasonPolicyInvalid {
			t.Errorf("%s: error %v, want policy_invalid", c.text, err)
		} else if !strings.Contains(e.Text, c.want) {
			t.Errorf("%s: text %q, want %q in it", c.text, e.Text, c.want)
		}
		if f.fleet() != fleet {
			t.Errorf("%s: the fleet is another", c.text)
		}
		if !strings.Contains(log.String(), "policy not reloaded") {
			t.Errorf("%s: the log has %s", c.text, log.String())
		}
		dir.write(t, c.file, good[c.file])
	}
	if err := os.Remove(cfg.ExtraProvidersFile); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "extra.yaml") || f.fleet() != fleet {
		t.Errorf("a file that is gone: %v", err)
	}
}

// Through a hundred reloads that add, change and remove providers, no request fails, and each is served by one version
// alone.
func TestReloadUnderLoad(t *testing.T) {
	url := testkit.PostgresURL(t, migrations.FS)
	cfg := settings(t, url)
	dir := folder(t.TempDir())
	policy := func(i int) string {
		return fmt.Sprintf("default_model: box/sandbox-%d\nproviders:\n  - {name: box, dialect: sandbox, models: [sandbox, sandbox-%d]}\n  - {name: extra%d, dialect: sandbox, models: [sandbox]}\ngoals: {cost: [extra%d/sandbox]}\n", i, i, i, i)
	}
	cfg.PolicyFile = dir.write(t, "policy.yaml", policy(0))
	base, stop := serve(t, cfg)
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var served atomic.Int64
	for worker := range 4 {
		wg.Go(func() {
			bodies := []string{
				`{"messages":[{"role":"user","content":"hi"}]}`,
				`{"model":"sandbox","messages":[{"role":"user","content":"hi"}]}`,
				`{"optimization_goal":"cost","messages":[{"role":"user","content":"hi"}]}`,
				`{"model":"sandbox","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
			}
			for ctx.Err() == nil {
				status, text, err := post(ctx, base+"/v1/llm/chat", bodies[worker])
				switch {
				case ctx.Err() != nil:
					return
				case err != nil || status != http.StatusOK || strings.Contains(text, "event: error"):
					t.Errorf("%d %s, %v", status, text, err)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range 100 {
		bad := i%10 == 9
		text := policy(i + 1)
		if bad {
			text = "providers: [\n"
		}
		dir.write(t, "policy.yaml", text)
		want := http.StatusOK
		if bad {
			want = http.StatusUnprocessableEntity
		}
		if status, text, err := post(t.Context(), base+"/v1/admin/reload-policy", "{}"); err != nil || status != want {
			t.Fatalf("reload %d: %d %s, %v", i, status, text, err)
		}
	}
	cancel()
	wg.Wait()
	if served.Load() < 10 {
		t.Errorf("%d requests only", served.Load())
	}
}

// SIGHUP reloads the files.
func TestReloadBySignal(t *testing.T) {
	cfg := settings(t, testkit.PostgresURL(t, migrations.FS))
	dir := folder(t.TempDir())
	cfg.PolicyFile = dir.write(t, "policy.yaml", smallPolicy)
	base, stop := serve(t, cfg)
	defer stop()
	request := `{"model":"sandbox-fresh","messages":[{"role":"user","content":"hi"}]}`
	if status, _, err := post(t.Context(), base+"/v1/llm/chat", request); err != nil || status != http.StatusNotFound {
		t.Fatalf("%d, %v, want the model to be unknown yet", status, err)
	}
	dir.write(t, "policy.yaml", strings.Replace(smallPolicy, "models: [", "models: [sandbox-fresh, ", 1))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testkit.Wait(t, "the model is known", func() error {
		status, text, err := post(t.Context(), base+"/v1/llm/chat", request)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, text)
		}
		return err
	})
}

// serve runs the service until stop is called, and waits until it is ready. Another process on this machine may take
// its ports before it listens: then it takes others.
func serve(t *testing.T, cfg Config) (base string, stop func()) {
	t.Helper()
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, cfg) }()
		base = "http://" + cfg.HTTPListen
		err := ready(t, base, ended)
		if err == nil {
			return base, func() {
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("serve: %v", err)
				}
			}
		}
		if cancel(); !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("serve: %v", err)
		}
		cfg.HTTPListen, cfg.GRPCListen = testkit.FreeAddress(t), testkit.FreeAddress(t)
	}
	t.Fatal("serve: no ports")
	return "", nil
}

// ready waits until a service is ready and returns the error of one that has ended.
func ready(t *testing.T, base string, ended <-chan error) (err error) {
	t.Helper()
	testkit.Wait(t, "ready", func() error {
		select {
		case err = <-ended:
			if err == nil {
				err = errors.New("it has ended")
			}
			return nil
		default:
		}
		if status := get(t, base+"/health/ready"); status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	return err
}

func post(ctx context.Context, url, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Organization-Id", "acme")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}
