package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
)

// Log messages reach a caller only if its request wants them, byte for byte and before the answer.
func TestLogMessages(t *testing.T) {
	server, s, _ := open(t)
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
}
