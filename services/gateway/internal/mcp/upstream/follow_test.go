package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Notices count behind the acknowledgement, for what is followed.
func TestFollow(t *testing.T) {
	ended := make(chan struct{})
	server, c := serve(t, stub(func(w http.ResponseWriter, r *http.Request, m asked) {
		updated := func(uri string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
		}
		stream(w, updated("a:b"),
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a:b","x:y",1]}}}`,
			updated("a:b"), updated("a:b/c"), updated("a:bc"), updated("x:y"), updated("a b"), updated("c:d"),
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":1}}`)
		<-r.Context().Done()
		close(ended)
	}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := c.Follow(ctx, server, &upstream.Follow{
		Organization: "acme", URIs: []string{"a:b", "c:d"},
		Begun: func(uris []string) { got = append(got, fmt.Sprint(uris)) },
		Updated: func(uri string) {
			if got = append(got, uri); uri == "c:d" {
				cancel()
			}
		},
	})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCanceled || !slices.Equal(got, []string{"[a:b]", "a:b", "a:b/c", "c:d"}) {
		t.Errorf("%v, %v", got, err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server's stream goes on")
	}
	server, c = serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		document(w, m, `"error":{"code":-32601,"message":"no"}`)
	}), nil)
	if err, ok := errors.AsType[*wire.Error](c.Follow(t.Context(), server, &upstream.Follow{URIs: []string{"a:b"}})); !ok || err.Code != wire.CodeMethodNotFound {
		t.Errorf("a server without notices: %v", err)
	}
}

// The official server notifies.
func TestFollowOfficialServer(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "watched", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	s.AddResource(&mcp.Resource{URI: "a:b", Name: "n"}, nil)
	server, c := serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begun, updated := false, false
	_ = c.Follow(ctx, server, &upstream.Follow{
		Organization: "acme", URIs: []string{"a:b"},
		Begun: func(uris []string) {
			begun = slices.Equal(uris, []string{"a:b"})
			if err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "a:b"}); err != nil {
				t.Error(err)
			}
		},
		Updated: func(string) { updated = true; cancel() },
	})
	if !begun || !updated {
		t.Errorf("begun %t, updated %t", begun, updated)
	}
}
