package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// exchange sends a request of a session.
func (c *Client) exchange(ctx context.Context, p *peer, s *session, r *request, talk *conversation) (response, error) {
	if talk == nil {
		talk = &conversation{}
	}
	talk.id, talk.modern = r.number(), s.modern
	c.attend(p, talk)
	got, err := c.send(ctx, p, s, r, talk)
	if err != nil && ctx.Err() != nil && p.link.cancelsByNotice(s) && r.method != wire.MethodInitialize {
		c.cancel(p, s, r)
	}
	return got, err
}

// attend has the client take note of what a server says of itself in a conversation.
func (c *Client) attend(p *peer, talk *conversation) {
	if talk.changed == nil {
		talk.changed = func() { c.changed(p.key.server) }
	}
	if c.options.OffersChanged != nil {
		talk.offersChanged = func() { c.options.OffersChanged(p.key.server) }
	}
}

// send sends a request. What the server asks meanwhile ends with it.
func (c *Client) send(ctx context.Context, p *peer, s *session, r *request, talk *conversation) (response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if err := talk.asking.Wait(); err != nil {
			c.options.Log.ErrorContext(ctx, "a tool server's request failed", slog.String("server", p.label), slog.String("error", err.Error()))
		}
	}()
	return p.link.send(ctx, s, r, talk)
}

// cancel tells a server that a request was given up.
func (c *Client) cancel(p *peer, s *session, r *request) {
	var params object
	params.add("requestId", r.number())
	params.addText("reason", "the caller ended the request")
	n := &request{method: wire.MethodCancelled, params: params.end()}
	c.later(func(ctx context.Context) { _ = p.link.notify(ctx, s, n) })
}

func (c *Client) changed(server toolserver.Key) {
	if c.options.Changed != nil {
		c.options.Changed(server)
	}
}

// do opens a session and makes a request of it. A request that a server certainly did not carry out, because its session
// has ended, it no longer speaks the version or no longer takes the access token, is made once more in a new session or
// with another token.
func (c *Client) do(ctx context.Context, p *peer, talk func() *conversation, build func(s *session) (*request, error)) (*session, response, error) {
	for again := false; ; again = true {
		used := p.used()
		s, err := c.open(ctx, p)
		if err != nil {
			renewed, err := p.renewed(ctx, used, again, err)
			if renewed {
				continue
			}
			return nil, response{}, err
		}
		r, err := build(s)
		if err != nil {
			return s, response{}, err
		}
		v := talk()
		if v != nil && !s.modern {
			c.demand(ctx, p, s, v.log.Level)
		}
		got, err := c.exchange(ctx, p, s, r, v)
		switch {
		case errors.Is(err, errEnded):
			p.session.CompareAndSwap(s, nil)
			if again {
				return s, got, &Error{Cause: CauseRefused, Text: "the server ends each session at once", Status: http.StatusNotFound, Err: err}
			}
		case err != nil:
			renewed, err := p.renewed(ctx, used, again, err)
			if renewed {
				continue
			}
			if e, ok := errors.AsType[*Error](err); ok && e.Cause == CauseRefused && isLegacyStatus(e.Status) {
				p.session.CompareAndSwap(s, nil) // Its version may be another one now.
			}
			return s, got, err
		case got.err != nil && got.err.Code == wire.CodeUnsupportedVersion:
			p.session.CompareAndSwap(s, nil)
			if again {
				return s, got, got.err
			}
		case got.err != nil:
			return s, got, got.err
		default:
			return s, got, nil
		}
	}
}
