package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/notice"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// notices is a Notices that says once that each list has changed, when go is closed, and ends with end.
type notices struct {
	asked chan *notice.Listener
	goOn  chan struct{}
	early error // before it begins
	end   error
}

func newNotices() *notices {
	return &notices{asked: make(chan *notice.Listener, 4), goOn: make(chan struct{})}
}

func (n *notices) Listen(ctx context.Context, l *notice.Listener) error {
	if n.early != nil {
		return n.early
	}
	l.Begin()
	n.asked <- l
	select {
	case <-n.goOn:
	case <-ctx.Done():
		return nil
	}
	for _, of := range l.Of {
		l.Changed(of, notice.State{1, 2, 3})
	}
	return n.end
}

const listenTo = `{"jsonrpc":"2.0","id":"l1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["a:b"],"new":{}},` + meta + `}}`

// A stream begins with what is accepted, has notices of nothing else, and ends with its result.
func TestSubscriptions(t *testing.T) {
	server, s, h := open(t)
	n := newNotices()
	close(n.goOn)
	h.Notices, s.features = n, map[toolserver.Feature]bool{toolserver.FeaturePrompts: true, toolserver.FeatureResources: true}
	status, body, header := post(t, server.URL+"/mcp", listenTo, modern("subscriptions/listen")...)
	if status != 200 || header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", status, body)
	}
	var got []gjson.Result
	for line := range strings.Lines(body) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			got = append(got, gjson.Parse(text))
		}
	}
	if len(got) != 4 || got[0].Get("method").Str != "notifications/subscriptions/acknowledged" ||
		got[0].Get("params.notifications").Raw != `{"promptsListChanged":true,"toolsListChanged":true}` ||
		got[1].Get("method").Str != "notifications/tools/list_changed" || got[2].Get("method").Str != "notifications/prompts/list_changed" ||
		got[3].Get("id").Str != "l1" || got[3].Get("result.resultType").Str != "complete" {
		t.Fatalf("%s", body)
	}
	for i, member := range []string{"params", "params", "params", "result"} {
		if got[i].Get(member+`._meta.io\.modelcontextprotocol/subscriptionId`).Str != "l1" {
			t.Errorf("message %d: %s", i, got[i].Raw)
		}
	}
	if l := <-n.asked; l.Asker.Organization != "acme" || l.Server != "" || len(l.Of) != 2 {
		t.Errorf("listened by %+v", l)
	}
	n.end = toolcall.ErrUntrusted
	if _, body, _ = post(t, server.URL+"/mcp", listenTo, modern("subscriptions/listen")...); !strings.Contains(body, "-31403") {
		t.Errorf("ended: %s", body)
	}
	n.early = notice.ErrTooMany
	if _, body, _ = post(t, server.URL+"/mcp", listenTo, modern("subscriptions/listen")...); gjson.Get(body, "error.code").Int() != -31429 {
		t.Errorf("too many: %s", body)
	}
	nothing := strings.NewReplacer(`ListChanged":true`, `ListChanged":false`, `["a:b"]`, `[]`).Replace(listenTo)
	if _, body, _ = post(t, server.URL+"/mcp", nothing, modern("subscriptions/listen")...); !strings.Contains(body, `"notifications":{}`) || !strings.Contains(body, `"result"`) {
		t.Errorf("nothing accepted: %s", body)
	}
}

// anySession is a Sessions of which every id is one.
type anySession struct{ version string }

func (anySession) Begin(session.Owner, string, json.RawMessage) (string, error) { return "s1", nil }

func (s anySession) Open(context.Context, session.Owner, string) (*session.Session, error) {
	return &session.Session{Version: s.version, Expires: time.Now().Add(time.Hour)}, nil
}

func (anySession) SetLevel(context.Context, *session.Session, int) error { return nil }

func (anySession) End(context.Context, session.Owner, string) error { return nil }

// The stream of an older session begins with what is known, so that it can be taken up.
func TestSessionStream(t *testing.T) {
	server, _, h := open(t)
	h.Asker = func(context.Context) (toolcall.Asker, error) {
		a := toolcall.Asker{RequestID: "r1", Organization: "acme", User: "ann"}
		a.KeyTerms.Key = "k0"
		return a, nil
	}
	n := newNotices()
	h.Notices = n
	get := func(id string, headers ...string) (status int, body io.Reader) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", id)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.StatusCode, response.Body
	}
	if status, _ := get("s1"); status != 405 {
		t.Errorf("without sessions: %d", status)
	}
	h.Sessions = &sessions{expires: time.Now().Add(time.Hour)}
	for name, c := range map[string]struct {
		id      string
		headers []string
		status  int
	}{
		"no session":      {"", nil, 405},
		"another session": {"s2", nil, 404},
		"another type":    {"s1", []string{"Accept", "application/json"}, 406},
		"a page":          {"s1", []string{"Origin", "https://evil.example"}, 403},
	} {
		if status, _ := get(c.id, c.headers...); status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
	}
	status, stream := get("s1", "Last-Event-Id", notice.State{7, 8, 9}.ID())
	l := <-n.asked
	if status != http.StatusOK || l.Known != (notice.State{7, 8, 9}) || len(l.Of) != 1 {
		t.Fatalf("%d, listened by %+v", status, l)
	}
	close(n.goOn)
	scanner := bufio.NewScanner(stream)
	var lines []string
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	want := ": listening\n\nid: " + notice.State{1, 2, 3}.ID() + "\nevent: message\n" + `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	n.early = notice.ErrTooMany
	if status, _ := get("s1"); status != 429 {
		t.Errorf("too many: %d", status)
	}
}

// The official client is notified in both eras.
func TestOfficialClientListens(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", ""} {
		t.Run("version "+version, func(t *testing.T) {
			server, _, h := open(t)
			n := newNotices()
			h.Notices, h.Sessions = n, anySession{version}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			changed := make(chan struct{}, 1)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1,
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			<-n.asked
			close(n.goOn)
			select {
			case <-changed:
			case <-time.After(time.Minute):
				t.Error("not notified")
			}
			if err := session.Close(); err != nil && version != "" {
				t.Errorf("close: %v", err)
			}
		})
	}
}
