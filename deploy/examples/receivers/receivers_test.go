package receivers_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/examples/receivers/goreceiver"
)

// vectors are deliveries that webhook-egress signed, some of them changed, see its package signing.
const vectors = "vectors.json"

type vector struct {
	Name    string            `json:"name"`
	Check   string            `json:"check"`
	Key     string            `json:"key"`
	Now     int64             `json:"now"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Valid   bool              `json:"valid"`
}

func read(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	return all
}

func TestGo(t *testing.T) {
	t.Parallel()
	for _, v := range read(t) {
		header, now := http.Header{}, time.Unix(v.Now, 0)
		for name, value := range v.Headers {
			header.Set(name, value)
		}
		var valid bool
		switch v.Check {
		case "organization":
			valid = goreceiver.Organization(v.Key, header, []byte(v.Body), now)
		case "endpoint":
			valid = goreceiver.Endpoint(v.Key, header, []byte(v.Body))
		default:
			valid = goreceiver.Standard(v.Key, header, []byte(v.Body), now)
		}
		if valid != v.Valid {
			t.Errorf("%s: %t, want %t", v.Name, valid, v.Valid)
		}
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	python := program(t, "python3")
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import cryptography").CombinedOutput(); err != nil {
		t.Skipf("python3 has no package cryptography: %s", out)
	}
	checks(t, len(read(t)), python, "python_receiver.py", vectors)
}

func TestNode(t *testing.T) {
	t.Parallel()
	checks(t, len(read(t)), program(t, "node"), "node_receiver.mjs", vectors)
}

func TestRuby(t *testing.T) {
	t.Parallel()
	checks(t, len(read(t)), program(t, "ruby"), "ruby_receiver.rb", vectors)
}

func TestJava(t *testing.T) {
	t.Parallel()
	java := program(t, "java")
	var lines strings.Builder
	for _, v := range read(t) {
		fields := []string{v.Name, v.Check, v.Key, strconv.FormatInt(v.Now, 10), strconv.FormatBool(v.Valid), v.Body}
		for name, value := range v.Headers {
			fields = append(fields, name, value)
		}
		for i, field := range fields {
			fields[i] = base64.StdEncoding.EncodeToString([]byte(field))
		}
		lines.WriteString(strings.Join(fields, " ") + "\n")
	}
	file := filepath.Join(t.TempDir(), "vectors")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	checks(t, len(read(t)), java, "JavaReceiver.java", file)
}

// If its argument is only a port, the receiver listens on 127.0.0.1, which other machines can't reach.
func TestServeListensOnLoopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0", ":0", "127.0.0.1:0"} {
		serve := exec.CommandContext(t.Context(), program(t, "python3"), "serve.py", address)
		serve.Env = append(os.Environ(), "WEBHOOK_SECRET=a-secret-of-24-bytes-or-more")
		out, err := serve.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(serve.Process.Kill(), serve.Wait()) })
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "listening at http://127.0.0.1:") {
			t.Errorf("with %q: %q, %v; want 127.0.0.1", address, line, err)
		}
	}
}

// The receiver for the local stack takes what the organization's secret has signed, and nothing else.
func TestServe(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-24-bytes-or-more"
	serve := exec.CommandContext(t.Context(), program(t, "python3"), "serve.py", "127.0.0.1:0")
	serve.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret)
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(serve.Process.Kill(), serve.Wait()) })
	lines := bufio.NewScanner(out)
	line := func() string {
		if !lines.Scan() {
			t.Fatalf("the receiver prints nothing: %v", lines.Err())
		}
		return lines.Text()
	}
	_, address, _ := strings.Cut(line(), "listening at ")
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for _, tt := range []struct {
		key, says string
		status    int
	}{{secret, "valid", http.StatusNoContent}, {"another", "invalid", http.StatusUnauthorized}} {
		const body = `{"order":7}`
		mac := hmac.New(sha256.New, []byte(tt.key))
		mac.Write([]byte(now + "." + body))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Webhook-Event", "order.paid")
		request.Header.Set("X-Webhook-Timestamp", now)
		request.Header.Set("X-Webhook-Signature", hex.EncodeToString(mac.Sum(nil)))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if says := line(); response.StatusCode != tt.status || says != "order.paid "+body+" signature "+tt.says {
			t.Errorf("signed with %q: %d, %q", tt.key, response.StatusCode, says)
		}
	}
}

// program returns the path of a language's program; without it, the test is skipped.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// checks runs a sample, which checks n deliveries.
func checks(t *testing.T, n int, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(n, " deliveries checked") {
		t.Errorf("%s: %v: %s", args[0], err, out)
	}
}
