package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/testkit"
)

// oneTool is a mcp.Tools with the tool fs__read, which keeps who called it.
type oneTool struct {
	mu     sync.Mutex
	askers []toolcall.Asker
}

func (*oneTool) Knows(_, server string) bool { return server == "files" }

func (o *oneTool) List(_ context.Context, a *toolcall.Asker, _ string) (toolcall.List, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.askers = append(o.askers, *a)
	return toolcall.List{Tools: []toolcall.Tool{{Name: "fs__read", Definition: json.RawMessage(`{"name":"read","inputSchema":{}}`)}}}, nil
}

func (*oneTool) Call(context.Context, *toolcall.Request) (toolcall.Answer, error) {
	return toolcall.Answer{Result: upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"content":[]}`)}}, nil
}

func (*oneTool) Definition(context.Context, *toolcall.Asker, toolcall.Name) (json.RawMessage, bool) {
	return nil, false
}

func (*oneTool) Features(string, string) map[toolserver.Feature]bool { return nil }

func (*oneTool) Offers(context.Context, *toolcall.Asker, string, upstream.Offer) (toolcall.Offers, error) {
	return toolcall.Offers{}, nil
}

func (*oneTool) Follows(context.Context, *toolcall.Asker, string, []string) ([]toolcall.Followed, error) {
	return nil, nil
}

func (*oneTool) Task(context.Context, *toolcall.TaskRequest) (toolcall.Answer, error) {
	return toolcall.Answer{}, toolcall.ErrTaskUnknown
}

func (*oneTool) FollowTasks(
	context.Context, *toolcall.Asker, toolcall.Client, string, []string, json.RawMessage,
) ([]toolcall.FollowedTasks, error) {
	return nil, nil
}

func (*oneTool) Query(context.Context, *toolcall.Query) (toolcall.Answer, error) {
	return toolcall.Answer{}, toolcall.ErrNotOffered
}

// Who lists and calls tools is in the headers of every face, and errors before a request is read are the protocol's.
func TestToolFace(t *testing.T) {
	b := setup(t)
	do := func(method, path, body string, headers ...string) (int, string, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, b.http.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return testkit.Do(t, b.http.Client(), r)
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	accepts := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	known := append([]string{"Authorization", "Bearer ops", "X-Organization-Id", "acme"}, accepts...)
	status, body, _ := do("POST", "/mcp", list, append(known,
		"X-Run-Id", "run-1", "X-User-Id", "ann", "X-Key-Id", "k1", "X-Request-Id", "r1", "X-Switchyard-Tags", "team=a",
		"X-Key-Terms", `{"key":"k0","budget":{"ceiling_cents":5,"period":"day"}}`)...)
	if status != 200 || gjson.Get(body, "result.tools.0.name").Str != "fs__read" {
		t.Fatalf("%d %s", status, body)
	}
	a := b.oneTool.askers[0]
	if a.Organization != "acme" || a.Run != "run-1" || a.User != "ann" || a.Key != "k1" || a.RequestID != "r1" || a.Service == "" ||
		a.Tags["team"] != "a" || a.KeyTerms.Key != "k0" || a.KeyTerms.Budget.CeilingCents != 5 {
		t.Errorf("asked by %+v", a)
	}
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		reason             string
	}{
		"no token":           {"POST", "/mcp", list, accepts, 401, "unauthenticated"},
		"no organization":    {"POST", "/mcp", list, append([]string{"Authorization", "Bearer ops"}, accepts...), 400, "invalid_request"},
		"terms that are not": {"POST", "/mcp", list, append([]string{"X-Key-Terms", "{"}, known...), 400, "invalid_request"},
		"another method":     {"GET", "/mcp", "", known, 405, "method_not_allowed"},
		"a session's end":    {"DELETE", "/mcp/files", "", known, 405, "method_not_allowed"},
		"a path below":       {"POST", "/mcp/files/more", list, known, 404, "not_found"},
		"a page":             {"POST", "/mcp", list, append([]string{"Origin", "https://evil.example"}, known...), 403, "forbidden"},
	} {
		status, body, header := do(c.method, c.path, c.body, c.headers...)
		if got := gjson.Parse(body); status != c.status || got.Get("jsonrpc").Str != "2.0" || got.Get("error.data.reason").Str != c.reason || got.Get("id").Exists() {
			t.Errorf("%s: %d %s, want %d %s", name, status, body, c.status, c.reason)
		}
		if status == 405 && !strings.Contains(header.Get("Allow"), "POST") {
			t.Errorf("%s: Allow is %q", name, header.Get("Allow"))
		}
	}
}
