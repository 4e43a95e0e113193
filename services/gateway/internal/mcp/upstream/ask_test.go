package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// answers answers by method, and notes what was asked.
type answers struct {
	mu    sync.Mutex
	asked []string
	by    map[string]string
}

func (a *answers) ask(capabilities string) upstream.Ask {
	return upstream.Ask{Capabilities: json.RawMessage(capabilities), Answer: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, method+" "+string(params))
		if text := a.by[method]; text != "" {
			return json.RawMessage(text), nil
		}
		return nil, &wire.Error{Code: -1, Message: "the user refused"}
	}}
}

// The official server asks in the course of a call, and gets the answers. It sees what its session may be asked.
func TestOfficialServerAsks(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, nil)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	s.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		elicited, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return nil, err
		}
		roots, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, err
		}
		_, refused := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}})
		c := r.Session.InitializeParams().Capabilities
		text := fmt.Sprint(elicited.Action, elicited.Content["name"], len(roots.Roots), refused != nil, c.Elicitation.URL != nil, c.Sampling.Tools != nil, c.Sampling.Context != nil)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	server, c := serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}), nil)
	a := answers{by: map[string]string{wire.MethodElicit: `{"action":"accept","content":{"name":"Ada"}}`, wire.MethodRoots: `{"roots":[{"uri":"file:///a"}]}`}}
	got, err := c.Call(t.Context(), server, &upstream.Call{Tool: "ask", Ask: a.ask(everything)})
	if err != nil || got.IsError || !strings.Contains(string(got.Text), `"acceptAda1 true true true false"`) {
		t.Fatalf("%s %v, asked %v", got.Text, err, a.asked)
	}
	if len(a.asked) != 3 || !strings.HasPrefix(a.asked[0], `elicitation/create {`) {
		t.Errorf("asked %v", a.asked)
	}
}

// opener is a server of sessions that notes the capabilities of each.
type opener struct {
	http.Handler
	mu    sync.Mutex
	shown []string
}

