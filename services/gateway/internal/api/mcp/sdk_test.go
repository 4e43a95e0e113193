package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit/growth"
)

// The official client speaks to the face in each revision that it has.
func TestOfficialClient(t *testing.T) {
	for _, version := range append(versions(), "") {
		t.Run("version "+version, func(t *testing.T) {
			server, s, _ := open(t)
			s.list.Tools = []toolcall.Tool{{Name: "fs__read", Definition: json.RawMessage(`{"name":"read","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`)}}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			reported := make(chan string, 1)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { reported <- r.Params.Message },
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1,
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close() }()
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "fs__read" {
				t.Fatalf("%+v %v", list, err)
			}
			s.call = func(_ context.Context, r *toolcall.Request) (toolcall.Answer, error) {
				if r.Progress != nil {
					r.Progress(upstream.Progress{Progress: 1, Message: "half"})
				}
				return answerOf(`{"content":[{"type":"text","text":"done"}],"structuredContent":{"n":1}}`), nil
			}
			params := &mcp.CallToolParams{Name: "fs__read", Arguments: map[string]any{"a": "b"}}
			params.SetProgressToken("token")
			result, err := session.CallTool(t.Context(), params)
			if err != nil || len(result.Content) != 1 || result.IsError || string(s.calls[0].Arguments) != `{"a":"b"}` {
				t.Fatalf("%+v %v", result, err)
			}
			select {
			case text := <-reported:
				if text != "half" {
					t.Errorf("reported %q", text)
				}
			case <-time.After(time.Minute):
				t.Error("progress was not reported")
			}
			s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) {
				return toolcall.Answer{}, toolcall.ErrUntrusted
			}
			_, err = session.CallTool(t.Context(), params)
			if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != -31403 || !strings.Contains(string(refused.Data), `"server_untrusted"`) {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestReadGrowsLinearly(t *testing.T) {
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}}
	inputs := append(growth.Around(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":`, growth.JSON, `}}`), growth.JSON...)
	inputs = append(inputs, growth.Number("members of _meta", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"a":1`, `,"a#":1`, `}}}`))
	const request = `{"jsonrpc":"2.0","id":1,"method":"a","params":`
	inputs = append(inputs, growth.Around(request+`{"ref":{"type":"ref/prompt","name":"a"},"argument":`, growth.JSON, `}}`)...)
	inputs = append(inputs, growth.Number("URIs", request+`{"notifications":{"resourceSubscriptions":["a:b"`, `,"a:#"`, `]}}}`))
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		if in, _ := read(header, text); in != nil {
			x := exchange{incoming: in}
			_, _ = x.wanted()
			_ = x.completion(&toolcall.Query{})
		}
	})...)
}

// FuzzRead checks that whatever arrives is read or refused with a message of the protocol.
func FuzzRead(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},`+meta+`}}`, wire.Modern, "tools/call", "a")
	f.Add(`{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "", "", "")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, wire.Legacy20251125, "", "=?base64?YQ==?=")
	f.Fuzz(func(t *testing.T, body, version, method, name string) {
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}}
		header.Set(wire.HeaderVersion, version)
		header.Set(wire.HeaderMethod, method)
		header.Set(wire.HeaderName, name)
		in, refused := read(header, []byte(body))
		if refused != nil {
			if refused.status < 400 || refused.status > 499 || !json.Valid(refused.text()) {
				t.Fatalf("%d %s", refused.status, refused.text())
			}
			return
		}
		if in.modern && in.message.IsRequest() && (in.version != wire.Modern || method != in.message.Method) {
			t.Fatalf("read as %+v", in)
		}
	})
}
