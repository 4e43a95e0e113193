package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// These tests run the real binary: what they prove doesn't hold within one process.

const operatorToken = "operator-token-of-the-test"

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "edge")
	out, err := exec.Command("go", "build", "-o", binary, "switchyard.dev/services/edge/cmd/edge").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// fleet is a database with replicas of the edge round it.
type fleet struct {
	binary  string
	environ []string
	logs    testkit.Buffer // of all replicas
}

// newFleet makes the settings; a redis URL of "" is none.
func newFleet(t *testing.T, upstream, databaseURL, redisURL string) *fleet {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(operatorToken))
	f := &fleet{binary: binary, environ: []string{
		"EDGE_DATABASE_URL_FILE=" + testkit.File(t, databaseURL), "EDGE_KEY_PEPPER_FILE=" + testkit.File(t, strings.Repeat("p", 32)),
		"EDGE_SERVICE_TOKEN_FILE=" + testkit.File(t, "service-token"), "EDGE_CONTROL_TOKEN_FILE=" + testkit.File(t, "control-token"),
		"EDGE_GATEWAY_URL=" + upstream,
		"EDGE_SERVICE_TOKENS_FILE=" + testkit.File(t, "tokens: [{name: op, role: operator, sha256: "+hex.EncodeToString(sum[:])+"}]"),
		"EDGE_DRAIN_DELAY=0s",
	}}
	if redisURL != "" {
		f.environ = append(f.environ, "EDGE_REDIS_URL_FILE="+testkit.File(t, redisURL))
	}
	return f
}

// command runs one and gives its output.
func (f *fleet) command(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), f.binary, args...)
	c.Env, c.Stderr = f.environ, &f.logs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("edge %v: %v", args, err)
	}
	return string(out)
}

func (f *fleet) newKey(t *testing.T) (id, text string) {
	t.Helper()
	var key struct{ ID, Key string }
	out := f.command(t, "keys", "create", "--org", "org-1", "--product", "ai", "--permission", "read", "--env", "test", "--json")
	if err := json.Unmarshal([]byte(out), &key); err != nil {
		t.Fatal(err)
	}
	return key.ID, key.Key
}