func (o *opener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		Method string `json:"method"`
		Params struct {
			Capabilities json.RawMessage `json:"capabilities"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &m) == nil && m.Method == wire.MethodInitialize {
		o.mu.Lock()
		o.shown = append(o.shown, string(m.Params.Capabilities))
		o.mu.Unlock()
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	o.Handler.ServeHTTP(w, r)
}

// Callers share a session with those who can be asked the same.
func TestSessionsByWhatMayBeAsked(t *testing.T) {
	o := &opener{Handler: legacyStub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, good) })}
	server, c := serve(t, o, nil)
	for _, capabilities := range []string{
		"", `{"elicitation":{"form":{}}}`, everything, `{"sampling":{}}`, "", everything, `{"elicitation":{"form":{}}}`,
	} {
		var a answers
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Ask: a.ask(capabilities)}); err != nil {
			t.Fatalf("%q: %v", capabilities, err)
		}
	}
	if _, err := c.Query(t.Context(), server, &upstream.Query{Method: wire.MethodComplete, Ask: upstream.Ask{Capabilities: json.RawMessage(`{"sampling":{}}`)}}); err == nil {
		t.Error("a result of another kind")
	}
	want := []string{`{}`, `{"elicitation":{"form":{}}}`, everything, `{"sampling":{}}`}
	if !slices.Equal(o.shown, want) {
		t.Errorf("sessions show %q", o.shown)
	}
	var discovered atomic.Int32
	server, c = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == wire.MethodDiscover {
			discovered.Add(1)
		}
		stub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, good) }).ServeHTTP(w, r)
	}), nil)
	for _, capabilities := range []string{"", everything, `{"roots":{}}`} {
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Ask: upstream.Ask{Capabilities: json.RawMessage(capabilities)}}); err != nil || discovered.Load() != 1 {
			t.Errorf("%q: %v, a server without sessions was asked %d times", capabilities, err, discovered.Load())
		}
	}
}

// asking is a server of sessions that sends events in answer to a call, takes answers, and sends the rest.
func asking(taken chan<- string, events func(m asked) []string, rest func(m asked) []string) http.Handler {
	got := make(chan struct{}, 64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		legacyStub(func(w http.ResponseWriter, r *http.Request, m asked) {
			if m.Method != wire.MethodCallTool {
				taken <- string(body)
				got <- struct{}{}
				w.WriteHeader(http.StatusAccepted)
				return
			}
			stream(w, events(m)...)
			if rest == nil {
				<-r.Context().Done()
				return
			}
			select {
			case <-got:
			case <-r.Context().Done():
			}
			stream(w, rest(m)...)
		}).ServeHTTP(w, r)
	})
}

func ask(id, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + params + `}`
}

func answered(m asked) []string { return []string{response(m, good)} }

// What a server asks wrongly is answered with an error, or ends its call; a call is never held by it.
func TestHostileQuestions(t *testing.T) {
	for name, test := range map[string]struct {
		events func(m asked) []string
		cause  upstream.Cause // empty for a call that goes on
		answer string         // what the server gets
	}{
		"huge parameters": {func(asked) []string { return []string{ask("1", `{"message":"`+strings.Repeat("x", 65<<10)+`"}`)} }, "", `"code":-32602`},
		"another request": {func(asked) []string {
			return []string{strings.Replace(ask("1", `{}`), "elicitation/create", "tools/list", 1)}
		}, "", `"code":-32601`},
		"a panic":          {func(asked) []string { return []string{ask("1", `{"panic":1}`)} }, "", `"code":-32603`},
		"no result":        {func(asked) []string { return []string{ask("1", `{"nothing":1}`)} }, "", `"code":-32603`},
		"an id twice":      {func(asked) []string { return []string{ask("1", `{}`), ask("1", `{}`)} }, upstream.CauseProtocol, ""},
		"a storm":          {func(asked) []string { return storm(17) }, upstream.CauseTooLarge, ""},
		"never read":       {func(asked) []string { return []string{ask("1", `{"wait":1}`), ask("2", `{}`)} }, "", `"id":2`},
		"behind an answer": {func(m asked) []string { return []string{response(m, good), ask("9", `{}`), ask("9", `{}`)} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			taken := make(chan string, 64)
			server, c := serve(t, asking(taken, test.events, answered), nil)
			_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Ask: upstream.Ask{Answer: func(ctx context.Context, _ string, params json.RawMessage) (json.RawMessage, *wire.Error) {
				switch {
				case strings.Contains(string(params), "panic"):
					panic("a bug")
				case strings.Contains(string(params), "nothing"):
					return nil, nil
				case strings.Contains(string(params), "wait"):
					<-ctx.Done()
				}
				return json.RawMessage(`{"action":"cancel"}`), nil
			}}})
			e, failed := errors.AsType[*upstream.Error](err)
			if failed != (test.cause != "") || failed && (e.Cause != test.cause || !e.Sent) || err != nil && !failed {
				t.Fatalf("%v", err)
			}
			if test.answer != "" {
				if got := <-taken; !strings.Contains(got, test.answer) {
					t.Errorf("the server got %s", got)
				}
			}
		})
	}
}

func storm(n int) (events []string) {
	for i := range n {
		events = append(events, ask(fmt.Sprintf(`"%d"`, i), `{}`))
	}
	return events
}

// A request ends with its call, by the server's own notice, and before the call's time is over, so that the server can
// go on.
func TestQuestionsEnd(t *testing.T) {
	type outcome struct{ deadline, ended bool }
	wait := func(ended chan<- outcome) upstream.Ask {
		return upstream.Ask{Answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, *wire.Error) {
			call, _ := ctx.Deadline()
			<-ctx.Done()
			ended <- outcome{time.Until(call) <= 0, true}
			return nil, &wire.Error{Code: -1, Message: "no answer"}
		}}
	}
	t.Run("with its call", func(t *testing.T) {
		taken, ended := make(chan string, 8), make(chan outcome, 1)
		server, c := serve(t, asking(taken, func(m asked) []string { return []string{ask("1", `{}`), response(m, good)} }, answered), nil)
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Ask: wait(ended)}); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got.deadline || len(taken) != 0 {
			t.Errorf("%+v, %d answers", got, len(taken))
		}
	})
	t.Run("with its caller", func(t *testing.T) {
		taken, ended := make(chan string, 8), make(chan outcome, 1)
		server, c := serve(t, asking(taken, func(asked) []string { return []string{ask("1", `{}`)} }, nil), nil)
		ctx, cancel := context.WithCancel(t.Context())
		began := make(chan struct{})
		a := wait(ended)
		go func() { <-began; cancel() }()
		_, err := c.Call(ctx, server, &upstream.Call{Tool: "a", Ask: upstream.Ask{Answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
			close(began)
			return a.Answer(ctx, method, params)
		}}})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCanceled {
			t.Fatalf("%v", err)
		}
		if got := <-ended; got.deadline {
			t.Errorf("%+v", got)
		}
		if got := <-taken; !strings.Contains(got, "notifications/cancelled") {
			t.Errorf("the server got %s", got)
		}
	})
	t.Run("by a notice", func(t *testing.T) {
		taken, ended := make(chan string, 8), make(chan outcome, 1)
		server, c := serve(t, asking(taken, func(asked) []string {
			return []string{ask("1", `{}`), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"x":1}}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`}
		}, answered), nil)
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Ask: wait(ended)}); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got.deadline {
			t.Errorf("%+v", got)
		}
		if got := <-taken; !strings.Contains(got, `"id":2`) {
			t.Errorf("the server got %s", got)
		}
	})
	t.Run("in time", func(t *testing.T) {
		taken, ended := make(chan string, 8), make(chan outcome, 1)
		server, c := serve(t, asking(taken, func(asked) []string { return []string{ask("1", `{}`)} }, answered), nil)
		server.Timeout = 3 * time.Second
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Ask: wait(ended)}); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; !got.deadline {
			t.Errorf("%+v", got)
		}
		if got := <-taken; !strings.Contains(got, "no answer") {
			t.Errorf("the server got %s", got)
		}
	})
}

