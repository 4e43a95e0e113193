package dispatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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
	// maxPooled is how many idle connections are kept for an endpoint with a client certificate.
	maxPooled = 4
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
	pools     *pools
	timeout   time.Duration
}

// HTTPOptions configures an HTTP.
type HTTPOptions struct {
	// Timeout bounds a request, from the lookup to the last byte.
	Timeout time.Duration
	// PerHost is how many idle connections are kept per host.
	PerHost int
	// Roots are the certificates that targets' must come from; nil for those of the machine.
	Roots *x509.CertPool
}

// NewHTTP returns a sender.
func NewHTTP(guard *netguard.Guard, o HTTPOptions) *HTTP {
	options := netguard.TransportOptions{
		ConnectTimeout: connectTimeout, TLSHandshake: connectTimeout, ResponseHeader: o.Timeout, MaxIdlePerHost: o.PerHost, RootCAs: o.Roots,
	}
	return &HTTP{transport: guard.Transport(options), timeout: o.Timeout, pools: newPools(func(certificate tls.Certificate) *http.Transport {
		transport := guard.Transport(options)
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = maxPooled, maxPooled
		// Not Certificates: those are left out when the target's list of authorities lacks theirs.
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificate, nil
		}
		return transport
	})}
}

// Close closes idle connections.
func (h *HTTP) Close() {
	h.transport.CloseIdleConnections()
	h.pools.close()
}

// Send posts the request and reads the beginning of the response. Once the status has arrived it counts, even if the
// rest of the response fails.
func (h *HTTP) Send(ctx context.Context, r Request) Reply {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	transport := h.transport
	if r.Client != nil {
		var err error
		if transport, err = h.pools.of(r.Client); err != nil {
			return Reply{Fault: delivery.FaultTLS, Err: err}
		}
	}
	watch := newStopwatch()
	request, err := http.NewRequestWithContext(watch.attach(ctx), http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return Reply{Fault: delivery.FaultTarget, Err: withoutURL(err)}
	}
	request.Header = headerOf(r.Header)
	response, err := transport.RoundTrip(request)
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
