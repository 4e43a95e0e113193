package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/answer"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// kept is a Sessions that several handlers share.
type kept struct {
	anySession

	mu  sync.Mutex
	all map[string]*session.Session
}

func newKept() *kept { return &kept{all: make(map[string]*session.Session)} }

func (k *kept) Begin(of session.Owner, version string, capabilities json.RawMessage) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := rand.Text()
	k.all[id] = &session.Session{ID: id, Owner: of, Version: version, Capabilities: capabilities, Expires: time.Now().Add(time.Hour), Level: -1}
	return id, nil
}

func (k *kept) Open(_ context.Context, of session.Owner, id string) (*session.Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[id]; s != nil && s.Owner == of {
		return s, nil
	}
	return nil, session.ErrNotFound
}

// wires is an answer.Channel within one process.
type wires struct {
	mu sync.Mutex
	to map[string]func([]byte)
}

func (c *wires) Send(_ context.Context, replica string, text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.to[replica]; f != nil {
		f(text)
		return nil
	}
	return errors.New("no such replica")
}

func (c *wires) Receive(ctx context.Context, replica string, f func([]byte)) error {
	c.mu.Lock()
	c.to[replica] = f
	c.mu.Unlock()
	<-ctx.Done()
	return nil
}

// spread sends what answers a question, or is about resources, to one replica, and all else to another one.
type spread struct {
	inner            http.RoundTripper
	replica, answers string
}

func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	to := s.replica
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		method := gjson.GetBytes(body, "method").Str
		if r.Body = io.NopCloser(bytes.NewReader(body)); method == "" || strings.HasPrefix(method, "resources/") {
			to = s.answers
		}
	}
	at, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	r.URL.Host, r.Host = at.Host, at.Host
	return s.inner.RoundTrip(r)
}

// twins returns two replicas with the same sessions, and the tools of the first.
func twins(t *testing.T) (a, b *httptest.Server, s *tools, k *kept) {
	t.Helper()
	c := &wires{to: make(map[string]func([]byte))}
	k = newKept()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	var replicas [2]*httptest.Server
	for i := range replicas {
		server, its, h := open(t)
		router := answer.NewRouter(c)
		h.Sessions, h.Answers, h.Notices = k, router, newNotices()
		group.Go(func() { _ = router.Run(ctx) })
		if replicas[i] = server; i == 0 {
			s = its
		}
	}
	testkit.Wait(t, "the replicas", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.to) < len(replicas) {
			return errors.New("not all receive")
		}
		return nil
	})
	return replicas[0], replicas[1], s, k
}

// asks makes a call ask its caller, and answer with what it got.
func (s *tools) asks(asked ...input.Request) {
	s.call = func(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		if r.Client.Ask == nil {
			return answerOf(`{"content":[{"type":"text","text":"can't ask"}]}`), nil
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		got, err := r.Client.Ask(ctx, asked)
		text, _ := json.Marshal(fmt.Sprintf("%s %v", mustJSON(got), err))
		return answerOf(`{"content":[{"type":"text","text":` + string(text) + `}]}`), nil
	}
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

var (
	askForm = input.Request{Key: "k", Method: wire.MethodElicit, Params: json.RawMessage(`{"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`)}
	askText = input.Request{Key: "s", Method: wire.MethodSample, Params: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`)}
	askDirs = input.Request{Key: "r", Method: wire.MethodRoots}
)

// The official client is asked in the course of its call, and answers on another replica.
func TestOfficialClientIsAsked(t *testing.T) {
	a, b, s, k := twins(t)
	s.asks(askForm, askText, askDirs)
	inner := &http.Transport{}
	defer inner.CloseIdleConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": r.Params.Message}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "yes"}}, nil
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///work"})
	for _, version := range []string{wire.Legacy20251125, wire.Legacy20250618} {
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: a.URL + "/mcp", HTTPClient: &http.Client{Transport: &spread{inner, a.URL, b.URL}}, MaxRetries: -1,
		}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs__read", Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		got := result.Content[0].(*mcp.TextContent).Text
		for _, want := range []string{`"k":{"action":"accept","content":{"name":"who?"}}`, `"text":"yes"`, `"file:///work"`, `} <nil>`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", version, got, want)
			}
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(k.all) != 2 {
		t.Errorf("%d sessions", len(k.all))
	}
}

// begin begins a session whose client can be asked, and returns its headers.
func begin(t *testing.T, at string) []string {
	t.Helper()
	_, _, header := post(t, at, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`)
	id := header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("no session")
	}
	return []string{"Mcp-Session-Id", id}
}

