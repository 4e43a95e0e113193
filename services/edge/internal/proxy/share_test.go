package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// shared serves a relay whose caller's organization is in X-Test-Organization.
func shared(t *testing.T, within proxy.Bounds, service http.HandlerFunc) (base string) {
	t.Helper()
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := proxy.Transport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	relay := proxy.New(transport, secret.New(token), within)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := relay.Do(w, r, proxy.Call{
			Target: target, Timeout: time.Minute, Organization: r.Header.Get("X-Test-Organization"), Key: "key_1",
		})
		if err != nil {
			w.Header().Set("Retry-After", fmt.Sprint(apierr.From(err).RetryAfterSeconds()))
			w.WriteHeader(apierr.From(err).Kind.HTTPStatus())
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// post sends a body without a length for an organization.
func postAs(t *testing.T, base, organization string, size int) (status int, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, io.MultiReader(strings.NewReader(strings.Repeat("x", size))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Test-Organization", organization)
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode, answer.Header
}

// begin sends the beginning of a chunked body, and keeps the rest.
func begin(t *testing.T, base, organization string, size int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Test-Organization: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		organization, size, strings.Repeat("x", size))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func accept(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// Eight requests that send slowly take up what has arrived of them, and no other
// organization is refused for it.
func TestSlowBodiesTakeUpWhatArrived(t *testing.T) {
	base := shared(t, proxy.Bounds{Body: 1 << 20, Memory: 8 << 20, Share: 4 << 20, BodyTime: time.Minute, WriteTime: time.Minute}, accept)
	for range 8 {
		begin(t, base, "slow", 200<<10)
	}
	for _, organization := range []string{"one", "two", "three"} {
		if status, _ := postAs(t, base, organization, 1<<20); status != http.StatusOK {
			t.Errorf("a body of organization %s: status %d", organization, status)
		}
	}
	if status, _ := postAs(t, base, "slow", 1<<20); status != http.StatusOK {
		t.Errorf("a body of the slow organization, within its share: status %d", status)
	}
}

// An organization that has used up its share of the memory is told when to come
// again; the others go on, and so does it once its bodies are gone.
func TestShareOfBodies(t *testing.T) {
	base := shared(t, proxy.Bounds{Body: 1 << 20, Memory: 8 << 20, Share: 2 << 20, BodyTime: time.Minute, WriteTime: time.Minute}, accept)
	var slow []net.Conn
	for range 8 {
		slow = append(slow, begin(t, base, "slow", 300<<10))
	}
	testkit.Wait(t, "the share to be used up", func() error {
		status, header := postAs(t, base, "slow", 1<<20)
		if status != http.StatusTooManyRequests {
			return fmt.Errorf("status %d", status)
		}
		if header.Get("Retry-After") != "1" {
			t.Fatalf("Retry-After %q", header.Get("Retry-After"))
		}
		return nil
	})
	for i := range 6 {
		if status, _ := postAs(t, base, fmt.Sprint("other-", i), 1<<20); status != http.StatusOK {
			t.Errorf("another organization: status %d", status)
		}
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	testkit.Wait(t, "the share to be free", func() error {
		if status, _ := postAs(t, base, "slow", 1<<20); status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
}

// All organizations together have a bound too; small bodies need none of it.
func TestBodyMemory(t *testing.T) {
	base := shared(t, proxy.Bounds{Body: 1 << 20, Memory: 2 << 20, Share: 1 << 20, BodyTime: time.Minute, WriteTime: time.Minute}, accept)
	var slow []net.Conn
	for i := range 4 {
		slow = append(slow, begin(t, base, fmt.Sprint("slow-", i), 600<<10))
	}
	testkit.Wait(t, "the memory to be used up", func() error {
		if status, _ := postAs(t, base, "other", 1<<20); status != http.StatusServiceUnavailable {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	if status, _ := postAs(t, base, "other", 60<<10); status != http.StatusOK {
		t.Errorf("a small body: status %d", status)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	testkit.Wait(t, "the memory to be free", func() error {
		if status, _ := postAs(t, base, "other", 1<<20); status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
}

// A sender who stops is let go after the time for a body, with what it took up.
func TestSlowSenderIsLetGo(t *testing.T) {
	base := shared(t, proxy.Bounds{Body: 1 << 20, Memory: 1 << 20, Share: 1 << 20, BodyTime: 100 * time.Millisecond, WriteTime: time.Minute}, accept)
	for range 4 {
		conn := begin(t, base, "slow", 900<<10)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") && !strings.HasPrefix(string(answer), "HTTP/1.1 429") {
			t.Fatalf("a sender who stopped got %.60q, %v", answer, err)
		}
	}
	if status, _ := postAs(t, base, "slow", 900<<10); status != http.StatusOK {
		t.Errorf("afterwards: status %d", status)
	}
}

// A body without a length takes memory as it comes: no copy that is twice as large.
func TestBodyTakesWhatItNeeds(t *testing.T) {
	const size = 16 << 20
	base := shared(t, proxy.Bounds{Body: size, Memory: size + 1<<20, Share: size + 1<<20, BodyTime: time.Minute, WriteTime: time.Minute}, accept)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base, io.LimitReader(endless{}, size))
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	runtime.ReadMemStats(&after)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d", answer.StatusCode)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > size*5/4 {
		t.Errorf("%d bytes allocated for a body of %d", took, size)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
