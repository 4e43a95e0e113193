package fault

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake streams three events on /stream, and answers "hello" elsewhere.
func fake(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stream" {
		_, _ = io.WriteString(w, "hello")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []string{"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"} {
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
	}
}

func serve(t *testing.T, opts Options, rules ...Rule) (*Injector, string) {
	t.Helper()
	in := NewInjector(Script{Rules: rules}, opts)
	srv := httptest.NewServer(in.Handler(http.NewServeMux(), http.HandlerFunc(fake)))
	t.Cleanup(srv.Close)
	return in, srv.URL
}

// answer is the part of an answer that came before an error, if there was one.
type answer struct {
	status int
	header http.Header
	body   string
}

// call makes one request on a fresh connection.
func call(ctx context.Context, t *testing.T, method, url, payload string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer s3cret")
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(raw)}, err
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		opts   Options
		path   string
		action Action
		status int
		body   string
		header http.Header
	}{
		{name: "status and body", action: Action{Status: 503, Body: "gone fishing", Headers: map[string]string{"X-A": "b"}}, status: 503, body: "gone fishing", header: http.Header{"X-A": {"b"}}},
		{name: "no text of its own", action: Action{Status: 502}, status: 502},
		{
			name: "the vendor's text",
			opts: Options{ErrorBody: func(_ *http.Request, status int, after string) (string, string) {
				return "text/x-vendor", http.StatusText(status) + " " + after
			}},
			action: Action{Status: 429, RetryAfter: "7"},
			status: 429, body: "Too Many Requests 7",
			header: http.Header{"Content-Type": {"text/x-vendor"}, "Retry-After": {"7"}},
		},
		{name: "retry_after alone", action: Action{RetryAfter: "soon"}, status: 429, header: http.Header{"Retry-After": {"soon"}}},
		{name: "redirect alone", action: Action{Redirect: "http://169.254.169.254/"}, status: 302, header: http.Header{"Location": {"http://169.254.169.254/"}}},
		{name: "redirect with status", action: Action{Redirect: "/a", Status: 308}, status: 308, header: http.Header{"Location": {"/a"}}},
		{name: "the fake answers, with a header more", action: Action{Headers: map[string]string{"X-A": "b"}, SlowBodyMS: 1}, status: 200, body: "hello", header: http.Header{"X-A": {"b"}}},
		{name: "many early hints", action: Action{Informational: 20}, status: 200, body: "hello"},
		{name: "slow head", action: Action{SlowHeadMS: 1, Status: 418, Body: "tea", Headers: map[string]string{"X-A": "b"}}, status: 418, body: "tea", header: http.Header{"X-A": {"b"}}},
		{name: "in-band error at once", path: "/stream", action: Action{ErrorAfterChunks: new(0), Body: "{}"}, status: 200, body: "event: error\ndata: {}\n\n"},
		{name: "in-band error after two", path: "/stream", action: Action{ErrorAfterChunks: new(2), Body: "{}"}, status: 200, body: "data: 1\n\ndata: 2\n\nevent: error\ndata: {}\n\n"},
		{name: "in-band error after the last", path: "/stream", action: Action{ErrorAfterChunks: new(3)}, status: 200, body: "data: 1\n\ndata: 2\n\ndata: 3\n\nevent: error\ndata: \n\n"},
		{
			name:   "in-band error of the vendor",
			opts:   Options{StreamError: func(_ *http.Request, status int, data string) string { return http.StatusText(status) + data }},
			path:   "/stream",
			action: Action{ErrorAfterChunks: new(0), Status: 503, Body: "!"},
			status: 200, body: "Service Unavailable!",
		},
		{name: "an answer that is no stream has no in-band error", action: Action{ErrorAfterChunks: new(0)}, status: 200, body: "hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := serve(t, tt.opts, Rule{Action: tt.action})
			got, err := call(t.Context(), t, http.MethodPost, url+tt.path, "x")
			if err != nil {
				t.Fatal(err)
			}
			if got.status != tt.status || got.body != tt.body {
				t.Errorf("got %d %q, want %d %q", got.status, got.body, tt.status, tt.body)
			}
			for name := range tt.header {
				if v, want := got.header.Get(name), tt.header.Get(name); v != want {
					t.Errorf("%s = %q, want %q", name, v, want)
				}
			}
		})
	}
}