// replica is a running process of a role.
type replica struct {
	url     string
	metrics string // base URL of the metrics' listener
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// start runs a replica of serve until the test ends and waits until it is ready.
func (f *fleet) start(t *testing.T) *replica {
	t.Helper()
	address, metrics := testkit.FreeAddress(t), testkit.FreeAddress(t)
	return f.run(t, &replica{url: "http://" + address, metrics: "http://" + metrics, process: exec.Command(f.binary, "serve")},
		"EDGE_LISTEN="+address, "EDGE_METRICS_LISTEN="+metrics)
}

// startControl is start for control, to which replicas that start later relay.
func (f *fleet) startControl(t *testing.T) *replica {
	t.Helper()
	address := testkit.FreeAddress(t)
	url := "http://" + address
	x := f.run(t, &replica{url: url, metrics: url, process: exec.Command(f.binary, "control")}, "EDGE_CONTROL_LISTEN="+address)
	f.environ = append(f.environ, "EDGE_CONTROL_URL="+url)
	return x
}

func (f *fleet) run(t *testing.T, x *replica, settings ...string) *replica {
	t.Helper()
	x.process.Env = slices.Concat(settings, f.environ)
	x.process.Stderr = &f.logs
	if err := x.process.Start(); err != nil {
		t.Fatal(err)
	}
	x.ended = make(chan struct{})
	go func() {
		_ = x.process.Wait()
		close(x.ended)
	}()
	t.Cleanup(x.kill)
	client := &http.Client{Timeout: 5 * time.Second}
	testkit.Wait(t, "a replica is ready", func() error {
		select {
		case <-x.ended:
			t.Fatalf("a replica ended before it was ready:\n%s", f.logs.String())
		default:
		}
		answer, err := client.Get(x.url + "/health/ready")
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		return nil
	})
	return x
}

func (x *replica) kill() {
	_ = x.process.Process.Kill()
	<-x.ended
}

// chat makes a call with further headers (name, value, …) and reports whether its answer came whole.
func (x *replica) chat(ctx context.Context, key string, headers ...string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url+"/product/v1/ai/chat", strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	for header := range slices.Chunk(headers, 2) {
		r.Header.Set(header[0], header[1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.ReadAll(answer.Body)
	return answer.StatusCode, err
}

// counted asks a replica for the sum of its usage.
func (x *replica) counted(t *testing.T) (n int64) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, x.url+"/admin/v1/usage?organization_id=org-1&metric=llm_requests", nil)
	r.Header.Set("Authorization", "Bearer "+operatorToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct {
		Usage []struct{ Count int64 }
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	for _, u := range body.Usage {
		n += u.Count
	}
	return n
}

// gateway answers half of the calls with a length and half as a stream. It counts them, and lists the counts.
func gateway(t *testing.T) (url string, answered *atomic.Int64) {
	t.Helper()
	answered = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/call-counts", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseInt(r.URL.Query().Get("cursor"), 10, 64) // Empty for the beginning.
		to := answered.Load()
		counts := ""
		if to > from {
			counts = fmt.Sprintf(`{"organization_id":"org-1","key_id":"key_1","metric":"llm_requests","minute":%q,"calls":%d}`,
				time.Now().UTC().Truncate(time.Minute).Format(time.RFC3339), to-from)
		}
		_, _ = fmt.Fprintf(w, `{"counts":[%s],"next_cursor":"%d"}`, counts, to)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Counted", "1")
		if answered.Add(1)%2 == 0 {
			_, _ = io.WriteString(w, `data: {"content":"hello"}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "the end\n")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, answered
}

// load calls replicas from several customers until ctx ends; it returns how
// many whole answers they got.
func load(ctx context.Context, key string, pick func() *replica) (whole func() int64) {
	var n atomic.Int64
	var customers sync.WaitGroup
	for range 8 {
		customers.Go(func() {
			for ctx.Err() == nil {
				if status, err := pick().chat(ctx, key); err == nil && status == http.StatusOK {
					n.Add(1)
				}
			}
		})
	}
	return func() int64 {
		customers.Wait()
		return n.Load()
	}
}

// Replicas of both roles are killed in the middle of traffic, and the database is cut off for a while. The usage is what
// the service has counted, to the unit, and has every whole answer.
func TestUsageIsExactOverKills(t *testing.T) {
	url, answered := gateway(t)
	database := testkit.NewCable(t, testkit.PostgresURL(t, migrations.FS))
	f := newFleet(t, url, database.URL, "")
	_, key := f.newKey(t)
	control := f.startControl(t)

	var current atomic.Pointer[replica]
	current.Store(f.start(t))
	steady := f.start(t)
	ctx, stop := context.WithCancel(t.Context())
	var turn atomic.Int64
	whole := load(ctx, key, func() *replica {
		if turn.Add(1)%2 == 0 {
			return steady
		}
		return current.Load()
	})
	enough := func(n int64) {
		for until := answered.Load() + n; answered.Load() < until; {
			time.Sleep(time.Millisecond)
		}
	}
	for range 3 {
		enough(200)
		current.Load().kill()
		control.kill()
		current.Store(f.start(t))
		control = f.startControl(t)
	}
	enough(200)
	database.Cut()
	enough(200) // with keys that the edge knows
	current.Load().kill()
	database.Mend()
	current.Store(f.start(t))
	enough(200)
	stop()
	got := whole()

	testkit.Wait(t, "all calls are in the usage", func() error {
		if n := control.counted(t); n != answered.Load() || n < got {
			return fmt.Errorf("usage has %d; customers got %d whole answers, the service gave %d", n, got, answered.Load())
		}
		return nil
	})
	for range 100 {
		if status, err := steady.chat(t.Context(), key); err != nil || status != 200 {
			t.Fatal(status, err)
		}
	}
	if n := control.counted(t); n != answered.Load() {
		t.Errorf("usage has %d right after %d answers", n, answered.Load())
	}
	testkit.NoLeak(t, key, f.logs.String())
	testkit.NoLeak(t, "service-token", f.logs.String())
}
