package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// TestMain runs the tests, or a local server of pipe_test.go.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "local-server" {
		localServer(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// serve starts a server and returns its registration and a running client that may call it.
func serve(t *testing.T, handler http.Handler, change func(*upstream.Options)) (*toolserver.Server, *upstream.Client) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	o := upstream.Options{AllowTargets: []string{server.Listener.Addr().String()}, Version: "1.2.3", Log: testkit.Logger(t)}
	if change != nil {
		change(&o)
	}
	return &toolserver.Server{Organization: "org_a", ID: "tools", URL: server.URL + "/mcp", Version: 1, Timeout: 20 * time.Second}, client(t, o)
}

// client returns a running client.
func client(t *testing.T, o upstream.Options) *upstream.Client {
	t.Helper()
	c, err := upstream.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.Close()
	})
	return c
}

// sdkServer is a server of the SDK with tools of several kinds. It counts the calls.
type sdkServer struct {
	*mcp.Server
	calls    atomic.Int32
	canceled chan struct{}

	mu      sync.Mutex
	headers []http.Header
}

func newSDKServer(t *testing.T) *sdkServer {
	t.Helper()
	s := &sdkServer{canceled: make(chan struct{}, 8)}
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	s.Server = mcp.NewServer(&mcp.Implementation{Name: "everything", Version: "9"}, &mcp.ServerOptions{Instructions: "be kind", PageSize: 2})
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}`)
	add := func(name string, handle mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "about " + name, InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.calls.Add(1)
			s.mu.Lock()
			s.headers = append(s.headers, r.Extra.Header)
			s.mu.Unlock()
			return handle(ctx, r)
		})
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, nil
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "step",
			}); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		s.canceled <- struct{}{}
		return nil, ctx.Err()
	})
	return s
}

// eras are the ways in which the SDK serves: statelessly in both eras, with sessions in the older one, and that with
// answers as documents.
func eras(s *sdkServer) map[string]struct {
	handler http.Handler
	version string
} {
	get := func(*http.Request) *mcp.Server { return s.Server }
	return map[string]struct {
		handler http.Handler
		version string
	}{
		"modern":           {mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}), wire.Modern},
		"modern documents": {mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true}), wire.Modern},
		"legacy":           {mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}), wire.Legacy20251125},
		"legacy documents": {mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true}), wire.Legacy20251125},
	}
}

func TestListOfTheSDK(t *testing.T) {
	sdk := newSDKServer(t)
	for name, era := range eras(sdk) {
		t.Run(name, func(t *testing.T) {
			server, c := serve(t, era.handler, nil)
			got, err := c.List(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			want := upstream.About{Version: era.version, Name: "everything", ServerVersion: "9", Instructions: "be kind", ListChanged: true}
			if diff := cmp.Diff(want, got.About); diff != "" {
				t.Errorf("about (-want +got):\n%s", diff)
			}
			var names []string
			for _, tool := range got.Tools {
				names = append(names, tool.Name)
				if !strings.Contains(string(tool.Text), `"about `+tool.Name+`"`) {
					t.Errorf("%s: %s", tool.Name, tool.Text)
				}
			}
			slices.Sort(names)
			if diff := cmp.Diff([]string{"echo", "fail", "progress", "wait"}, names); diff != "" || len(got.Omitted) > 0 {
				t.Errorf("omitted %v (-want +got):\n%s", got.Omitted, diff)
			}
			about, err := c.Probe(t.Context(), server)
			if diff := cmp.Diff(want, about); err != nil || diff != "" {
				t.Errorf("probe: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCallsOfTheSDK(t *testing.T) {
	sdk := newSDKServer(t)
	for name, era := range eras(sdk) {
		t.Run(name, func(t *testing.T) {
			server, c := serve(t, era.handler, nil)
			listing, err := c.List(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			definition := listing.Tools[slices.IndexFunc(listing.Tools, func(t upstream.Tool) bool { return t.Name == "echo" })].Text
			const arguments = `{"text":"h\u00e9 \n x"}`
			result, err := c.Call(t.Context(), server, &upstream.Call{
				Organization: "org_a", Tool: "echo", Arguments: json.RawMessage(arguments), Definition: definition,
				Meta: map[string]json.RawMessage{"acme.example/a": json.RawMessage(`1`), "baggage": json.RawMessage(`"secret"`), wire.MetaVersion: json.RawMessage(`"1"`)},
			})
			if err != nil || result.Kind != upstream.KindComplete || result.IsError || result.Version != era.version {
				t.Fatalf("%+v, %v", result, err)
			}
			var body struct{ Content []struct{ Type, Text string } }
			if err := json.Unmarshal(result.Text, &body); err != nil || len(body.Content) != 1 || body.Content[0].Text != arguments {
				t.Errorf("%s, %v", result.Text, err)
			}
			result, err = c.Call(t.Context(), server, &upstream.Call{Tool: "fail"})
			if err != nil || !result.IsError {
				t.Errorf("a tool that fails: %+v, %v", result, err)
			}
			_, err = c.Call(t.Context(), server, &upstream.Call{Tool: "none"})
			if answered, ok := errors.AsType[*wire.Error](err); !ok || answered.Code != wire.CodeInvalidParams {
				t.Errorf("an unknown tool: %v", err)
			}
			sdk.checkHeaders(t)
		})
	}
}

// checkHeaders checks that nothing arrived but what the client sets.
func (s *sdkServer) checkHeaders(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, header := range s.headers {
		for name := range header {
			switch name {
			case "User-Agent", "Accept", "Content-Type", "Content-Length", "Mcp-Method", "Mcp-Name", "Mcp-Param-Text", "Mcp-Protocol-Version", "Mcp-Session-Id":
			default:
				t.Errorf("a header %s was sent", name)
			}
		}
	}
}

func TestProgressOfTheSDK(t *testing.T) {
	for name, era := range eras(newSDKServer(t)) {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "documents") {
				t.Skip("a document has no room for notices")
			}
			server, c := serve(t, era.handler, nil)
			var got []upstream.Progress
			_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "progress", Progress: func(p upstream.Progress) { got = append(got, p) }})
			want := []upstream.Progress{{1, 3, "step"}, {2, 3, "step"}, {3, 3, "step"}}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The end of a call reaches the server: by the end of the connection, or by a notice.
func TestCancellationOfTheSDK(t *testing.T) {
	sdk := newSDKServer(t)
	for name, era := range eras(sdk) {
		t.Run(name, func(t *testing.T) {
			server, c := serve(t, era.handler, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			before := sdk.calls.Load()
			go func() {
				testkit.Wait(t, "the call", func() error {
					if sdk.calls.Load() == before {
						return errors.New("not yet")
					}
					return nil
				})
				cancel(errors.New("suspended"))
			}()
			_, err := c.Call(ctx, server, &upstream.Call{Tool: "wait"})
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.Cause != upstream.CauseCanceled || !e.Sent || e.Err.Error() != "suspended" {
				t.Fatalf("%+v", err)
			}
			select {
			case <-sdk.canceled:
			case <-time.After(10 * time.Second):
				t.Error("the tool still runs")
			}
		})
	}
}

// A server that was restarted has lost its sessions, which is no error for a caller.
func TestLostSessionOfTheSDK(t *testing.T) {
	sdk := newSDKServer(t)
	var handler atomic.Pointer[http.Handler]
	restart := func() {
		h := http.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk.Server }, nil))
		handler.Store(&h)
	}
	restart()
	server, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }), nil)
	for range 3 {
		before := sdk.calls.Load()
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "echo"}); err != nil {
			t.Fatal(err)
		}
		if n := sdk.calls.Load() - before; n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
		restart()
	}
}
