package fault

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// callWithBounds calls a behaviour with the bounds of a careful client, and returns the text of a usable answer or an
// error.
func callWithBounds(t *testing.T, client *http.Client, timeout time.Duration, url string) (text string, err error) {
	t.Helper()
	const most = 8 << 20
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("hi"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer s3cret-s3cret")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK { // ctx doesn't bound the body of a 101
		return "", errors.New(resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > most:
		return "", errors.New("too large")
	case !json.Valid(raw):
		return "", errors.New("no JSON")
	}
	return strings.TrimSpace(string(raw)), nil
}

// Every behaviour ends for a careful client with its outcome, over plain HTTP and over TLS, and leaves no goroutine
// behind when the client has disconnected.
func TestBehaviours(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const own = `{"said":"hello"}`
	in := NewInjector(Script{}, Options{Secrets: []string{"shared"}})
	handler := in.Handler(http.NewServeMux(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, own)
	}))
	for name, start := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS} {
		srv := httptest.NewUnstartedServer(handler)
		ctx, stop := context.WithCancel(t.Context())
		srv.Config.BaseContext = func(net.Listener) context.Context { return ctx } // as in the fakes
		start(srv)
		transport := srv.Client().Transport.(*http.Transport)
		transport.MaxResponseHeaderBytes = 64 << 10
		// Sometimes net/http takes the bytes behind an answer for the next answer.
		transport.DisableKeepAlives = true
		client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for _, b := range Behaviours() {
			t.Run(name+" "+b.Name, func(t *testing.T) {
				timeout := 600 * time.Millisecond
				if b.Outcome == Served { // the answer comes, however slowly
					timeout = time.Minute
				}
				text, err := callWithBounds(t, client, timeout, srv.URL+hostilePrefix+b.Name+"/x")
				served := err == nil && text == own
				switch {
				case b.Outcome == Served && !served:
					t.Errorf("%q, %v, want the fake's own answer", text, err)
				case b.Outcome == ServedOrRefused && err == nil && !served:
					t.Errorf("%q, want the fake's own answer or none", text)
				case b.Outcome == Refused && served:
					t.Error("served")
				}
			})
		}
		stop()
		transport.CloseIdleConnections()
		srv.Close()
	}
}

// The surplus bytes behind an answer come on a connection that is served further.
func TestSurplusIsSentAndTheConnectionKept(t *testing.T) {
	_, url := serve(t, Options{})
	for _, name := range []string{"second_answer", "second_answer_large", "second_answer_late", "second_answer_chunked"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		request := "POST /hostile/" + name + "/x HTTP/1.1\r\nHost: fake\r\nContent-Length: 2\r\n\r\nhi"
		var got strings.Builder
		for answers := 1; answers <= 2; answers++ { // the second request is on the same connection
			_, err = io.WriteString(conn, request)
			for part := make([]byte, 64<<10); err == nil && strings.Count(got.String(), Stray) < answers; {
				var n int
				_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
				n, err = conn.Read(part)
				got.Write(part[:n])
			}
			if err != nil {
				t.Errorf("%s: answer %d: %v after %q", name, answers, err, got.String())
			}
		}
		if n := strings.Count(got.String(), "hello"); n < 2 {
			t.Errorf("%s: the fake's own answer came %d times", name, n)
		}
		_ = conn.Close()
	}
}

// An early refusal comes while the body is still being sent.
func TestEarlyRefusalsReadNoBody(t *testing.T) {
	in := NewInjector(Script{Rules: []Rule{
		{Match: Match{Body: "never"}, Action: Action{Status: 500}},
		{Match: Match{Path: "/early"}, Times: 1, Action: Action{Hostile: "early_429_held"}},
	}}, Options{})
	srv := httptest.NewServer(in.Handler(http.NewServeMux(), http.HandlerFunc(fake)))
	defer srv.Close()
	body, never := io.Pipe()
	defer never.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/early", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	if left := in.Script().Rules; len(left) != 1 || left[0].Action.Status != 500 {
		t.Errorf("rules that are left: %+v", left)
	}
	if got := in.Calls().Last; len(got) != 1 || got[0].Fault != "early_429_held" {
		t.Errorf("calls %+v", got)
	}
}

func TestUnknownBehavioursAreRefused(t *testing.T) {
	in, url := serve(t, Options{})
	if err := in.Append(Script{Rules: []Rule{{Action: Action{Hostile: "kindness"}}}}); err == nil || !strings.Contains(err.Error(), "kindness") {
		t.Errorf("a script: %v", err)
	}
	if got, err := call(t.Context(), t, http.MethodPost, url+"/hostile/kindness/a", "x"); err != nil || got.status != http.StatusNotFound {
		t.Errorf("a path: %d, %v", got.status, err)
	}
}

// Repeating behaviours return the request's credentials: without that they would test nothing.
func TestRepeatsRepeat(t *testing.T) {
	_, url := serve(t, Options{Secrets: []string{"shared secret"}})
	for name, want := range map[string]string{"repeat_body": "s3cret", "repeat_error": "s3cret", "repeat_page": "s3cret", "repeat_secrets": "shared secret"} {
		got, err := call(t.Context(), t, http.MethodPost, url+"/hostile/"+name+"/a", "the payload")
		if err != nil || !strings.Contains(got.body, want) {
			t.Errorf("%s: body %q, error %v", name, got.body, err)
		}
	}
	got, err := call(t.Context(), t, http.MethodPost, url+"/hostile/repeat_headers/a", "x")
	if err != nil || got.header.Get("Retry-After") != "Bearer s3cret" || got.header.Get("X-Echo-Authorization") != "Bearer s3cret" {
		t.Errorf("repeat_headers: %v, %v", got.header, err)
	}
}

// The documentation has every behaviour, by name and effect.
func TestBehavioursAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, b := range Behaviours() {
		if !strings.Contains(string(text), "`"+b.Name+"`") {
			t.Errorf("%s (%s) is not in the README", b.Name, b.Effect)
		}
		if seen[b.Name] || b.Act == nil || b.Effect == "" {
			t.Errorf("%s is a duplicate, or has no effect text or function", b.Name)
		}
		seen[b.Name] = true
	}
}