const callRead = `{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"fs__read","arguments":{}}}`

// asked begins a call that asks, and returns the id of the question and what ends the call.
func asked(t *testing.T, at string, headers []string) (id string, rest <-chan string, hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(callRead))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, headers[0]: {headers[1]}}
	found, all := make(chan string, 1), make(chan string, 1)
	go func() {
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			found <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		var text strings.Builder
		buffer := make([]byte, 4096)
		for first := true; ; {
			n, err := response.Body.Read(buffer)
			text.Write(buffer[:n])
			if _, data, ok := strings.Cut(text.String(), "data: "); ok && first && strings.Contains(data, "\n") {
				first = false
				found <- gjson.Get(data, "id").Raw
			}
			if err != nil {
				all <- text.String()
				return
			}
		}
	}()
	t.Cleanup(cancel)
	return <-found, all, cancel
}

// What another session, or a later answer says, does not count. A client without a session, or on a gateway without
// answers, is not asked.
func TestAnswersOfHostileCallers(t *testing.T) {
	a, b, s, _ := twins(t)
	s.asks(askForm)
	headers, others := begin(t, a.URL+"/mcp"), begin(t, a.URL+"/mcp")
	id, rest, _ := asked(t, a.URL+"/mcp", headers)
	if !strings.HasPrefix(id, `"`) || len(id) < 50 {
		t.Fatalf("id %s", id)
	}
	answer := func(at *httptest.Server, n int, headers ...string) int {
		status, _, _ := post(t, at.URL+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"n":%d}}`, id, n), headers...)
		return status
	}
	for _, at := range []*httptest.Server{a, b} {
		if got := answer(at, 1, others...); got != http.StatusAccepted {
			t.Errorf("another session: %d", got)
		}
		if got := answer(at, 1); got != http.StatusAccepted {
			t.Errorf("without a session: %d", got)
		}
	}
	if got := answer(b, 2, "Mcp-Session-Id", "none"); got != http.StatusNotFound {
		t.Errorf("of no session: %d", got)
	}
	for n := range 3 {
		if got := answer(b, 3+n, headers...); got != http.StatusAccepted {
			t.Errorf("answer %d: %d", n, got)
		}
	}
	if got := <-rest; !strings.Contains(got, `{\"k\":{\"n\":3}} `) || strings.Count(got, "data:") != 2 {
		t.Errorf("%s", got)
	}
	if _, body, _ := post(t, a.URL+"/mcp", callRead); !strings.Contains(body, "can't ask") {
		t.Errorf("a client without a session: %s", body)
	}
	large := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"n":"%s"}}`, id, strings.Repeat("x", answerSize))
	if status, body, _ := post(t, b.URL+"/mcp", large, headers...); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "-31413") {
		t.Errorf("a large answer: %d %s", status, body)
	}
	lost := strings.Replace(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id), id[1:27], strings.Repeat("A", 26), 1)
	if status, body, _ := post(t, b.URL+"/mcp", lost, headers...); status != http.StatusServiceUnavailable || gjson.Get(body, "id").Exists() {
		t.Errorf("a replica that can't be reached: %d %s", status, body)
	}
}

const answerSize = answer.MaxSize

// A question ends with its call, and its caller learns of it; a caller that hangs up leaves nothing behind.
func TestQuestionsThatEnd(t *testing.T) {
	a, _, s, _ := twins(t)
	headers := begin(t, a.URL+"/mcp")
	s.call = func(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := r.Client.Ask(short, []input.Request{askForm, askForm}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		return answerOf(`{"content":[]}`), nil
	}
	_, body, _ := post(t, a.URL+"/mcp", callRead, headers...)
	if strings.Count(body, "elicitation/create") != 2 || strings.Count(body, "notifications/cancelled") != 2 || !strings.Contains(body, `"content":[]`) {
		t.Errorf("%s", body)
	}
	ended := make(chan error, 1)
	s.call = func(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		_, err := r.Client.Ask(ctx, []input.Request{askForm})
		ended <- err
		return toolcall.Answer{}, err
	}
	_, _, hangUp := asked(t, a.URL+"/mcp", headers)
	hangUp()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the question goes on without its caller")
	}
	many := make([]input.Request, 17)
	s.call = func(ctx context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		_, err := r.Client.Ask(ctx, many)
		return toolcall.Answer{}, err
	}
	if _, body, _ := post(t, a.URL+"/mcp", callRead, headers...); gjson.Get(body, "error.code").Int() != -31429 || strings.Contains(body, "elicitation") {
		t.Errorf("too many questions: %s", body)
	}
}
