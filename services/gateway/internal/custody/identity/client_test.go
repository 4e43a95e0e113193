package identity

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

// newServer returns a server and clients that reach it.
func newServer(t *testing.T, handler http.HandlerFunc) (*httptest.Server, Clients) {
	t.Helper()
	server := httptest.NewServer(handler)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return server, NewClients(transport, transport)
}

func get(t *testing.T, client *http.Client, url string) ([]byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := Call(client, request)
	return body, err
}

func TestClientsFollowNoRedirects(t *testing.T) {
	calls := 0
	server, clients := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "/elsewhere?canary", http.StatusFound)
	})
	_, err := get(t, clients.Token, server.URL)
	if !errors.Is(err, ErrRedirected) || calls != 1 {
		t.Errorf("%v after %d calls, want ErrRedirected after 1", err, calls)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2000000000")
			w.WriteHeader(http.StatusOK)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 1 << 16 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
					return
				}
			}
		},
	} {
		server, clients := newServer(t, handler)
		if _, err := get(t, clients.Token, server.URL); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", name, err)
		}
	}
	server, clients := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer)) })
	if body, err := get(t, clients.Token, server.URL); err != nil || len(body) != maxAnswer {
		t.Errorf("the largest answer: %d bytes, %v", len(body), err)
	}
}

// A refusal shows the server's code and nothing else of its answer.
func TestRefusals(t *testing.T) {
	const canary = "eyJhbGciOiJSUzI1NiJ9.canary"
	for body, code := range map[string]string{
		`{"error":"invalid_grant","error_description":"assertion ` + canary + `"}`:                    "invalid_grant",
		`{"error":"invalid_client","error_description":"AADSTS7000222: secret ` + canary + ` ended"}`: "AADSTS7000222",
		`{"error":{"type":"invalid_request_error","message":"` + canary + `"}}`:                       "invalid_request_error",
		`{"error":{"code":403,"status":"PERMISSION_DENIED","message":"` + canary + `"}}`:              "PERMISSION_DENIED",
		`{"error":"` + canary + `"}`:            "",
		`{"error":{"status":"` + canary + `"}}`: "",
		canary:                                  "",
		`[]`:                                    "",
		strings.Repeat(`{"error":`, 10_000):     "",
		`{"error":"` + strings.Repeat("a", 100): "",
	} {
		server, clients := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, body)
		})
		recorded, recorder := clients.Record()
		_, err := get(t, recorded.Token, server.URL)
		if err = recorder.Error(err, "call"); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.60s: %v, want a refusal without the text", body, err)
		}
		refusal, ok := errors.AsType[*RefusedError](err)
		if !ok || refusal.Code != code || refusal.Status != http.StatusBadRequest || refusal.Host != strings.TrimPrefix(server.URL, "http://") {
			t.Errorf("%.60s: %+v, want code %q", body, err, code)
		}
	}
}

func TestCodeGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _ = oauthCode(text) })...)
}

// Errors of libraries that are not known hold whatever text; only what happened is kept.
func TestPlain(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, notThere := os.ReadFile(missing)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a library's text": {errors.New("got eyJcanary"), "call: failed; the cause is not shown, as it may hold what was sent"},
		"a time-out":       {errors.Join(errors.New("eyJcanary"), context.DeadlineExceeded), "call: context deadline exceeded"},
		"a file":           {errors.Join(notThere), "call: open " + missing + ": no such file or directory"},
	} {
		if got := Plain(c.err, "call"); got.Error() != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	clients := NewClients(&http.Transport{}, &http.Transport{})
	_, err := get(t, clients.Token, "http://127.0.0.1:1/token?assertion=eyJcanary")
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nothing listens: %v, want the host without the query", err)
	}
}

func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{
		"tok": "tok", "  tok\r\n\n": "tok", "": "", "\n": "", "a b": "", "a\nb": "", strings.Repeat("t", maxToken+1): "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken(secret.File(file))
		if got.Reveal() != want || (err == nil) != (want != "") {
			t.Errorf("%.20q: %.20q, %v, want %q", text, got.Reveal(), err, want)
		}
	}
}

// Metadata servers are called without the proxy, everything else through it.
func TestClientsByHost(t *testing.T) {
	clients := NewClients(&http.Transport{}, &http.Transport{})
	if clients.For("169.254.169.254") != clients.Metadata || clients.For("metadata.google.internal") != clients.Metadata {
		t.Error("a metadata server is called through the proxy")
	}
	if clients.For("sts.eu-west-1.amazonaws.com") != clients.Token {
		t.Error("a token server is called without the proxy")
	}
}
