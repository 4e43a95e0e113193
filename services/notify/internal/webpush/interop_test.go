package webpush

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"switchyard.dev/services/platform/netguard"
)

// oracleEnv names deploy/webpush with its packages installed, which .ci/run does.
const oracleEnv = "SWITCHYARD_WEBPUSH_CHECK"

// oracle runs others' implementations of a push service and its browsers.
func oracle(t *testing.T) (at string) {
	t.Helper()
	dir := os.Getenv(oracleEnv)
	if dir == "" {
		t.Skipf("%s is not set: `npm ci` in deploy/webpush, and set it to that folder", oracleEnv)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	node := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "server.js"), port)
	node.Stderr = t.Output()
	said, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Process.Kill(); _ = node.Wait() })
	lines := bufio.NewScanner(said)
	for lines.Scan() && lines.Text() != "ready" {
		t.Log(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return "localhost:" + port
}

// ask posts JSON to the oracle and reads JSON.
func ask(t *testing.T, at, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+at+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatalf("%s: %v: %s", path, err, text)
		}
	}
}

// web-push-testing takes our token, reads our message, and its 410 is Gone.
func TestInteropPushService(t *testing.T) {
	at := oracle(t)
	key := newKey(t)
	var made struct {
		Data struct {
			Endpoint string
			Keys     map[string]string
			Hash     string `json:"clientHash"`
		}
	}
	ask(t, at, "/subscribe", map[string]string{"userVisibleOnly": "true", "applicationServerKey": key.Public()}, &made)
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{at}})
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := NewHosts(KnownHosts, []string{at}, guard.CheckURL)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := hosts.Parse(made.Data.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	to, err := NewSubscription(endpoint, made.Data.Keys["p256dh"], made.Data.Keys["auth"])
	if err != nil {
		t.Fatal(err)
	}
	wire := NewHTTP(guard, 4, netguard.TransportOptions{})
	t.Cleanup(wire.CloseIdleConnections)
	client := NewClient(wire, NewSigner("mailto:ops@example.com"))
	sender, err := NewSender()
	if err != nil {
		t.Fatal(err)
	}
	m := Message{Text: []byte(`{"title":"Bahnübergang 🚂"}`), TTL: 60, Urgency: UrgencyNormal}
	if answer, err := client.Push(t.Context(), key, sender, to, m); err != nil || answer.Verdict != Accepted {
		t.Fatalf("%+v, %v", answer, err)
	}
	var got struct{ Data struct{ Messages []string } }
	ask(t, at, "/get-notifications", map[string]string{"clientHash": made.Data.Hash}, &got)
	if len(got.Data.Messages) != 1 || got.Data.Messages[0] != string(m.Text) {
		t.Errorf("the browser read %q", got.Data.Messages)
	}
	if answer, err := client.Push(t.Context(), newKey(t), sender, to, m); err != nil || answer.Verdict == Accepted {
		t.Errorf("with another key: %+v, %v", answer, err)
	}
	resp, err := http.Post("http://"+at+"/expire-subscription/"+url.PathEscape(made.Data.Hash), "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if answer, err := client.Push(t.Context(), key, sender, to, m); err != nil || answer.Verdict != Gone {
		t.Errorf("expired: %+v, %v", answer, err)
	}
}

// http_ece opens our messages of every kind of size.
func TestInteropEncryption(t *testing.T) {
	at := oracle(t)
	d := newDevice(t)
	to := d.subscription(t, pushURL)
	sizes := []int{0, 1, 15, 16, 17, 256, MaxPlaintext - 1, MaxPlaintext}
	for range 50 {
		sizes = append(sizes, mathrand.IntN(MaxPlaintext))
	}
	shared, err := NewSender()
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes {
		text := bytes.Repeat([]byte{byte(i)}, size)
		body, err := shared.Encrypt(to, text)
		if err != nil {
			t.Fatal(err)
		}
		var opened struct{ Text string }
		ask(t, at, "/ece", map[string]string{
			"private": base64.RawURLEncoding.EncodeToString(d.private.Bytes()),
			"auth":    base64.RawURLEncoding.EncodeToString(d.auth),
			"body":    base64.RawURLEncoding.EncodeToString(body),
		}, &opened)
		if !bytes.Equal(b64(t, opened.Text), text) {
			t.Errorf("%s bytes were read otherwise", fmt.Sprint(size))
		}
	}
}