// askingLocal asks in the course of a call, and answers with what it got; a call of "wait" is answered with the next one.
func askingLocal() {
	lines := bufio.NewScanner(os.Stdin)
	var held, two *asked
	for lines.Scan() {
		var m asked
		_ = json.Unmarshal(lines.Bytes(), &m)
		switch {
		case m.Method == wire.MethodDiscover:
			fmt.Println(response(m, `"error":{"code":-32601,"message":"unknown"}`))
		case m.Method == wire.MethodInitialize:
			fmt.Println(response(m, `"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`))
		case m.Method != wire.MethodCallTool:
			continue
		case m.Params.Name == "wait":
			held = &m
		case m.Params.Name == "ask when two wait":
			two = &m
		}
		calls := []*asked{held, two}
		if m.Method == wire.MethodCallTool && m.Params.Name == "ask" {
			calls = []*asked{&m}
		}
		if slices.Contains(calls, nil) {
			continue
		}
		fmt.Println(ask(`"q"`, `{}`))
		lines.Scan()
		quoted, _ := json.Marshal(lines.Text())
		for _, call := range calls {
			fmt.Println(response(*call, `"result":{"content":[{"type":"text","text":`+string(quoted)+`}]}`))
		}
	}
}

// A local server's request belongs to the only call that is under way, if there is one.
func TestLocalServersAsk(t *testing.T) {
	server, c := local(t, "asks", nil)
	a := answers{by: map[string]string{wire.MethodElicit: `{"action":"decline"}`}}
	got, err := c.Call(t.Context(), server, &upstream.Call{Tool: "ask", Ask: a.ask(`{"elicitation":{}}`)})
	if err != nil || !strings.Contains(string(got.Text), `decline`) || len(a.asked) != 1 {
		t.Fatalf("%s, %v, asked %v", got.Text, err, a.asked)
	}
	if got, err = c.Call(t.Context(), server, &upstream.Call{Tool: "ask"}); err != nil || !strings.Contains(string(got.Text), "-32601") {
		t.Errorf("a caller that can't be asked: %s, %v", got.Text, err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "wait", Ask: a.ask(`{"elicitation":{}}`)})
		second <- err
	}()
	got, err = c.Call(t.Context(), server, &upstream.Call{Tool: "ask when two wait", Ask: a.ask(`{"elicitation":{}}`)})
	if err != nil || !strings.Contains(string(got.Text), "-32601") || len(a.asked) != 1 {
		t.Errorf("one of two calls: %s, %v, asked %v", got.Text, err, a.asked)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
