package app

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environ is a service on a database of the test's own and two free ports.
func environ(t *testing.T) (Config, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "database-url")
	if err := os.WriteFile(file, []byte(testkit.PostgresURL(t, nil)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	httpAddr, grpcAddr := testkit.FreeAddress(t), testkit.FreeAddress(t)
	cfg, err := Load([]string{
		"NOTIFY_ENCRYPTION_KEY_FILE=" + key, "NOTIFY_SMTP_ADDRESS=127.0.0.1:1", "NOTIFY_EMAIL_FROM=app@example.com",
		"NOTIFY_DATABASE_URL_FILE=" + file, "NOTIFY_AUTH_DISABLED=true", "NOTIFY_DRAIN_DELAY=0s", "NOTIFY_LOG_LEVEL=error",
		"NOTIFY_HTTP_LISTEN=" + httpAddr, "NOTIFY_GRPC_LISTEN=" + grpcAddr,
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg, "http://" + httpAddr
}

func TestServeNeedsTheSchema(t *testing.T) {
	cfg, _ := environ(t)
	if err := Serve(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "notify migrate") {
		t.Errorf("Serve on an empty schema = %v, want the command that mends it", err)
	}
}

func TestMigrate(t *testing.T) {
	cfg, _ := environ(t)
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := "applied " + strings.Join(names, "\napplied ") + "\n"
	for _, want := range []string{all, "the schema is up to date\n"} {
		var out bytes.Buffer
		if err := Migrate(t.Context(), cfg, &out); err != nil || out.String() != want {
			t.Errorf("Migrate = %v with %q, want %q", err, out.String(), want)
		}
	}
}

// The service starts, answers, and leaves nothing behind when it is asked to stop.
func TestServe(t *testing.T) {
	cfg, base := environ(t)
	if err := Migrate(t.Context(), cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, cfg) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	waitReady(t, client, base, done)
	paths := map[string]string{
		"/health": `"status":"ok"`, "/health/live": `"status":"ok"`, "/health/ready": `"postgres":"ok"`,
		"/metrics": "go_goroutines", "/v1/notifications?organization_id=acme": `"unread_count":0`,
	}
	for path, want := range paths {
		if status, body := get(t, client, base+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s, want 200 with %s", path, status, body, want)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/notifications?organization_id=acme", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(caller.HeaderOrganization, "acme")
	request.Header.Set(caller.HeaderCountMetric, "inbox_reads")
	if status, body, header := testkit.Do(t, client, request); status != http.StatusOK || header.Get(callcount.HeaderCounted) != "1" {
		t.Errorf("a call to be counted: %d %v %s, want 200 with a receipt", status, header, body)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

// waitReady asks until the service is ready or has ended.
func waitReady(t *testing.T, client *http.Client, base string, done <-chan error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			t.Fatalf("Serve ended: %v", err)
		case <-t.Context().Done():
			t.Fatal("the test ended")
		case <-tick.C:
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/health/ready", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(request); err == nil {
			_ = resp.Body.Close()
			return
		}
	}
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	status, body, _ := testkit.Do(t, client, request)
	return status, body
}
