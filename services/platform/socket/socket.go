// Package socket serves WebSocket connections (RFC 6455) whose messages are requests and events. It bounds what a peer
// may send and how long it may take, pings it, and ends the connection in order: requests in flight finish first when the
// service drains or the connection is old, and a close code says why it ended. The gateway serves its callers with it,
// and the edge relays between customers and the gateway. The messages' content is theirs.
package socket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// Bounds of a connection.
type Bounds struct {
	// Message is the largest message of the peer in bytes; 0 for no limit.
	Message int64
	// MessageTime is how long the peer may take to send a message that it has begun.
	MessageTime time.Duration
	// WriteTime is how long the peer may take to read a piece of a message.
	WriteTime time.Duration
	// Ping is the interval of pings, of which the peer may take twice as long to answer one; 0 for no pings.
	Ping time.Duration
	// Idle ends a connection on which no request was in flight for so long, Life one that is so old; 0 for never.
	Idle, Life time.Duration
	// Drain ends the connection when the service stops; nil for never.
	Drain *Drain
	// Last returns a message to send before the close frame; nil, or a nil message, for none.
	Last func(*ClosedError) []byte
}

// Conn is a connection. Send, Pass, Begin, End, Leave and Go are safe for concurrent use.
type Conn struct {
	bounds Bounds
	socket *websocket.Conn
	// trusted reports whether the reason of the peer's close frame may be logged and passed on.
	trusted bool
	// alive is done when the connection has ended. Only it may bound reads and writes: the end of another context would
	// cut the connection without a close frame.
	alive context.Context //nolint:containedctx // The connection's own.
	cut   context.CancelFunc
	group errgroup.Group

	mu       sync.Mutex
	inflight int
	rested   time.Time // when the last request ended
	panicked error
	leaving  *ClosedError // why no request may begin any more; nil while one may
	quiet    chan struct{}
}

// Requested reports whether a request asks for a WebSocket connection.
func Requested(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// Accept upgrades a request. After an error the response has been written. Requests of browsers from another origin are
// refused.
func Accept(w http.ResponseWriter, r *http.Request, bounds Bounds) (*Conn, error) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil, err
	}
	return newConn(r.Context(), socket, bounds), nil
}

// Dial connects to a service, whose close frames are trusted. ctx bounds the upgrade only. The error is a *RefusedError
// if the service has refused it.
func Dial(ctx context.Context, client *http.Client, url string, header http.Header, bounds Bounds) (*Conn, error) {
	socket, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header})
	if err == nil {
		c := newConn(ctx, socket, bounds)
		c.trusted = true
		return c, nil
	}
	if response == nil || response.StatusCode < http.StatusBadRequest {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxRefusal))
	if err != nil {
		return nil, err
	}
	return nil, &RefusedError{response.StatusCode, response.Header, body}
}

func newConn(ctx context.Context, socket *websocket.Conn, bounds Bounds) *Conn {
	c := &Conn{bounds: bounds, socket: socket, rested: time.Now(), quiet: make(chan struct{}, 1)}
	c.alive, c.cut = context.WithCancel(context.WithoutCancel(ctx))
	limit := int64(-1)
	if bounds.Message > 0 {
		limit = bounds.Message
	}
	socket.SetReadLimit(limit)
	return c
}

// Receive handles a text message, of which it need not read all. An error ends the connection: an *ClosedError with its code.
type Receive func(message io.Reader) error

// Serve calls receive for each message in order, until the connection ends, and returns why: the peer closes it, ctx
// ends, a bound is exceeded, or the service drains. An *ClosedError or a refusal as ctx's cause is the ending. All that Go
// started has returned then.
func (c *Conn) Serve(ctx context.Context, receive Receive) *ClosedError {
	received := make(chan error, 1)
	c.group.Go(func() error {
		received <- panics.Call(func() error { return c.receive(receive) })
		return nil
	})
	c.group.Go(func() error {
		c.ping()
		return nil
	})
	why := c.await(ctx, received)
	end := endingOf(why)
	if c.bounds.Last != nil {
		if text := c.bounds.Last(end); text != nil {
			_ = c.Send(text)
		}
	}
	_ = c.socket.Close(end.Code, end.Reason)
	c.fail(why)
	_ = c.group.Wait() // Nothing in it returns an error.
	return end
}

