// Package proxy relays admitted calls to the services and streams their responses back unchanged. Package api calls
// it.
//
// It does not use httputil.ReverseProxy: the whole (bounded) request body is read before the service is called, since
// a service that responds earlier would make net/http close the connection during the response; headers pass by allow
// lists only.
package proxy

import (
	"cmp"
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
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/secret"
)

// The reasons of calls without a response.
const (
	ReasonUpstreamUnavailable apierr.Reason = "upstream_unavailable"
	ReasonUpstreamTimeout     apierr.Reason = "upstream_timeout"
)

const (
	// idle bounds the silence between two pieces of a response. The services have shorter timeouts of their own.
	idle       = 5 * time.Minute
	bufferSize = 32 << 10
)

// Call is an admitted request.
type Call struct {
	// Target is the complete URL at the service.
	Target *url.URL
	// Timeout bounds the wait for the head of the response.
	Timeout time.Duration
	// Organization and Key identify the caller. User is the end user whose token it has, empty with a product key; Owner,
	// which may be empty, is the token's.
	Organization, Key, User, Owner string
	// Terms is the value of caller.HeaderKeyTerms; empty sends no such header.
	Terms string
	// Sharer is who has a share of the bounds on calls and bodies; empty for the organization.
	Sharer string
	// Dialect is the API whose format the customer uses; empty for Switchyard's own.
	Dialect string
	// Body returns the body to send in place of the caller's, or the error that refuses it; nil sends the body
	// unchanged.
	Body func(ctx context.Context, sent io.Reader) ([]byte, error)
	// Verified reports whether the user's own token or session has verified User, or without one the user in the
	// request's headers.
	Verified bool
	// OwnerSession reports whether the session is an owner's, which the request's headers name. A token with Owner is
	// one, too.
	OwnerSession bool
	// Follow is called with the function that ends the call early, for which the caller may give an *apierr.Error as the
	// reason. Do calls done when the call has ended. Follow may be nil.
	Follow func(end context.CancelCauseFunc) (done func())
	// Inject adds the trace context to the headers of the call; it may be nil.
	Inject func(http.Header)
	// Metric is what the service counts a success as; empty for a call that counts nothing.
	Metric string
	// Succeeded is called once when the service has responded with 2xx. counted reports whether the service has counted
	// the call. Succeeded may be nil.
	Succeeded func(counted bool)
	// Admit and Refusal are for WebSocket connections, on which Succeeded is not called. Admit admits a
	// request; if its error wraps a *socket.ClosedError, the connection ends with it after the responses in flight.
	// Refusal returns the message that refuses a request, on a lane of the connection.
	Admit   func(ctx context.Context) error
	Refusal func(e *apierr.Error, stream string) []byte
}

// Bounds limits what customers may use.
type Bounds struct {
	// Body is the largest request body in bytes, Memory the total of all larger bodies in memory, Share that of one
	// organization.
	Body, Memory, Share int64
	// BodyTime is how long a customer may take to send a body, WriteTime to read a piece of the response.
	BodyTime, WriteTime time.Duration
	// Calls bounds the calls in flight, in total and for each organization; nil for no bound.
	Calls *fairshare.Pool
}

// Relay relays calls over one connection pool. It is safe for concurrent use.
type Relay struct {
	transport http.RoundTripper
	// authorization is the header's value with the edge's service token.
	authorization secret.Value
	// plain is set where callers authenticate to the service themselves.
	plain   bool
	bounds  Bounds
	memory  *bodymemory.Budget
	buffers sync.Pool
}

// New returns a Relay that authenticates with the edge's service token.
func New(transport http.RoundTripper, token secret.Value, bounds Bounds) *Relay {
	x := NewPlain(transport, bounds)
	x.authorization, x.plain = secret.New("Bearer "+token.Reveal()), false
	return x
}

// NewPlain returns a Relay to a service that authenticates callers itself: all headers pass in both directions except
// those of the connection, and the edge adds no identity. Of a Call it ignores Organization, Key, User, Owner, Terms and Dialect.
func NewPlain(transport http.RoundTripper, bounds Bounds) *Relay {
	return &Relay{
		transport: transport, plain: true, bounds: bounds,
		memory:  bodymemory.New(bounds.Memory, bounds.Share, 1),
		buffers: sync.Pool{New: func() any { return new([bufferSize]byte) }},
	}
}