func TestCuts(t *testing.T) {
	tests := []struct {
		name   string
		path   string
		action Action
		want   error
		body   string
	}{
		{name: "drop", action: Action{Drop: true}, want: io.EOF},
		{name: "reset", action: Action{Reset: true}, want: syscall.ECONNRESET},
		{name: "after some bytes", action: Action{Drop: true, AfterBytes: new(2)}, want: io.ErrUnexpectedEOF, body: "he"},
		{name: "after no byte", action: Action{AfterBytes: new(0)}, want: io.ErrUnexpectedEOF},
		{name: "within a stream", path: "/stream", action: Action{AfterBytes: new(12)}, want: io.ErrUnexpectedEOF, body: "data: 1\n\ndat"},
		{name: "half close", action: Action{HalfClose: true}, want: io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := serve(t, Options{}, Rule{Action: tt.action})
			got, err := call(t.Context(), t, http.MethodPost, url+tt.path, "x")
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if got.body != tt.body {
				t.Errorf("body %q, want %q", got.body, tt.body)
			}
		})
	}
}

func TestResetAfterBytes(t *testing.T) {
	_, url := serve(t, Options{}, Rule{Action: Action{AfterBytes: new(2), Reset: true}})
	got, err := call(t.Context(), t, http.MethodPost, url, "x")
	// An RST may overtake the bytes before it, so only the error is certain.
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %q, error %v, want a reset", got.body, err)
	}
}

func TestStallHoldsUntilTheClientLeaves(t *testing.T) {
	for _, after := range []int{0, 2} {
		_, url := serve(t, Options{}, Rule{Action: Action{StallAfterChunks: &after}})
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for range 2 * after {
			lines.Scan()
		}
		leave()
		if lines.Scan() {
			t.Errorf("after %d events came %q", after, lines.Text())
		}
		if !errors.Is(lines.Err(), context.Canceled) {
			t.Errorf("after %d events the body ended with %v, want it open until we left", after, lines.Err())
		}
		resp.Body.Close()
	}
}

func TestEndlessHeadersAreRefusedByABoundedClient(t *testing.T) {
	_, url := serve(t, Options{}, Rule{Action: Action{EndlessHeaders: true}})
	_, err := call(t.Context(), t, http.MethodGet, url, "")
	if err == nil || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("error %v, want a header limit", err)
	}
}

func TestInformationalAnswersComeFirst(t *testing.T) {
	_, url := serve(t, Options{}, Rule{Action: Action{Informational: 3}})
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
	})
	if _, err := call(ctx, t, http.MethodGet, url, ""); err != nil || hints != 3 {
		t.Errorf("%d hints, error %v; want 3", hints, err)
	}
}

func TestGzipBomb(t *testing.T) {
	_, url := serve(t, Options{}, Rule{Action: Action{FillerMB: 3, Gzip: true}})
	got, err := call(t.Context(), t, http.MethodGet, url, "")
	if err != nil || len(got.body) != 3<<20 {
		t.Errorf("%d bytes, error %v; want 3 MiB", len(got.body), err)
	}
}

