package upstream_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// watched is a server of sessions with notices of resources.
type watched struct {
	// capabilities are the server's; empty for those of notices.
	capabilities string
	// notices answers GET.
	notices func(w http.ResponseWriter, r *http.Request)
	// refused is a resource that can't be subscribed to.
	refused string
	// wake has room for one, and gets it when something was noted; nil for no one who waits.
	wake chan struct{}

	mu       sync.Mutex
	sessions int
	got      []string // by session
}

func (s *watched) note(r *http.Request, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, strings.TrimSpace(r.Header.Get("Mcp-Session-Id")+" "+what))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *watched) noted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m asked
	var params struct{ Params struct{ URI string } }
	_, _ = json.Unmarshal(body, &m), json.Unmarshal(body, &params)
	switch {
	case r.Method == http.MethodGet:
		s.note(r, "GET")
		s.notices(w, r)
	case r.Method == http.MethodDelete:
		s.note(r, "DELETE")
	case m.Method == wire.MethodDiscover:
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == wire.MethodInitialize:
		s.mu.Lock()
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.sessions))
		s.mu.Unlock()
		document(w, m, `"result":{"protocolVersion":"2025-06-18","capabilities":`+cmp.Or(s.capabilities, `{"resources":{"subscribe":true}}`)+`,"serverInfo":{"name":"old","version":"1"}}`)
	case m.Method == wire.MethodSubscribe && params.Params.URI == s.refused:
		document(w, m, `"error":{"code":-32002,"message":"no"}`)
	case m.Method == wire.MethodSubscribe:
		s.note(r, params.Params.URI)
		document(w, m, `"result":{}`)
	default:
		if m.Method == "" {
			s.note(r, "answer "+string(m.ID))
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// Resources of a server of sessions are followed in a session of its own, with the server's stream of notices.
func TestSubscribe(t *testing.T) {
	var changed atomic.Int32
	s := &watched{refused: "no:w", wake: make(chan struct{}, 1)}
	s.notices = func(w http.ResponseWriter, r *http.Request) {
		stream(w)
		for r.Context().Err() == nil {
			if noted := s.noted(); slices.Contains(noted, "s2 a:b") && slices.Contains(noted, "s2 c:d") {
				break
			}
			select {
			case <-s.wake:
			case <-r.Context().Done():
			}
		}
		updated := func(uri string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
		}
		var events []string
		for i := range 40 {
			events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		}
		stream(w, append(events, `{"jsonrpc":"2.0","id":99,"method":"elicitation/create","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			updated("a:b"), updated("x:y"), updated("no:w"), updated("a:b/c"), updated("c:d"))...)
		<-r.Context().Done()
	}
	server, c := serve(t, s, func(o *upstream.Options) { o.Changed = func(toolserver.Key) { changed.Add(1) } })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := c.Follow(ctx, server, &upstream.Follow{
		Organization: "acme", URIs: []string{"a:b", "no:w", "c:d"},
		Begun: func(uris []string) { got = append(got, fmt.Sprint(uris)) },
		Updated: func(uri string) {
			if got = append(got, uri); uri == "c:d" {
				cancel()
			}
		},
	})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCanceled || !slices.Equal(got, []string{"[a:b c:d]", "a:b", "a:b/c", "c:d"}) || changed.Load() != 1 {
		t.Errorf("%v, %v, %d changes", got, err, changed.Load())
	}
	testkit.Wait(t, "the end of the session", func() error {
		if noted := s.noted(); !slices.Contains(noted, "s2 DELETE") {
			return fmt.Errorf("%v", noted)
		}
		return nil
	})
	if noted := s.noted(); noted[0] != "s2 GET" || !slices.Contains(noted, "s2 answer 39") || !slices.Contains(noted, "s2 answer 99") {
		t.Errorf("%v", noted)
	}
}

// The end of the server's stream ends the following; a server without notices, and one that storms, is not followed.
func TestHostileSubscriptions(t *testing.T) {
	notice := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`
	for name, test := range map[string]struct {
		server *watched
		cause  upstream.Cause // empty for no error
		code   int64          // of an error of the server
		begun  bool
	}{
		"ends":          {server: &watched{notices: func(w http.ResponseWriter, _ *http.Request) { stream(w, notice) }}, begun: true},
		"no capability": {server: &watched{capabilities: `{"resources":{"subscribe":false}}`}, cause: upstream.CauseRefused},
		"no stream":     {server: &watched{notices: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }}, cause: upstream.CauseRefused},
		"no resource":   {server: &watched{refused: "a:b", notices: func(w http.ResponseWriter, r *http.Request) { stream(w); <-r.Context().Done() }}, code: -32002},
		"an answer":     {server: &watched{notices: func(w http.ResponseWriter, _ *http.Request) { stream(w, `{"jsonrpc":"2.0","id":1,"result":{}}`) }}, cause: upstream.CauseProtocol, begun: true},
		"no message":    {server: &watched{notices: func(w http.ResponseWriter, _ *http.Request) { stream(w, `{}`) }}, cause: upstream.CauseProtocol, begun: true},
		"notices in a storm": {server: &watched{notices: func(w http.ResponseWriter, _ *http.Request) {
			for stream(w, notice) {
			}
		}}, cause: upstream.CauseTooLarge, begun: true},
	} {
		t.Run(name, func(t *testing.T) {
			server, c := serve(t, test.server, nil)
			begun := false
			err := c.Follow(t.Context(), server, &upstream.Follow{URIs: []string{"a:b"}, Begun: func([]string) { begun = true }, Updated: func(string) {}})
			e, failed := errors.AsType[*upstream.Error](err)
			if failed != (test.cause != "" || test.code != 0) || begun != test.begun || failed && test.cause != "" && e.Cause != test.cause {
				t.Errorf("%v, begun %t", err, begun)
			}
			if answered, ok := errors.AsType[*wire.Error](err); ok != (test.code != 0) || ok && answered.Code != test.code {
				t.Errorf("%v, want code %d", err, test.code)
			}
		})
	}
}

// The sessions that follow are bounded for an organization.
func TestSubscriptionsAreBounded(t *testing.T) {
	s := &watched{notices: func(w http.ResponseWriter, r *http.Request) { stream(w); <-r.Context().Done() }}
	server, c := serve(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer func() { cancel(); group.Wait() }()
	begun := make(chan struct{})
	follow := func(organization string) error {
		return c.Follow(ctx, server, &upstream.Follow{Organization: organization, URIs: []string{"a:b"}, Begun: func([]string) { begun <- struct{}{} }, Updated: func(string) {}})
	}
	for range 32 {
		group.Go(func() { _ = follow("acme") })
		<-begun
	}
	if e, ok := errors.AsType[*upstream.Error](follow("acme")); !ok || e.Cause != upstream.CauseBusy {
		t.Errorf("%v", e)
	}
	group.Go(func() { _ = follow("other") })
	<-begun
	cancel()
	group.Wait()
	again, end := context.WithCancel(t.Context())
	defer end()
	ctx = again
	group.Go(func() { _ = follow("acme") })
	<-begun
	end()
	group.Wait()
}

// The official server notifies within a session.
func TestSubscribeToOfficialServer(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "watched", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	s.AddResource(&mcp.Resource{URI: "a:b", Name: "n"}, nil)
	server, c := serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	updated := false
	err := c.Follow(ctx, server, &upstream.Follow{
		Organization: "acme", URIs: []string{"a:b"},
		Begun: func([]string) {
			if err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "a:b"}); err != nil {
				t.Error(err)
			}
		},
		Updated: func(string) { updated = true; cancel() },
	})
	if !updated {
		t.Errorf("no notice: %v", err)
	}
}