// connectTime bounds connecting to a service, including the TLS handshake.
const connectTime = 2 * time.Second

// Transport returns a connection pool for few hosts and many calls. It follows no environment proxy, leaves bodies
// unchanged, and sends a call once. secure configures the TLS connections to services; nil trusts the system's
// certificates.
func Transport(secure func() *tls.Config) *connpool.Pool {
	return connpool.New(connpool.Options{
		Dial: (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext, TLS: secure, ConnectTime: connectTime,
		IdlePerHost: 512,
		IdleTime:    time.Minute, // below the services' own, so that they never close first
		MaxAge:      time.Minute,
	})
}

var errNoHead = errors.New("the answer did not begin in time")

// ErrCut reports that a response ended early. The handler must then abort the customer's connection
// (http.ErrAbortHandler), so that the customer does not take a partial response for a complete one.
var ErrCut = errors.New("the answer was cut")

// Do makes one call, never two. Unless its error is ErrCut, nothing has been written to the customer.
func (x *Relay) Do(w http.ResponseWriter, r *http.Request, call Call) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if call.Follow != nil {
		defer call.Follow(cancel)()
	}
	sharer := cmp.Or(call.Sharer, call.Organization)
	leave, err := x.bounds.enter(sharer)
	if err != nil {
		return err
	}
	defer leave()
	body, err := x.readBody(w, r, sharer)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if call.Body != nil {
		if err := body.replace(ctx, call.Body); err != nil {
			return err
		}
	}
	clock := time.AfterFunc(call.Timeout, func() { cancel(errNoHead) })
	defer clock.Stop()

	answer, err := x.send(ctx, r, body, call)
	if err != nil {
		return failure(ctx, r, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusUnauthorized && !x.plain { // for the edge's token, not the customer's key
		return apierr.New(apierr.KindUpstream, ReasonUpstreamUnavailable, "the service is not available").
			Wrap(errors.New("the service refused the edge's token or certificate"))
	}
	if answer.StatusCode/100 == 2 && call.Succeeded != nil {
		call.Succeeded(answer.Header.Get(callcount.HeaderCounted) != "")
	}
	if err := x.pass(w, answer, clock); err != nil {
		if ended, ok := errors.AsType[*apierr.Error](context.Cause(ctx)); ok { // by the edge, not by either side
			err = ended
		}
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil
}

func (x *Relay) send(ctx context.Context, r *http.Request, body *body, call Call) (*http.Response, error) {
	header := x.request(r.Header, call)
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

// failure converts the error of a call without a response.
func failure(ctx context.Context, r *http.Request, err error) error {
	refused, ended := errors.AsType[*apierr.Error](context.Cause(ctx))
	switch {
	case ended: // by the edge, not by the customer
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

// unseen reports whether the call never reached the service.
func unseen(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// pass streams a response.
func (x *Relay) pass(w http.ResponseWriter, answer *http.Response, clock *time.Timer) error {
	clock.Reset(idle)
	x.response(w.Header(), answer.Header)
	left := answer.ContentLength
	if left >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(left, 10))
	}
	w.WriteHeader(answer.StatusCode)
	out := piecewise{w: w, control: http.NewResponseController(w), time: x.bounds.WriteTime, flush: left < 0}
	if left <= 0 { // Otherwise the head leaves with the first piece.
		if err := out.flushHead(); err != nil {
			return err
		}
	}
	arriving, _ := answer.Body.(connpool.Arriving)
	for {
		if arriving != nil && left < 0 {
			arriving.Await() // without a buffer: a stream may be silent for long
		}
		ended, err := x.passPiece(out, answer.Body, clock)
		if err != nil {
			return err
		}
		if ended {
			trailers(w.Header(), answer.Trailer)
			return nil
		}
	}
}

// passPiece passes on what has arrived, and holds a buffer only for that long.
func (x *Relay) passPiece(out piecewise, body io.Reader, clock *time.Timer) (ended bool, err error) {
	buffer, _ := x.buffers.Get().(*[bufferSize]byte)
	defer x.buffers.Put(buffer)
	n, err := body.Read(buffer[:])
	clock.Reset(idle)
	if n > 0 {
		if err := out.write(buffer[:n]); err != nil {
			return true, err
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return true, nil
	case err != nil:
		return true, fmt.Errorf("read answer: %w", err)
	}
	return false, nil
}
