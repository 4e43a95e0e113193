package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

const token = "service-token-that-stays-inside"

// edge serves a relay in front of a service, as package api does.
type edge struct {
	URL     string
	client  *http.Client
	counted atomic.Int64
	errs    chan error
}

func serve(t *testing.T, service http.Handler, change ...func(*proxy.Call)) *edge {
	t.Helper()
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	return relayTo(t, upstream.URL, change...)
}

var bounds = proxy.Bounds{Body: 1 << 20, Memory: 8 << 20, Share: 8 << 20, BodyTime: 30 * time.Second, WriteTime: 30 * time.Second}

// serveWithin is serve with bounds of its own.
func serveWithin(t *testing.T, within proxy.Bounds, service http.Handler) *edge {
	t.Helper()
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	return relayWithin(t, within, upstream.URL)
}

func relayTo(tb testing.TB, upstream string, change ...func(*proxy.Call)) *edge {
	tb.Helper()
	return relayWithin(tb, bounds, upstream, change...)
}

func relayWithin(tb testing.TB, within proxy.Bounds, upstream string, change ...func(*proxy.Call)) *edge {
	tb.Helper()
	target, err := url.Parse(upstream + "/v1/llm/chat")
	if err != nil {
		tb.Fatal(err)
	}
	transport := proxy.Transport(nil)
	relay := proxy.New(transport, secret.New(token), within)
	e := &edge{errs: make(chan error, 64)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := proxy.Call{
			Target: target, Timeout: time.Minute, Organization: "org-1", Key: "key_1",
			Inject:    func(h http.Header) { h.Set("Traceparent", "of-the-edge") },
			Succeeded: func(bool) { e.counted.Add(1) },
		}
		for _, c := range change {
			c(&call)
		}
		err := relay.Do(w, r, call)
		select {
		case e.errs <- err:
		default:
		}
		if errors.Is(err, proxy.ErrCut) {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			w.WriteHeader(apierr.From(err).Kind.HTTPStatus())
			_, _ = io.WriteString(w, string(apierr.From(err).Reason))
		}
	}))
	e.URL, e.client = server.URL, server.Client()
	tb.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	return e
}

// answer is what a customer sees; its body is closed when the test ends.
type answer struct {
	StatusCode    int
	Header        http.Header
	ContentLength int64
	Body          io.Reader
}

