package channel

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/retryafter"
)

const (
	// maxAnswer is how much of a response body is read, in bytes.
	maxAnswer = 4 << 10
	// connectTimeout bounds lookup and TCP connect together, and separately the TLS handshake.
	connectTimeout = 5 * time.Second
	// userAgent identifies the sender to receivers.
	userAgent = "Switchyard-Notify/1.0"
)

// Poster posts over guarded connections and follows no redirect. It is safe for concurrent use.
type Poster struct {
	client    *http.Client
	transport *http.Transport
	// answer is how much of a response body is read, in bytes.
	answer int64
}

// NewPoster returns a Poster. The guard checks targets when they are dialled, too. roots may be nil for the system's;
// perHost is how many idle connections are kept per host.
func NewPoster(guard *netguard.Guard, timeout time.Duration, roots *x509.CertPool, perHost int) *Poster {
	transport := guard.Transport(netguard.TransportOptions{
		ConnectTimeout: connectTimeout, TLSHandshake: connectTimeout, ResponseHeader: timeout, MaxIdlePerHost: perHost, RootCAs: roots,
	})
	return &Poster{answer: maxAnswer, transport: transport, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Reading returns a Poster over the same connections that reads other lengths of response bodies, in bytes.
func (p *Poster) Reading(length int64) *Poster {
	other := *p
	other.answer = length
	return &other
}

// Close closes idle connections.
func (p *Poster) Close() { p.transport.CloseIdleConnections() }

// Answer is the response to a request.
type Answer struct {
	// Status is zero without a response; then Class says why.
	Status int
	Class  Class
	// After is the wait that the receiver asked for.
	After time.Duration
	// Body is the beginning of the response body.
	Body []byte
	// Sent reports that the request was sent, so that the receiver may have acted on it.
	Sent bool
}

// Post sends a body. The errors of net/http hold the URL, which may be a credential: Post returns none of them.
func (p *Poster) Post(ctx context.Context, target string, header http.Header, body []byte) Answer {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Answer{Class: ClassTarget}
	}
	request.Header = header
	request.Header.Set("User-Agent", userAgent)
	response, err := p.client.Do(request)
	if err != nil {
		return Answer{Class: classOf(err), Sent: sent.Load()}
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := netguard.ReadStart(response, p.answer) // Only the status is decisive.
	return Answer{
		Status: response.StatusCode, Class: classOfStatus(response.StatusCode), Sent: true, Body: text,
		After: retryafter.Parse(response.Header.Get("Retry-After"), time.Now(), maxDelay),
	}
}

// Outcome returns the outcome of a response by its status alone.
func (a Answer) Outcome() Outcome {
	switch {
	case a.Status == 0 && a.Class == ClassTarget:
		return Unsent(Failed(ClassTarget, 0, ""))
	case a.Status == 0 && a.Sent:
		o := Lost(a.Class)
		o.HostFailed = true
		return o
	case a.Status == 0:
		o := Retry(a.Class, 0, 0)
		o.HostFailed = true
		return o
	case a.Class == ClassNone:
		return Delivered(a.Status)
	case a.Class == ClassRate, a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly, a.Status >= 500:
		return Retry(a.Class, a.Status, a.After)
	}
	return Failed(a.Class, a.Status, "")
}

// classOfStatus returns the class of an HTTP status.
func classOfStatus(status int) Class {
	switch {
	case status == http.StatusTooManyRequests:
		return ClassRate
	case status >= 200 && status < 300:
		return ClassNone
	case status >= 300 && status < 400:
		return ClassRedirect
	case status >= 400 && status < 500:
		return ClassClient
	case status >= 500 && status < 600:
		return ClassServer
	}
	return ClassResponse
}

// classOf returns the class of a request without a response.
func classOf(err error) Class {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if _, refused := errors.AsType[*netguard.Refusal](err); refused {
		return ClassTarget
	}
	if _, lookup := errors.AsType[*net.DNSError](err); lookup {
		return ClassDNS
	}
	timeout, _ := errors.AsType[net.Error](err)
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case timeout != nil && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	case isTLS(err):
		return ClassTLS
	case op != nil && op.Op == "dial":
		return ClassConnect
	}
	return ClassReset
}

// isTLS reports whether a certificate or a handshake failed. The error types differ by version and cause; all of
// their texts have one of these prefixes.
func isTLS(err error) bool {
	return strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "x509:")
}
