package mcp

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/notice"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// Listen serves the stream of notices of an older session. The error is one of the caller's identity, or of a request
// that has no meaning here.
func (h *Handler) Listen(w http.ResponseWriter, r *http.Request, server string) error {
	asker, id, err := h.ofSession(w, r)
	if err != nil {
		return err
	}
	if accept := strings.ToLower(strings.Join(r.Header["Accept"], ",")); !strings.Contains(accept, "text/event-stream") && !strings.Contains(accept, "*/*") {
		refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "Accept: must have text/event-stream").write(w)
		return nil
	}
	s, err := h.Sessions.Open(r.Context(), ownerOf(&asker, server), id)
	if err != nil {
		refusalOf(err, nil, asker.RequestID).write(w)
		return nil
	}
	(&noticeStream{handler: h, asker: &asker, server: server, session: s}).serve(w, r)
	return nil
}

// noticeStream is the stream of notices of an older session.
type noticeStream struct {
	handler *Handler
	asker   *toolcall.Asker
	server  string
	session *session.Session

	mu     sync.Mutex // Notices of resources come from other goroutines.
	events Events     // nil until the stream begins
	// uris are those of the resources that the client wants notices of.
	uris []string
}

// serve sends the notices until the session expires. An event's id encodes the state after it, so that a stream
// that is resumed with the id continues from there.
func (s *noticeStream) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithDeadline(r.Context(), s.session.Expires)
	defer cancel()
	var following errgroup.Group
	known := notice.ParseID(r.Header.Get(wire.HeaderLastEvent))
	err := s.handler.Notices.Listen(ctx, &notice.Listener{
		Asker: s.asker, Server: s.server, Of: s.handler.offered(s.asker, s.server), Known: known,
		Learned: func(known notice.State) { s.mark(known) },
		Begin: func() {
			s.begin(s.handler.Events(w), known)
			if s.handler.Subscriptions != nil {
				following.Go(panics.Guard(func() error {
					s.follow(ctx)
					return nil
				}))
			}
		},
		Changed: func(kind toolcall.Listed, known notice.State) {
			message := (&wire.Message{Method: listed[kind].method}).Append(nil)
			s.send(append([]byte("id: "+known.ID()+"\n"), event(message)...))
		},
	})
	cancel()
	_ = following.Wait() // A panic ends the notices of resources alone.
	switch {
	case s.events != nil:
		s.events.Close()
	case err != nil:
		refusalOf(err, nil, s.asker.RequestID).write(w)
	default:
		refusalOf(apierr.Unavailable("the stream ended before it began", nil), nil, s.asker.RequestID).write(w)
	}
}

// begin starts the stream: with mark, or with a comment for older clients.
func (s *noticeStream) begin(events Events, known notice.State) {
	s.mu.Lock()
	s.events = events
	s.mu.Unlock()
	if !s.mark(known) {
		s.send([]byte(": listening\n\n"))
	}
}

// mark sends an event without data whose id encodes the known state. For older clients, which would take the event for
// a message, it sends nothing and returns false.
func (s *noticeStream) mark(known notice.State) bool {
	if s.session.Version != wire.Legacy20251125 {
		return false
	}
	s.send([]byte("id: " + known.ID() + "\ndata:\n\n"))
	return true
}

func (s *noticeStream) send(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.Send(text)
}

// follow follows the resources that the session subscribes to, until ctx ends. The streams of servers that follow others
// are ended once the next ones have begun, so that no notice is missed between them.
func (s *noticeStream) follow(ctx context.Context) {
	end := func() {}
	defer func() { end() }()
	s.handler.Subscriptions.Follow(ctx, s.session, func(uris []string) bool {
		s.want(uris)
		ctx, cancel := context.WithCancel(ctx)
		next := &follows{tools: s.handler.Tools, asker: s.asker, server: s.server, updated: s.updated}
		begun := next.begin(ctx, uris)
		next.open()
		end()
		end = func() {
			cancel()
			next.wait()
		}
		return len(begun) == len(uris)
	})
}

func (s *noticeStream) want(uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uris = uris
}

// updated says that a resource has changed, if the client still wants that.
func (s *noticeStream) updated(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if upstream.Covers(s.uris, uri) {
		params := append(jsontext.AppendText([]byte(`{"uri":`), uri), '}')
		s.events.Send(event((&wire.Message{Method: wire.MethodUpdated, Params: params}).Append(nil)))
	}
}