func (e *edge) post(t *testing.T, body io.Reader, header http.Header) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL+"/product/v1/ai/chat?secret=1", body)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	got, err := e.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	return answer{got.StatusCode, got.Header, got.ContentLength, got.Body}
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestHeadersIn(t *testing.T) {
	var got http.Header
	var line string
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, line = r.Header, r.Method+" "+r.RequestURI+" "+fmt.Sprint(r.ContentLength, r.TransferEncoding)
	}))
	e.post(t, strings.NewReader(`{"a":1}`), http.Header{
		"Authorization": {"Bearer swy_test_customer"}, "X-Organization-Id": {"org-of-somebody"}, "X-Key-Id": {"key_of_somebody"},
		"X-Key-Terms": {`{"key":"key_of_somebody"}`}, "x-key-terms": {`{"key":"key_of_somebody"}`},
		"X-Owner-Id": {"ann", "bob"}, "X-User-Id": {"u"}, "X-Run-Id": {"r"}, "Idempotency-Key": {"i"}, "X-Request-Id": {"req_1"}, "Last-Event-Id": {"7"},
		"Accept": {"text/event-stream"}, "Content-Type": {"application/json"}, "Traceparent": {"of-the-customer"}, "Tracestate": {"t"},
		"X-Forwarded-For": {"1.2.3.4"}, "Forwarded": {"for=1"}, "Cookie": {"c"}, "X-Principal": {"root"}, "Connection": {"X-Owner-Id"},
		"X-Api-Key": {"k"}, "Proxy-Authorization": {"p"}, "Te": {"trailers"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"curl"},
		"Grpc-Metadata-X-Organization-Id": {"org-of-somebody"}, "X-Http-Method-Override": {"DELETE"},
		"anthropic-version": {"v"}, "anthropic-beta": {"b"}, "openai-beta": {"c"}, "x-switchyard-goal": {"cheap"}, "x-switchyard-provider": {"p"},
		"x-switchyard-byok": {"y"}, "x-switchyard-allow-substitution": {"true"}, "x-switchyard-classification": {"c"},
		"x-switchyard-locale": {"de"}, "x-switchyard-language-mode": {"l"}, "x-switchyard-cache": {"off"},
		"x-switchyard-approval-ref": {"a"}, "x-switchyard-tags": {"team=web"}, "x-switchyard-dialect": {"of-the-customer"},
	})
	want := http.Header{
		"Authorization": {"Bearer " + token}, "X-Organization-Id": {"org-1"}, "X-Key-Id": {"key_1"},
		"X-Owner-Id": {"ann"}, "X-User-Id": {"u"}, "X-Run-Id": {"r"}, "Idempotency-Key": {"i"}, "X-Request-Id": {"req_1"}, "Last-Event-Id": {"7"},
		"Accept": {"text/event-stream"}, "Content-Type": {"application/json"}, "Traceparent": {"of-the-edge"},
		"User-Agent": {"switchyard-edge"}, "Content-Length": {"7"},
		"Anthropic-Version": {"v"}, "Anthropic-Beta": {"b"}, "Openai-Beta": {"c"}, "X-Switchyard-Goal": {"cheap"}, "X-Switchyard-Provider": {"p"},
		"X-Switchyard-Byok": {"y"}, "X-Switchyard-Allow-Substitution": {"true"}, "X-Switchyard-Classification": {"c"},
		"X-Switchyard-Locale": {"de"}, "X-Switchyard-Language-Mode": {"l"}, "X-Switchyard-Cache": {"off"},
		"X-Switchyard-Approval-Ref": {"a"}, "X-Switchyard-Tags": {"team=web"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers at the service (-want +got):\n%s", diff)
	}
	if line != "POST /v1/llm/chat 7 []" {
		t.Errorf("request at the service: %s", line)
	}
}

func TestHeadersOut(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Retry-After": "7", "Idempotent-Replayed": "true", "X-Switchyard-Model": "m",
			"Etag": `"e"`, "Allow": "POST", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Request-Id": "req_of_the_service", "Server": "internal", "Set-Cookie": "s",
			"X-Organization-Id": "org-1", "X-Key-Id": "key_1", "Authorization": "Bearer " + token, "Via": "10.0.0.1", "Location": "http://10.0.0.1/",
			"Grpc-Metadata-X": "x", "Www-Authenticate": "Bearer", "Traceparent": "t", "Trailer": "X-T",
		} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":"rate_limited"}`)
	}))
	answer := e.post(t, strings.NewReader("{}"), nil)
	answer.Header.Del("Date")
	want := http.Header{
		"Content-Type": {"application/json"}, "Retry-After": {"7"}, "Idempotent-Replayed": {"true"}, "X-Switchyard-Model": {"m"},
		"Etag": {`"e"`}, "Allow": {"POST"}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"},
	}
	if answer.ContentLength >= 0 {
		want["Content-Length"] = []string{"24"}
	}
	if diff := cmp.Diff(want, answer.Header); diff != "" {
		t.Errorf("headers at the customer (-want +got):\n%s", diff)
	}
	if body := text(t, answer.Body); answer.StatusCode != http.StatusTooManyRequests || body != `{"error":"rate_limited"}` || e.counted.Load() != 0 {
		t.Errorf("answer %d %s, counted %d", answer.StatusCode, body, e.counted.Load())
	}
}

// The product's own trailers reach the customer, whether or not the service declared them. Others stay inside.
func TestTrailersOut(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Switchyard-Declared")
		_, _ = io.WriteString(w, "sound")
		_ = http.NewResponseController(w).Flush()
		for name, value := range map[string]string{
			"X-Switchyard-Declared": "d", http.TrailerPrefix + "X-Switchyard-Cost-Usd": "0.01", http.TrailerPrefix + "X-Key-Id": "key_1",
			http.TrailerPrefix + "Server": "internal",
		} {
			w.Header().Set(name, value)
		}
	}))
	answer, err := e.client.Post(e.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body := text(t, answer.Body); body != "sound" {
		t.Errorf("body %q", body)
	}
	want := http.Header{"X-Switchyard-Declared": {"d"}, "X-Switchyard-Cost-Usd": {"0.01"}}
	if diff := cmp.Diff(want, answer.Trailer); diff != "" {
		t.Errorf("trailers at the customer (-want +got):\n%s", diff)
	}
}

