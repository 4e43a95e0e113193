package dispatch_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/tunnel"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// wayOut is an operator's proxy, which may refuse every request.
type wayOut struct {
	*httptest.Server

	closed atomic.Bool
	mu     sync.Mutex
	asked  []string
}

func newWayOut(t *testing.T) *wayOut {
	t.Helper()
	p := &wayOut{}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *wayOut) serve(w http.ResponseWriter, q *http.Request) {
	if p.closed.Load() || q.Method != http.MethodConnect || q.Header.Get("Proxy-Authorization") == "" {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, q.Host)
	p.mu.Unlock()
	up, err := net.Dial("tcp", q.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer up.Close()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(up, conn); up.Close() })
	_, _ = io.Copy(conn, up)
	conn.Close()
	both.Wait()
}

// All requests leave through the operator's proxy. While it refuses them, deliveries
// wait without an attempt and say so; its password is written nowhere.
func TestEgressProxy(t *testing.T) {
	t.Parallel()
	const canary = "canary-proxy-password-77"
	r, proxy := newReceiver(t, nil), newWayOut(t)
	w := newWorld(t, r)
	at, err := url.Parse(strings.Replace(proxy.URL, "http://", "http://yard:"+canary+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	way, err := tunnel.New(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	receiver := r.Listener.Addr().String()
	if w.guard, err = netguard.New(netguard.Options{AllowTargets: []string{receiver}, Proxy: way}); err != nil {
		t.Fatal(err)
	}
	proxy.closed.Store(true)
	n := w.start()
	id := w.enqueue(n, request(r))
	until(t, "the delivery says what it waits for", func() bool { return w.get(id).LastError == "egress_proxy_unavailable" })
	if record := w.get(id); record.Attempts != 0 || record.Status.Ended() || r.count() != 0 {
		t.Errorf("record %+v after %d requests", record, r.count())
	}
	proxy.closed.Store(false)
	w.untilStatus(id, delivery.StatusDelivered)
	if record := w.get(id); record.Attempts != 1 || len(w.attempts(id)) != 1 || r.count() != 1 {
		t.Errorf("record %+v after %d requests", record, r.count())
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	if !slices.Equal(proxy.asked, []string{receiver}) {
		t.Errorf("the proxy was asked for %v", proxy.asked)
	}
	testkit.NoLeak(t, canary, w.everything())
}
