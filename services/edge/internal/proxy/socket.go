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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/socket"
)

// pingEvery is how often a customer's connection is pinged. The gateway pings the edge.
const pingEvery = 30 * time.Second

// Session is a WebSocket connection that has ended.
type Session struct {
	// Code and Reason are those of its close frame.
	Code   int
	Reason string
	// Requests were passed on to the service, Counted got a response that counts.
	Requests, Counted int
}

// Sockets relays WebSocket connections. Messages pass as they are, piece by piece. The edge reads their beginnings: each
// request is admitted as a call of its own. The service counts the responses that it completes; the edge sees from the
// events which ones these are. Safe for concurrent use.
type Sockets struct {
	client        *http.Client
	authorization secret.Value
	bounds        Bounds
	drain         *socket.Drain
}

// NewSockets returns a relay that authenticates with the edge's service token.
func NewSockets(transport http.RoundTripper, token secret.Value, bounds Bounds, drain *socket.Drain) *Sockets {
	return &Sockets{&http.Client{Transport: transport}, secret.New("Bearer " + token.Reveal()), bounds, drain}
}

// SocketTransport returns the transport of connections to services, which are not shared. It follows no environment
// proxy. secure configures TLS as for Transport.
func SocketTransport(secure func() *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext: dialer.DialContext,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			secured := &tls.Dialer{NetDialer: dialer}
			if secure != nil {
				secured.Config = secure()
			}
			return secured.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: connectTime,
	}
}

// Connect relays a connection until it ends. Unless its error is nil or ErrCut, nothing has been
// written to the customer.
func (s *Sockets) Connect(w http.ResponseWriter, r *http.Request, call Call) (Session, error) {
	if s.drain.Begun() {
		return Session{}, apierr.Unavailable("the service is stopping; connect again", nil)
	}
	leave, err := s.bounds.enter(call.Organization)
	if err != nil {
		return Session{}, err
	}
	defer leave()
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	if call.Follow != nil {
		defer call.Follow(end)()
	}
	service, err := s.dial(ctx, r, call)
	if refused, ok := errors.AsType[*socket.RefusedError](err); ok {
		return Session{}, relayRefusal(w, refused)
	}
	if err != nil {
		return Session{}, failure(ctx, r, err)
	}
	customer, err := socket.Accept(w, r, socket.Bounds{
		Message: s.bounds.Body, MessageTime: s.bounds.BodyTime, WriteTime: s.bounds.WriteTime, Ping: pingEvery, Drain: s.drain,
	})
	if err != nil { // The response has been written.
		end(err)
		_ = service.Serve(ctx, func(io.Reader) error { return nil }) // It closes at once.
		return Session{Reason: err.Error()}, nil
	}
	t := &tunnel{call: call, customer: customer, service: service}
	ending := t.serve(ctx, end)
	session := Session{Code: int(ending.Code), Reason: ending.Reason, Requests: t.requests, Counted: t.counted}
	if bug := cmp.Or(customer.Panic(), service.Panic()); bug != nil {
		return session, fmt.Errorf("%w: %w", ErrCut, bug)
	}
	return session, nil
}

// dial connects to the service.
func (s *Sockets) dial(ctx context.Context, r *http.Request, call Call) (*socket.Conn, error) {
	header := request(r.Header, s.authorization.Reveal(), call)
	if call.Inject != nil {
		call.Inject(header)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, call.Timeout, errNoHead)
	defer cancel()
	return socket.Dial(ctx, s.client, call.Target.String(), header, socket.Bounds{
		MessageTime: idle, WriteTime: s.bounds.WriteTime, // Its messages pass through, however large they are.
	})
}

// relayRefusal passes on the response of a service that refuses a connection.
func relayRefusal(w http.ResponseWriter, refused *socket.RefusedError) error {
	if refused.Status == http.StatusUnauthorized || len(refused.Body) == socket.MaxRefusal { // It may be cut.
		return apierr.New(apierr.KindUpstream, ReasonUpstreamUnavailable, "the service is not available").Wrap(refused)
	}
	response(w.Header(), refused.Header)
	w.WriteHeader(refused.Status)
	_, _ = w.Write(refused.Body) //nolint:gosec // The service's own error, in JSON.
	return nil
}

// tunnel is a connection of a customer with that to the service.
type tunnel struct {
	call              Call
	customer, service *socket.Conn
	// requests belongs to the customer's reader, counted to the service's.
	requests, counted int
}

// serve relays both directions until either connection ends, which ends the other with the same code.
func (t *tunnel) serve(ctx context.Context, end context.CancelCauseFunc) *socket.ClosedError {
	var group errgroup.Group
	var first *socket.ClosedError
	var once sync.Once
	run := func(conn *socket.Conn, receive socket.Receive) func() error {
		return func() error {
			ending := conn.Serve(ctx, receive)
			once.Do(func() { first = ending })
			end(ending)
			return nil
		}
	}
	group.Go(run(t.service, t.down))
	group.Go(run(t.customer, func(message io.Reader) error { return t.up(ctx, message) }))
	_ = group.Wait() // Neither returns an error.
	return first
}

// up passes a customer's message on, if it may pass.
func (t *tunnel) up(ctx context.Context, message io.Reader) error {
	text, err := beginning(message)
	if err != nil {
		return err
	}
	h := readHead(text)
	if h.control() {
		return t.service.Pass(text, message)
	}
	if err := t.customer.Begin(); err != nil {
		return t.refuse(h, apierr.Unavailable("the connection is closing; connect again", err))
	}
	if err := t.call.Admit(ctx); err != nil {
		defer t.customer.End()
		if ending, ok := errors.AsType[*socket.ClosedError](err); ok {
			t.customer.Leave(ending)
		}
		return t.refuse(h, apierr.From(err))
	}
	t.requests++
	return t.service.Pass(text, message)
}

// refuse answers a request that isn't passed on. A caller that is not known any more is cut.
func (t *tunnel) refuse(h head, e *apierr.Error) error {
	if err := t.customer.Send(t.call.Refusal(e, h.stream)); err != nil {
		return err
	}
	if e.Kind == apierr.KindUnauthenticated {
		return e
	}
	return nil
}

// down passes an event on.
func (t *tunnel) down(message io.Reader) error {
	text, err := beginning(message)
	if err != nil {
		return err
	}
	h := readHead(text)
	if h.counts() {
		t.counted++
	}
	err = t.customer.Pass(text, message)
	if h.ends() {
		t.customer.End()
	}
	return err
}
