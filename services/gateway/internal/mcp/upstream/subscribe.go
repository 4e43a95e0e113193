package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
)

// Errors of servers of sessions that can't be followed.
var (
	errNoSession   = &Error{Cause: CauseRefused, Text: "the server has no sessions with streams of notices"}
	errNoSubscribe = &Error{Cause: CauseRefused, Text: "the server has no notices of resources"}
	errSubscribed  = &Error{Cause: CauseBusy, Text: "too many sessions follow resources; try again later"}
)

// subscribe follows resources of a server of sessions, until ctx, the server or a bound ends the stream. It does so in a
// session of its own: the notices of the shared one would be those of all its callers.
func (c *Client) subscribe(ctx context.Context, p *peer, f *Follow) error {
	l, ok := p.link.(*httpLink)
	if !ok {
		return errNoSession // A local command has one stream for all.
	}
	if !c.enter(p.key) {
		return errSubscribed
	}
	defer c.leave(p.key)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(controlTime, func() { cancel(errSlowBegin) })
	defer late.Stop()
	s, err := c.initialize(ctx, p)
	if err != nil {
		return begun(ctx, err)
	}
	if s.id == "" {
		return errNoSession
	}
	defer c.later(func(ctx context.Context) { l.end(ctx, s) })
	if !s.about.Subscribes {
		return errNoSubscribe
	}
	stream, err := l.openStream(ctx, l.header(s, typeEvents))
	if err != nil {
		return begun(ctx, err)
	}
	defer func() { _ = stream.Body.Close() }()
	if err := c.subscribeAll(ctx, p, s, f); err != nil {
		return begun(ctx, err)
	}
	if !late.Stop() {
		return begun(ctx, errSlowBegin)
	}
	return c.readNotices(ctx, p, &conversation{notice: f.receive, reply: func(ctx context.Context, m *wire.Message) error {
		return l.deliver(ctx, s, &request{}, m.Append(nil))
	}}, stream)
}

// errSlowBegin is the cause of the end of what took too long to begin.
var errSlowBegin = errors.New("the server took too long to begin the notices")

// begun returns the error of what did not begin. Nothing has been done then.
func begun(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSlowBegin) {
		return &Error{Cause: CauseTimeout, Text: errSlowBegin.Error(), Err: err}
	}
	return unsent(ctx, err)
}

// subscribeAll subscribes to the resources, and says which the server took. The error is that of the last if it took
// none.
func (c *Client) subscribeAll(ctx context.Context, p *peer, s *session, f *Follow) error {
	var taken []string
	var last error
	for _, uri := range f.URIs {
		var params object
		params.addText("uri", uri)
		got, err := c.exchange(ctx, p, s, c.newRequest(s, wire.MethodSubscribe, params, about{}), nil)
		switch {
		case err != nil:
			return err
		case got.err != nil:
			last = got.err
		default:
			taken = append(taken, uri)
		}
	}
	if len(taken) == 0 {
		return last
	}
	if f.Begun != nil {
		f.Begun(taken)
	}
	f.Begun, f.URIs = nil, taken
	return nil
}

// readNotices reads the stream of a session. The server's end of the stream is no error.
func (c *Client) readNotices(ctx context.Context, p *peer, talk *conversation, stream *http.Response) error {
	c.attend(p, talk)
	reader := sse.NewReader(stream.Body).Bound(maxEvent, maxTotal).Charge(memory.FromContext(ctx))
	_, err := readEvents(ctx, reader, talk)
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if err == nil || isEnd(err) && ctx.Err() == nil {
		return nil
	}
	return failed(ctx, err, true)
}

// enter takes a place for a session that follows resources. It reports false if the organization has its share of them,
// if all are taken, or if the organization has enough of them at the server.
func (c *Client) enter(key peerKey) bool {
	if !c.following.Acquire(key.organization(), 1) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscribed[key] >= maxPeerSubscribed {
		c.following.Release(key.organization(), 1)
		return false
	}
	c.subscribed[key]++
	return true
}

func (c *Client) leave(key peerKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscribed[key]--; c.subscribed[key] == 0 {
		delete(c.subscribed, key)
	}
	c.following.Release(key.organization(), 1)
}
