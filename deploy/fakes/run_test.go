package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/deploy/fakes/webhook"
)

func TestParseConfig(t *testing.T) {
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte("new\n\n old \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parseConfig([]string{"--slack", "", "--webhook", ":9", "--tls", "push,slack", "--webhook-secret", "s", "--webhook-secret-file", secrets, "--webhook-endpoint-secret-file", secrets}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		provider: "127.0.0.1:8190", webhook: ":9", push: "127.0.0.1:8193", smtp: "127.0.0.1:8194", smtpControl: "127.0.0.1:8195",
		webhookSecrets: webhook.Secrets{Organization: []string{"s", "new", "old"}, Endpoint: []string{"new", "old"}}, tls: []string{"push", "slack"},
	}
	cfg.tlsHosts = nil
	if diff := cmp.Diff(want, cfg, cmp.AllowUnexported(config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{"--tls", "smtp"}, {"--nope"}, {"serve"}, {"--webhook-secret-file", "/does/not/exist"}, {"--webhook-endpoint-secret-file", "/does/not/exist"}} {
		if _, err := parseConfig(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	if _, err := parseConfig([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

// TestRun starts all fakes on free ports, calls each over its printed address, and stops them.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	const free = "127.0.0.1:0"
	cfg := config{
		provider: free, webhook: free, slack: free, push: free, smtp: free, smtpControl: free, tarpit: free,
		hostileProvider: free, hostileWebhook: free, hostilePush: free, identity: free, guardedProvider: free, billing: free, tools: free,
		tls: []string{"slack"}, caFile: ca,
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, cfg, in) }()

	urls := map[string]string{}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		name, url, _ := strings.Cut(lines.Text(), " ")
		urls[name] = strings.TrimSpace(url)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, name := range []string{"provider", "webhook", "slack", "push", "smtp-control", "hostile-provider", "hostile-webhook", "hostile-push", "identity", "guarded-provider", "billing", "tools"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, urls[name]+"/_calls", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
	}
	for name, prefix := range map[string]string{"slack": "https://", "push": "http://", "smtp": "smtp://", "tarpit": "tcp://"} {
		if !strings.HasPrefix(urls[name], prefix) {
			t.Errorf("%s: address %q, want %s...", name, urls[name], prefix)
		}
	}
	// A stalled answer must not hold up the stop.
	resp := stall(t, client, urls["provider"])
	defer resp.Body.Close()
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

// stall starts an answer that never comes.
func stall(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	post := func(path, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	post("/_script", `{"rules":[{"action":{"status":200,"stall_after_chunks":0}}]}`).Body.Close()
	resp := post("/v1/chat/completions", "{}")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("stalled answer: %d", resp.StatusCode)
	}
	return resp
}

func TestRunReportsATakenAddress(t *testing.T) {
	defer goleak.VerifyNone(t)
	err := run(t.Context(), config{provider: "127.0.0.1:0", webhook: "256.0.0.1:1"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "webhook") {
		t.Errorf("run: %v, want an error that names webhook", err)
	}
}