func TestDelayEndsWithTheClient(t *testing.T) {
	_, url := serve(t, Options{}, Rule{Action: Action{DelayMS: int(time.Hour.Milliseconds() / 6)}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := call(ctx, t, http.MethodGet, url, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
}

func TestResetReachesBelowTLS(t *testing.T) {
	in := NewInjector(Script{Rules: []Rule{{Action: Action{Reset: true}}}}, Options{})
	srv := httptest.NewTLSServer(in.Handler(http.NewServeMux(), http.HandlerFunc(fake)))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v, want a reset", err)
	}
}

func TestControl(t *testing.T) {
	in, url := serve(t, Options{})
	steps := []struct {
		name, method, path, payload string
		status                      int
		body                        string // a part
	}{
		{"no rule", "POST", "/a", "", 200, "hello"},
		{"a bad script is refused", "POST", "/_script", `{"rules":[{"action":{"nope":1}}]}`, 400, "nope"},
		{"append", "POST", "/_script", `{"rules":[{"times":1,"action":{"status":500}}]}`, 200, `{"rules":1}`},
		{"append after", "POST", "/_script", `{"rules":[{"times":2,"action":{"status":501}}]}`, 200, `{"rules":2}`},
		{"first rule", "POST", "/a", "", 500, ""},
		{"second rule", "POST", "/a", "", 501, ""},
		{"what is left", "GET", "/_script", "", 200, `{"rules":[{"match":{},"times":1,"action":{"status":501}}]}`},
		{"replace", "PUT", "/_script", `{"rules":[{"action":{"status":410}}]}`, 200, `{"rules":1}`},
		{"the new rule", "POST", "/a", "", 410, ""},
		{"clear", "DELETE", "/_script", "", 204, ""},
		{"well again", "POST", "/b?token=s3cret&x=1", "payload", 200, "hello"},
		{"control calls are not faulted or counted", "GET", "/_calls", "", 200, `"POST /a":4`},
		{"unknown control path", "GET", "/_nope", "", 404, ""},
	}
	for _, s := range steps {
		got, err := call(t.Context(), t, s.method, url+s.path, s.payload)
		if err != nil || got.status != s.status || !strings.Contains(got.body, s.body) {
			t.Fatalf("%s: got %d %q (%v), want %d %q", s.name, got.status, got.body, err, s.status, s.body)
		}
	}
	report := in.Calls()
	if report.Total != 5 {
		t.Errorf("total %d, want 5", report.Total)
	}
	got := report.Last[4]
	want := Record{Method: "POST", Path: "/b", Query: "token=" + strings.ReplaceAll(HashSecret("s3cret"), ":", "%3A") + "&x=1", Body: "payload", BodyBytes: 7}
	got.Time, got.Headers = time.Time{}, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last call (-want +got):\n%s", diff)
	}
	if got, err := call(t.Context(), t, http.MethodDelete, url+"/_calls", ""); err != nil || got.status != 204 || in.Calls().Total != 0 {
		t.Errorf("calls are not cleared: %v", err)
	}
}

func TestCredentialsAreHashedInCalls(t *testing.T) {
	_, url := serve(t, Options{RedactPath: func(string) string { return "/hidden" }})
	if _, err := call(t.Context(), t, http.MethodPost, url+"/T0/s3cret?key=s3cret&key2=%zzs3cret", ""); err != nil {
		t.Fatal(err)
	}
	got, err := call(t.Context(), t, http.MethodGet, url+"/_calls", "")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.body, "s3cret") {
		t.Errorf("the credential shows in %s", got.body)
	}
	if want := "Bearer " + HashSecret("s3cret"); !strings.Contains(got.body, want) {
		t.Errorf("%q is not in %s", want, got.body)
	}
}

func TestRequestsLargerThanTheCap(t *testing.T) {
	var seen []Call
	opts := Options{MaxBody: 4, Observe: func(_ *http.Request, c Call, _ string) { seen = append(seen, c) }}
	_, url := serve(t, opts)
	for payload, status := range map[string]int{"1234": 200, "12345": 413} {
		got, err := call(t.Context(), t, http.MethodPost, url, payload)
		if err != nil || got.status != status {
			t.Errorf("%d bytes: %v, error %v; want %d", len(payload), got.status, err, status)
		}
	}
	for _, c := range seen {
		if string(c.Body) != "1234" {
			t.Errorf("observed body %q, want the first four bytes", c.Body)
		}
	}
}

func TestNewInjectorPanicsOnABadScript(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewInjector(Script{Rules: []Rule{{Times: -1}}}, Options{})
}
