package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/secret"
)

// silent is a service whose streams have begun and stay silent until end is closed. Each stream sends to waiting when
// the relay waits for its next piece.
type silent struct{ waiting, end chan struct{} }

func newSilent() silent { return silent{make(chan struct{}, 1000), make(chan struct{})} }

func (s silent) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: s}, nil
}

func (s silent) Await() {
	s.waiting <- struct{}{}
	<-s.end
}

func (s silent) Read([]byte) (int, error) {
	s.Await()
	return 0, io.EOF
}

func (silent) Close() error { return nil }

// streams opens streams of an organization, and returns their errors as they end.
func streams(t *testing.T, relay *proxy.Relay, organization string, n int) <-chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		go func() {
			ended <- relay.Do(httptest.NewRecorder(), r, proxy.Call{
				Target: &url.URL{Scheme: "http", Host: "service"}, Timeout: time.Minute, Organization: organization,
			})
		}()
	}
	return ended
}

// One organization can't take all calls in flight.
func TestOrganizationHasItsShareOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newSilent()
		within := bounds
		within.Calls = fairshare.New(100, 50)
		relay := proxy.New(service, secret.New(token), within)
		refused := func(ended <-chan error, n int, kind apierr.Kind) {
			t.Helper()
			synctest.Wait()
			if len(ended) != n {
				t.Fatalf("%d calls were refused, want %d", len(ended), n)
			}
			for range n {
				if e := apierr.From(<-ended); e.Kind != kind || e.RetryAfterSeconds() != 1 {
					t.Errorf("refused with %v, again after %d s; want %v after 1 s", e.Kind, e.RetryAfterSeconds(), kind)
				}
			}
		}
		hostile := streams(t, relay, "hostile", 80)
		refused(hostile, 30, apierr.KindRateLimited)
		refused(streams(t, relay, "acme", 30), 0, 0)
		refused(streams(t, relay, "other", 30), 10, apierr.KindUnavailable)
		close(service.end)
		synctest.Wait()
		if held := within.Calls.Held(); held != 0 {
			t.Errorf("%d calls are in flight after all have ended", held)
		}
		again := streams(t, relay, "hostile", 10)
		for range 10 {
			if err := <-again; err != nil {
				t.Errorf("after all have ended: %v", err)
			}
		}
	})
}

// A silent stream holds no buffer for pieces of the response.
func TestSilentStreamIsSmall(t *testing.T) {
	const n, most = 400, 16 << 10
	service := newSilent()
	relay := proxy.New(service, secret.New(token), bounds)
	before := inUse()
	ended := streams(t, relay, "acme", n)
	for range n {
		<-service.waiting
	}
	each := (inUse() - before) / n
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("a silent stream takes %d bytes, want %d at most", each, most)
	}
	close(service.end)
	for range n {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// inUse returns the bytes of heap and stacks in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
