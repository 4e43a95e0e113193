package inference

import (
	"context"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Relay serves a relayed call. The answer is a stream also where the vendor answered whole: then it has one event.
func (e *Engine) Relay(ctx context.Context, r *Request) (*Stream, error) { return e.StreamChat(ctx, r) }

// relay makes a relayed call and returns once the vendor's response head has arrived.
func (s *incoming) relay(ctx context.Context) (provider.Stream, error) {
	p, ok := s.attempt.provider.(provider.Relayer)
	if !ok {
		return nil, incapable(string(s.x.request.Route.Operation))
	}
	call := *s.x.request.Relay
	call.Model = s.attempt.Upstream
	upstream, err := p.Relay(ctx, s.attempt.credential, &call)
	if err != nil {
		return nil, err
	}
	s.attempt.answered, s.contentType, s.whole = true, upstream.ContentType(), upstream.Whole()
	if limited, ok := upstream.(provider.LimitedStream); ok {
		s.attempt.learn(limited.Limits())
	}
	return upstream, nil
}

// ContentType returns the media type of a relayed answer, as its vendor named it.
func (s *Stream) ContentType() string { return s.contentType }

// Whole reports whether a relayed answer came whole.
func (s *Stream) Whole() bool { return s.whole }

// first returns the bound of the wait for the first content. An answer that isn't streamed has the time of a whole one.
func (c *Clocks) first(r *Request) time.Duration {
	if r.Relay != nil && !r.Relay.Stream {
		return c.Answer
	}
	return c.FirstToken
}
