package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
)

// Log messages reach a caller only if its request wants them, byte for byte and before the answer.
func TestLogMessages(t *testing.T) {
	server, s, h := open(t)
	s.list.Tools[0].Definition = json.RawMessage(`{"name":"read","inputSchema":{}}`)
	s.call = func(_ context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		if r.Log.Receive != nil {
			r.Log.Receive(json.RawMessage(`{"level":"error", "data":1.0}`))
		}
		return answerOf(`{"content":[]}`), nil
	}
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs__read",` + meta + `}}`
	if _, body, _ := post(t, server.URL+"/mcp", call, modern("tools/call", "Mcp-Name", "fs__read")...); !gjson.Get(body, "result").Exists() {
		t.Errorf("not wanted: %s", body)
	}
	call = strings.Replace(call, `Capabilities":{}`, `Capabilities":{},"io.modelcontextprotocol/logLevel":"warning"`, 1)
	_, body, header := post(t, server.URL+"/mcp", call, modern("tools/call", "Mcp-Name", "fs__read")...)
	before, after, _ := strings.Cut(body, "\n\n")
	if header.Get("Content-Type") != "text/event-stream" || !strings.Contains(before, `"method":"notifications/message","params":{"level":"error", "data":1.0}`) || !strings.Contains(after, `"result"`) {
		t.Errorf("%s", body)
	}
	if got := s.calls[1].Log.Level; got != "warning" {
		t.Errorf("level %q", got)
	}
	older := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs__read","_meta":{"a":1}}}`
	if _, body, _ := post(t, server.URL+"/mcp", older); !gjson.Get(body, "result").Exists() || s.calls[2].Log.Receive != nil {
		t.Errorf("in an older revision: %s", body)
	}
	// A session keeps the level.
	kept := &sessions{level: -1}
	h.Sessions = kept
	h.Asker = func(context.Context) (toolcall.Asker, error) {
		a := toolcall.Asker{RequestID: "r1", Organization: "acme", User: "ann"}
		a.KeyTerms.Key = "k0"
		return a, nil
	}
	set := func(params string, headers ...string) gjson.Result {
		_, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":`+params+`}`, headers...)
		return gjson.Parse(body)
	}
	for params, want := range map[string]int64{`{"level":"error"}`: 0, `{"level":"loud"}`: -32602, `{}`: -32602} {
		if got := set(params, "Mcp-Session-Id", "s1"); got.Get("error.code").Int() != want || want == 0 && got.Get("result").Raw != "{}" {
			t.Errorf("%s: %s", params, got.Raw)
		}
	}
	if _, body, _ := post(t, server.URL+"/mcp", older, "Mcp-Session-Id", "s1"); !strings.Contains(body, "notifications/message") || s.calls[3].Log.Level != "error" {
		t.Errorf("in a session: %s", body)
	}
	if got := set(`{"level":"error"}`); got.Get("error.code").Int() != -32601 {
		t.Errorf("without a session: %s", got.Raw)
	}
	kept.full = session.ErrFull
	if got := set(`{"level":"error"}`, "Mcp-Session-Id", "s1"); got.Get("error.code").Int() != -31429 {
		t.Errorf("of too many: %s", got.Raw)
	}
}