// Panic returns the panic that ended the connection, for the log; nil for any other reason. Call it after Serve.
func (c *Conn) Panic() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panicked
}

// Go runs f until the connection ends. Only receive, and what Go runs, may call it. A panic ends the connection.
func (c *Conn) Go(f func(ctx context.Context)) {
	c.group.Go(func() error {
		if err := panics.Call(func() error { f(c.alive); return nil }); err != nil {
			c.fail(err)
		}
		return nil
	})
}

// Begin begins a request. The error is an *ClosedError when the connection takes none any more.
func (c *Conn) Begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving == nil && c.bounds.Drain != nil && c.bounds.Drain.Begun() {
		c.leaving = ErrDrained
	}
	if c.leaving != nil {
		return c.leaving
	}
	c.inflight++
	return nil
}

// Leave lets no request begin any more, and ends the connection for this reason once those in flight have ended.
func (c *Conn) Leave(why *ClosedError) {
	c.leave(why)
	c.wake()
}

// End ends a request; it does nothing if none is in flight.
func (c *Conn) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight == 0 {
		return
	}
	if c.inflight--; c.inflight == 0 {
		c.rested = time.Now()
		c.wake()
	}
}

// wake makes await check whether the connection ends.
func (c *Conn) wake() {
	select {
	case c.quiet <- struct{}{}:
	default:
	}
}

// await blocks until the connection has a reason to end, and returns it.
func (c *Conn) await(ctx context.Context, received <-chan error) error {
	idle, life := after(c.bounds.Idle), after(c.bounds.Life)
	var drain <-chan struct{}
	if c.bounds.Drain != nil {
		drain = c.bounds.Drain.begun
	}
	for {
		select {
		case err := <-received:
			return err
		case <-ctx.Done():
			return reasonOf(ctx)
		case <-drain:
			drain = nil
			c.leave(ErrDrained)
		case <-life:
			c.leave(ErrAged)
		case <-idle:
			idle = after(c.idleFor())
		case <-c.quiet:
		}
		if end := c.left(); end != nil {
			return end
		}
	}
}

// after returns a channel that receives once after a time; nil, which never does, for zero.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// reasonOf returns why a context has ended. Without a reason of a caller's own, the service has stopped.
func reasonOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	_, refused := errors.AsType[*apierr.Error](cause)
	if _, ended := errors.AsType[*ClosedError](cause); ended || refused {
		return cause
	}
	return ErrDrained
}

// leave lets no request begin any more.
func (c *Conn) leave(why *ClosedError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving == nil {
		c.leaving = why
	}
}

// left returns why the connection ends, once nothing is in flight.
func (c *Conn) left() *ClosedError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight > 0 {
		return nil
	}
	return c.leaving
}

// idleFor returns how long the connection may stay unused from now on. A connection that was unused for too long leaves.
func (c *Conn) idleFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight > 0 {
		return c.bounds.Idle
	}
	rest := time.Until(c.rested.Add(c.bounds.Idle))
	if rest <= 0 && c.leaving == nil {
		c.leaving = ErrUnused
	}
	return max(rest, 0)
}

// ping pings until the connection ends. A peer that doesn't answer is cut.
func (c *Conn) ping() {
	if c.bounds.Ping == 0 {
		return
	}
	ticker := time.NewTicker(c.bounds.Ping)
	defer ticker.Stop()
	for {
		select {
		case <-c.alive.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(c.alive, 2*c.bounds.Ping)
		err := c.socket.Ping(ctx)
		cancel()
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// fail cuts the connection. To what runs on it the peer has left, whatever the error: an io.EOF, for example, would look
// like the end of what it reads itself.
func (c *Conn) fail(err error) {
	if errors.Is(err, panics.Err) {
		c.mu.Lock()
		c.panicked = err
		c.mu.Unlock()
	}
	c.cut()
	_ = c.socket.CloseNow()
}

var errSlow = errors.New("the peer takes too long to send a message")
