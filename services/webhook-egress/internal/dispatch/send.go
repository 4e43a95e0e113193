package dispatch

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	neturl "net/url"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

const (
	// maxResponse is how much of a response body is read, in bytes; a connection with more unread is not reused.
	maxResponse = 64 << 10
	// connectTimeout bounds lookup and TCP connect together, and separately the TLS handshake.
	connectTimeout = 5 * time.Second
)

// Reply is the result of a request.
type Reply struct {
	// Status is zero without a response; then Fault says why.
	Status     int
	Fault      delivery.Fault
	RetryAfter string
	Body       []byte
	Truncated  bool
	RemoteIP   string
	Timing     delivery.Timing
	// Err is the underlying error, for the operator's log only.
	Err error
}

// HTTP sends over guarded connections. It is safe for concurrent use.
type HTTP struct {
	transport *http.Transport // A transport by itself follows no redirect.
	timeout   time.Duration
}

// NewHTTP returns a sender whose requests take at most timeout, from the lookup to the last byte. perHost is how many
// idle connections are kept per host.
func NewHTTP(guard *netguard.Guard, timeout time.Duration, perHost int) *HTTP {
	transport := guard.Transport(netguard.TransportOptions{
		ConnectTimeout: connectTimeout, TLSHandshake: connectTimeout, ResponseHeader: timeout, MaxIdlePerHost: perHost,
	})
	return &HTTP{transport: transport, timeout: timeout}
}

// Close closes idle connections.
func (h *HTTP) Close() { h.transport.CloseIdleConnections() }

// Send posts body to url and reads the beginning of the response. Once the status has arrived it counts, even if the
// rest of the response fails.
func (h *HTTP) Send(ctx context.Context, url string, header map[string]string, body []byte) Reply {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	watch := newStopwatch()
	request, err := http.NewRequestWithContext(watch.attach(ctx), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Reply{Fault: delivery.FaultTarget, Err: withoutURL(err)}
	}
	request.Header = headerOf(header)
	response, err := h.transport.RoundTrip(request)
	if err != nil {
		reply := Reply{Fault: watch.fault(err), Err: withoutURL(err)}
		reply.Timing, reply.RemoteIP = watch.result()
		return reply
	}
	defer func() { _ = response.Body.Close() }()
	text, err := netguard.ReadStart(response, maxResponse+1)
	reply := Reply{
		Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After"),
		Body: text[:min(len(text), maxResponse)], Truncated: len(text) > maxResponse || err != nil, Err: err,
	}
	reply.Timing, reply.RemoteIP = watch.result()
	return reply
}

// headerOf returns the header of a request. Its values share one allocation.
func headerOf(header map[string]string) http.Header {
	values, made := make([]string, 0, len(header)), make(http.Header, len(header))
	for name, value := range header {
		n := len(values)
		values = append(values, value)
		made[http.CanonicalHeaderKey(name)] = values[n : n+1 : n+1]
	}
	return made
}

// withoutURL removes the URL that net/http puts before an error: its path or query may hold a credential.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*neturl.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// addressOf returns the IP address of a connection's remote end.
func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}
