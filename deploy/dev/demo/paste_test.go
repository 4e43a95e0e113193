package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type seen struct {
	method, path, query, authorization, organization, kind, body string
}

// recorder starts a server that answers every request with 200 and records the last one.
func recorder(t *testing.T) (base string, last func() seen) {
	t.Helper()
	requests := make(chan seen, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{
			r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("X-Organization-Id"),
			r.Header.Get("Content-Type"), string(body),
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	return server.URL, func() seen {
		t.Helper()
		select {
		case s := <-requests:
			return s
		default:
			t.Fatal("no request came")
			return seen{}
		}
	}
}

func TestThePastedLinesWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl isn't installed")
	}
	base, last := recorder(t)
	e := filled()
	e.EdgeURL, e.NotifyURL, e.ReceiverURL, e.AIKey, e.WebhooksKey, e.NotificationsKey = base, base, base, "key-ai", "key-webhooks", "key-notifications"
	e.OperatorToken, e.OrganizationID = "token-operator", "org_demo"
	envFile := filepath.Join(t.TempDir(), "with space", "demo.env")
	makeFolder(t, filepath.Dir(envFile))
	if err := e.Write(envFile); err != nil {
		t.Fatal(err)
	}
	paste := func(command string) seen {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), "/bin/sh", "-ec", command).Output()
		if err != nil || string(output) != "ok" {
			t.Fatalf("%s\n%v: %s", command, err, output)
		}
		return last()
	}

	output, err := exec.CommandContext(t.Context(), "/bin/sh", "-ec", Source(envFile)+`; sh -c 'echo "$EDGE_URL"'`).Output()
	if err != nil || string(output) != base+"\n" {
		t.Errorf("behind %s a program has EDGE_URL=%s: %v", Source(envFile), output, err)
	}

	pastes := Pastes(e, envFile)
	for i, want := range []struct{ path, key string }{
		{"/product/v1/ai/chat", "key-ai"},
		{"/product/v1/webhooks/deliveries", "key-webhooks"},
		{"/product/v1/notifications/send", "key-notifications"},
	} {
		got := paste(pastes[i].Do)
		call := got
		call.method, call.path, call.authorization, call.kind = http.MethodPost, want.path, "Bearer "+want.key, "application/json"
		if got != call {
			t.Errorf("%s (-want +got):\n%s", pastes[i].Title, cmp.Diff(call, got, cmp.AllowUnexported(seen{})))
		}
		if !json.Valid([]byte(got.body)) {
			t.Errorf("%s: the body is no JSON: %s", pastes[i].Title, got.body)
		}
	}
	if got := paste(pastes[1].See); got.path != "/_arrivals" || got.query != "limit=1" {
		t.Errorf("arrivals: %+v", got)
	}
	if got := paste(pastes[2].See); got.path != "/product/v1/notifications/inbox" || got.query != "user_id=ann" || got.authorization != "Bearer key-notifications" {
		t.Errorf("inbox: %+v", got)
	}
	got := paste(pastes[3].Do)
	if got.method != http.MethodPost || got.path != "/admin/v1/portal/sessions" || got.authorization != "Bearer token-operator" {
		t.Errorf("link: %+v", got)
	}
	var link struct {
		Organization string `json:"organization_id"`
		Return       string `json:"return_url"`
	}
	if err := json.Unmarshal([]byte(got.body), &link); err != nil || link.Organization != "org_demo" || link.Return != base+"/docs" {
		t.Errorf("link: %v: %s", err, got.body)
	}
	for _, p := range pastes {
		if strings.Contains(p.Do+p.See, "token-operator") {
			t.Errorf("%s shows a token", p.Title)
		}
	}
	if !strings.Contains(pastes[0].Do, "curl -N ") {
		t.Error("curl would hold the stream back")
	}
}

func TestQuote(t *testing.T) {
	for _, text := range []string{"", "plain-1.2/3", "two words", `it's`, `$HOME`, "a\"b", "[x]", "*", "line\nbreak", "''"} {
		output, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+quote(text)).Output()
		if err != nil || string(output) != text {
			t.Errorf("a shell reads %s as %q, %v, want %q", quote(text), output, err, text)
		}
		if got := unquote(quote(text)); got != text {
			t.Errorf("unquote(%s) = %q, want %q", quote(text), got, text)
		}
	}
}
