// Package proxy carries admitted calls to the services and their answers back,
// as they are and as they come. The api package calls it.
//
// It is not httputil.ReverseProxy: the whole (bounded) request body is read
// before the service is called, since a service that answers earlier would make
// net/http cut the connection under the answer; headers pass by allow lists
// only; and an answer is complete only once its success is counted.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/secret"
)

// Reasons of calls that brought no answer.
const (
	ReasonUpstreamUnavailable apierr.Reason = "upstream_unavailable"
	ReasonUpstreamTimeout     apierr.Reason = "upstream_timeout"
)

const (
	// idle bounds the silence between two pieces of an answer. The services have
	// shorter clocks of their own.
	idle       = 5 * time.Minute
	bufferSize = 32 << 10
)

// Call is an admitted request.
type Call struct {
	// Target is the whole URL at the service.
	Target *url.URL
	// Timeout bounds the wait for the head of the answer.
	Timeout time.Duration
	// Organization and Key are whose key it is.
	Organization, Key string
	// Dialect in which the customer talks; empty is our own words.
	Dialect string
	// Inject adds the trace to the headers of the call; it may be nil.
	Inject func(http.Header)
	// Succeeded runs once when the service has answered with 2xx. The answer
	// isn't completed before the function that it returns has returned nil.
	Succeeded func() (settled func() error)
}

// Bounds are what customers may take up.
type Bounds struct {
	// Body is the size of a request body in bytes, Memory that of all larger
	// bodies held at once, Share that of those of one organization.
	Body, Memory, Share int64
	// BodyTime is how long a customer may take to send a body, WriteTime to accept
	// a piece of the answer.
	BodyTime, WriteTime time.Duration
}

// Relay carries calls over one set of connections. Safe for concurrent use.
type Relay struct {
	transport http.RoundTripper
	token     secret.Value
	bounds    Bounds
	memory    memory
	buffers   sync.Pool
}

// New returns a relay that presents the edge's service token.
func New(transport http.RoundTripper, token secret.Value, bounds Bounds) *Relay {
	return &Relay{
		transport: transport, token: token, bounds: bounds,
		memory:  memory{limit: bounds.Memory, share: bounds.Share, by: make(map[string]int64)},
		buffers: sync.Pool{New: func() any { return new([bufferSize]byte) }},
	}
}

// connectTime bounds connecting to a service, with the TLS handshake.
const connectTime = 2 * time.Second

// Transport is made for few hosts and many calls. It follows no environment
// proxy, leaves bodies as they are, and makes a call once. secure configures the
// connections to services with TLS; nil trusts what the machine trusts.
func Transport(secure func() *tls.Config) *connpool.Pool {
	return connpool.New(connpool.Options{
		Dial: (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext, TLS: secure, ConnectTime: connectTime,
		IdlePerHost: 512,
		IdleTime:    time.Minute, // below the services' own, so that they never close first
	})
}

var errNoHead = errors.New("the answer did not begin in time")

// ErrCut says that an answer ended early. The handler must then cut the customer's
// connection (http.ErrAbortHandler), so that the customer doesn't take half an
// answer for a whole one.
var ErrCut = errors.New("the answer was cut")

// Do makes one call, never two. Unless its error is ErrCut, nothing has been
// written to the customer.
func (x *Relay) Do(w http.ResponseWriter, r *http.Request, call Call) error {
	body, err := x.readBody(w, r, call.Organization)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	clock := time.AfterFunc(call.Timeout, func() { cancel(errNoHead) })
	defer clock.Stop()

	answer, err := x.send(ctx, r, body, call)
	if err != nil {
		return failure(ctx, r, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusUnauthorized { // the edge's token, not the customer's key
		return apierr.New(apierr.KindUpstream, ReasonUpstreamUnavailable, "the service is not available").
			Wrap(errors.New("the service refused the edge's token or certificate"))
	}
	settled := func() error { return nil }
	if answer.StatusCode/100 == 2 {
		settled = sync.OnceValue(call.Succeeded())
	}
	if err := x.pass(w, answer, clock, settled); err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil
}

func (x *Relay) send(ctx context.Context, r *http.Request, body *body, call Call) (*http.Response, error) {
	header := request(r.Header, x.token.Reveal(), call)
	if call.Inject != nil {
		call.Inject(header)
	}
	outbound := &http.Request{
		Method: r.Method, URL: call.Target, Host: call.Target.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: body.reader(), ContentLength: body.size,
	}
	return x.transport.RoundTrip(outbound.WithContext(ctx))
}

// failure says what became of a call without an answer.
func failure(ctx context.Context, r *http.Request, err error) error {
	refused, ended := errors.AsType[*apierr.Error](context.Cause(r.Context()))
	switch {
	case ended: // by us, not by the customer
		return refused
	case r.Context().Err() != nil:
		return apierr.New(apierr.KindCanceled, apierr.ReasonCancelled, "the request was cancelled").Wrap(err)
	case errors.Is(context.Cause(ctx), errNoHead):
		return apierr.New(apierr.KindTimeout, ReasonUpstreamTimeout, "the service did not answer in time").Wrap(err)
	}
	if unseen(err) {
		e := apierr.New(apierr.KindUnavailable, ReasonUpstreamUnavailable, "the service can't be reached").Wrap(err)
		e.RetryAfter = time.Second
		return e
	}
	return apierr.New(apierr.KindUpstream, ReasonUpstreamUnavailable, "the service broke off the call").Wrap(err)
}

// unseen tells that the call never reached the service.
func unseen(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// pass writes an answer as it comes. The last byte of one whose length is known,
// and the end of one that streams, wait until the call is counted.
func (x *Relay) pass(w http.ResponseWriter, answer *http.Response, clock *time.Timer, settled func() error) error {
	clock.Reset(idle)
	response(w.Header(), answer.Header)
	left := answer.ContentLength
	if left >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(left, 10))
	}
	if left == 0 {
		if err := settled(); err != nil {
			return err
		}
	}
	w.WriteHeader(answer.StatusCode)
	out := piecewise{w: w, control: http.NewResponseController(w), time: x.bounds.WriteTime, flush: left < 0}
	if err := out.flushHead(); err != nil {
		return err
	}
	buffer, _ := x.buffers.Get().(*[bufferSize]byte)
	defer x.buffers.Put(buffer)
	for {
		n, err := answer.Body.Read(buffer[:])
		clock.Reset(idle)
		left -= int64(n)
		if n > 0 && left == 0 {
			if err := settled(); err != nil {
				return err
			}
		}
		if n > 0 {
			if err := out.write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return settled()
		case err != nil:
			return fmt.Errorf("read answer: %w", err)
		}
	}
}
