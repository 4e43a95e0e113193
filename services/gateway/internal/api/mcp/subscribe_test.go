package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/subscription"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// shared is a subscription.Store within one process.
type shared struct {
	mu    sync.Mutex
	of    map[subscription.Session][]string
	wakes []func(subscription.Session)
	err   error
}

func (s *shared) change(of subscription.Session, uri string, add bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := slices.DeleteFunc(slices.Clone(s.of[of]), func(one string) bool { return one == uri })
	if add {
		uris = append(uris, uri)
	}
	s.of[of] = uris
	for _, wake := range s.wakes {
		wake(of)
	}
	return s.err
}

func (s *shared) Add(_ context.Context, of subscription.Session, uri string, _ time.Duration) error {
	return s.change(of, uri, true)
}

func (s *shared) Remove(_ context.Context, of subscription.Session, uri string) error {
	return s.change(of, uri, false)
}

func (s *shared) List(_ context.Context, of subscription.Session, _ time.Duration) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[of]), s.err
}

func (s *shared) Watch(ctx context.Context, f func(subscription.Session)) error {
	s.mu.Lock()
	s.wakes = append(s.wakes, f)
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

// watching has a tool's server whose resources are followed.
type watching struct {
	mu      sync.Mutex
	streams map[int]func(uri string)
	begun   int
}

// follow returns what follows resources, as toolcall.Caller does.
func (s *watching) follow(uris []string) toolcall.Followed {
	return toolcall.Followed{Run: func(ctx context.Context, begun func([]string), updated func(string)) {
		s.mu.Lock()
		s.begun++
		id := s.begun
		s.streams[id] = updated
		s.mu.Unlock()
		begun(uris)
		<-ctx.Done()
		s.mu.Lock()
		delete(s.streams, id)
		s.mu.Unlock()
	}}
}

// change says that a resource has changed, on each stream that follows it.
func (s *watching) change(uri string) {
	s.mu.Lock()
	streams := make([]func(string), 0, len(s.streams))
	for _, updated := range s.streams {
		streams = append(streams, updated)
	}
	s.mu.Unlock()
	for _, updated := range streams {
		updated(uri)
	}
}

// following is a Tools whose resources are followed.
type following struct {
	*tools
	*watching
}

func (f following) Follows(_ context.Context, _ *toolcall.Asker, _ string, uris []string) ([]toolcall.Followed, error) {
	if uris = slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return uri == "no:w" }); len(uris) == 0 {
		return nil, nil
	}
	return []toolcall.Followed{f.follow(uris)}, nil
}

// subscribing returns two replicas whose sessions subscribe to resources.
func subscribing(t *testing.T) (a, b string, w *watching, stored *shared) {
	t.Helper()
	stored = &shared{of: make(map[subscription.Session][]string)}
	w = &watching{streams: make(map[int]func(string))}
	k := newKept()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	var at [2]string
	for i := range at {
		server, s, h := open(t)
		m := subscription.New(stored)
		s.features = map[toolserver.Feature]bool{toolserver.FeatureResources: true}
		h.Tools, h.Sessions, h.Subscriptions, h.Notices = following{s, w}, k, m, newNotices()
		group.Go(func() { _ = m.Run(ctx) })
		at[i] = server.URL
	}
	return at[0], at[1], w, stored
}

// The official client is notified on one replica of what it subscribes to on another one, until it unsubscribes.
func TestOfficialClientSubscribes(t *testing.T) {
	a, b, w, _ := subscribing(t)
	inner := &http.Transport{}
	defer inner.CloseIdleConnections()
	updated := make(chan string, 64)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: a + "/mcp", HTTPClient: &http.Client{Transport: &spread{inner, a, b}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: wire.Legacy20251125})
	if err != nil {
		t.Fatal(err)
	}
	if c := session.InitializeResult().Capabilities; c.Resources == nil || !c.Resources.Subscribe {
		t.Errorf("capabilities %+v", c)
	}
	received := func(uri string, want bool) {
		t.Helper()
		testkit.Wait(t, "notices of "+uri, func() error {
			for len(updated) > 0 {
				<-updated
			}
			w.change(uri)
			w.change("last:one") // In order behind it.
			for got := ""; got != "last:one"; {
				select {
				case got = <-updated:
				case <-time.After(200 * time.Millisecond):
					return errors.New("no notice")
				}
				if got == uri {
					if want {
						return nil
					}
					return errors.New("a notice")
				}
			}
			if want {
				return errors.New("no notice")
			}
			return nil
		})
	}
	for _, uri := range []string{"last:one", "a:b", "c:d"} {
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "no:w"}); err == nil {
		t.Error("subscribes to what can't be read")
	}
	received("a:b", true)
	received("c:d/e", true)
	received("x:y", false)
	if err := session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "a:b"}); err != nil {
		t.Fatal(err)
	}
	received("a:b", false)
	received("c:d", true)
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	testkit.Wait(t, "the end of the streams", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.streams) > 0 {
			return fmt.Errorf("%d go on", len(w.streams))
		}
		return nil
	})
}

// Subscriptions need a session, a resource and a store.
func TestSubscriptionsThatFail(t *testing.T) {
	a, _, _, stored := subscribing(t)
	subscribe := func(method, params string, headers ...string) (status int, body string) {
		status, body, _ = post(t, a+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, headers...)
		return status, body
	}
	headers := begin(t, a+"/mcp")
	for _, method := range []string{wire.MethodSubscribe, wire.MethodUnsubscribe} {
		if _, body := subscribe(method, `{"uri":"a:b"}`); gjson.Get(body, "error.code").Int() != wire.CodeMethodNotFound {
			t.Errorf("%s without a session: %s", method, body)
		}
		for _, params := range []string{`{}`, `{"uri":1}`, `{"uri":"a b"}`, `{"uri":"` + strings.Repeat("x", 3000) + `"}`} {
			if _, body := subscribe(method, params, headers...); gjson.Get(body, "error.code").Int() != wire.CodeInvalidParams {
				t.Errorf("%s %.20s: %s", method, params, body)
			}
		}
		if status, body := subscribe(method, `{"uri":"a:b"}`, headers...); status != 200 || gjson.Get(body, "result").Raw != "{}" {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
	if _, body := subscribe(wire.MethodSubscribe, `{"uri":"no:w"}`, headers...); gjson.Get(body, "error.data.reason").Str != "resource_not_found" {
		t.Errorf("what can't be read: %s", body)
	}
	stored.err = errors.New("away")
	if _, body := subscribe(wire.MethodSubscribe, `{"uri":"a:b"}`, headers...); gjson.Get(body, "error.code").Int() != -31503 {
		t.Errorf("without a store: %s", body)
	}
}