// The service sends each event only once the customer has the one before, and
// the head before any: anything held back on the way stops the test for good.
func TestStreamIsNotHeldBack(t *testing.T) {
	received := make(chan struct{})
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		_ = control.Flush()
		for i := range 5 {
			select {
			case <-received:
			case <-r.Context().Done():
				return
			}
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = control.Flush()
		}
	}))
	answer := e.post(t, strings.NewReader("{}"), nil)
	lines := bufio.NewReader(answer.Body)
	for i := range 5 {
		received <- struct{}{}
		line, err := lines.ReadString('\n')
		if want := fmt.Sprintf("data: %d\n", i); err != nil || line != want {
			t.Fatalf("line %q, %v; want %q", line, err, want)
		}
		_, _ = lines.ReadString('\n')
	}
	if e.counted.Load() != 1 {
		t.Errorf("counted %d, want 1", e.counted.Load())
	}
}

// The edge says what a success counts as, learns from the answer whether it was counted, and keeps that to itself.
func TestReceipt(t *testing.T) {
	for name, tt := range map[string]struct {
		metric, receipt   string
		status            int
		succeeded, counts bool
	}{
		"counted":           {"llm_requests", "1", 200, true, true},
		"not counted":       {"llm_requests", "", 200, true, false},
		"counts as nothing": {"", "", 200, true, false},
		"refused":           {"llm_requests", "", 429, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var succeeded, counts bool
			var got string
			e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("X-Count-Metric")
				if tt.receipt != "" {
					w.Header().Set("X-Counted", tt.receipt)
				}
				w.WriteHeader(tt.status)
			}), func(c *proxy.Call) {
				c.Metric = tt.metric
				c.Succeeded = func(counted bool) { succeeded, counts = true, counted }
			})
			answer := e.post(t, strings.NewReader("{}"), http.Header{"X-Count-Metric": {"of_the_customer"}})
			if got != tt.metric || succeeded != tt.succeeded || counts != tt.counts || answer.Header.Get("X-Counted") != "" {
				t.Errorf("sent as %q, succeeded %t, counted %t, the customer gets %v; want %q, %t, %t and no receipt",
					got, succeeded, counts, answer.Header, tt.metric, tt.succeeded, tt.counts)
			}
		})
	}
}

// A service that answers before it has read the request must not cost the
// customer the answer.
func TestEarlyAnswer(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "suspended")
	}))
	body := strings.Repeat("x", 1<<20)
	for range 200 {
		answer := e.post(t, strings.NewReader(body), nil)
		if got := text(t, answer.Body); answer.StatusCode != http.StatusForbidden || got != "suspended" {
			t.Fatalf("answer %d %q", answer.StatusCode, got)
		}
	}
}

func TestBodies(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	large := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB, the bound
	for name, body := range map[string]io.Reader{"with length": strings.NewReader(large), "chunked": io.MultiReader(strings.NewReader(large))} {
		if got := text(t, e.post(t, body, nil).Body); got != large {
			t.Errorf("%s: %d bytes came back changed", name, len(got))
		}
	}
	if got := text(t, e.post(t, http.NoBody, nil).Body); got != "" {
		t.Errorf("empty: %q", got)
	}
	for name, body := range map[string]io.Reader{"with length": strings.NewReader(large + "x"), "chunked": io.MultiReader(strings.NewReader(large + "x"))} {
		answer := e.post(t, body, nil)
		if got := text(t, answer.Body); answer.StatusCode != http.StatusRequestEntityTooLarge || got != "too_large" {
			t.Errorf("%s, too large: %d %s", name, answer.StatusCode, got)
		}
	}
}
