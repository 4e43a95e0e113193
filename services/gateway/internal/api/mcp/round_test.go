package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

const askingText = `{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"mode":"form","message":"files: Who?",` +
	`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}},"roots":{"method":"roots/list","params":{}}},"requestState":"sealed"}`

func askingAnswer() toolcall.Answer {
	answer := answerOf(askingText)
	answer.Kind = upstream.KindInputRequired
	return answer
}

// What a caller declares, answers and brings back is passed on as it is, in the revision without sessions alone.
func TestClientOfRequest(t *testing.T) {
	const members = `"inputResponses":{"a":{"action" : "accept"}},"requestState":"s\u0041",`
	const declaring = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`
	server, s, _ := open(t)
	s.query = func(*toolcall.Query) (toolcall.Answer, error) { return askingAnswer(), nil }
	s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) { return askingAnswer(), nil }
	for method, about := range map[string]string{"tools/call": `"name":"x"`, "prompts/get": `"name":"x"`, "resources/read": `"uri":"a:b"`} {
		s.calls, s.queries = nil, nil
		name := strings.Trim(strings.SplitN(about, ":", 2)[1], `"`)
		clients := func() (all []toolcall.Client) {
			for _, r := range s.calls {
				all = append(all, r.Client)
			}
			for _, q := range s.queries {
				all = append(all, q.Client)
			}
			return all
		}
		body := func(rest string) string {
			return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + about + `,` + rest + `}}`
		}
		_, answer, _ := post(t, server.URL+"/mcp", body(members+declaring), modern(method, "Mcp-Name", name)...)
		if got := gjson.Get(answer, "result").Raw; got != askingText {
			t.Errorf("%s: %s", method, got)
		}
		got := clients()
		if len(got) != 1 || string(got[0].Inputs) != `{"a":{"action" : "accept"}}` || got[0].State != "sA" || string(got[0].Capabilities) != `{"roots":{}}` || got[0].Ask != nil {
			t.Errorf("%s: %+v", method, got)
		}
		post(t, server.URL+"/mcp", body(members+`"x":1`))
		if got := clients(); len(got) != 2 || got[1].Inputs != nil || got[1].State != "" || got[1].Capabilities != nil {
			t.Errorf("%s, in an older revision: %+v", method, got[1:])
		}
		for _, wrong := range []string{
			`"inputResponses":[],`, `"inputResponses":null,`, `"inputResponses":"x",`, `"requestState":1,`, `"requestState":"",`, `"requestState":{},`,
			`"requestState":"` + strings.Repeat("x", ticket.Max+1) + `",`,
		} {
			status, answer, _ := post(t, server.URL+"/mcp", body(wrong+declaring), modern(method, "Mcp-Name", name)...)
			if status != http.StatusBadRequest || gjson.Get(answer, "error.code").Int() != -32602 || len(clients()) != 2 || len(answer) > 300 {
				t.Errorf("%s %.40s: %d %.300s", method, wrong, status, answer)
			}
		}
	}
}

// The official client answers what it is asked, and brings the state back.
func TestOfficialClientTakesRounds(t *testing.T) {
	server, s, _ := open(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ann"}}, nil
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///work"})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	s.call = func(_ context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		if r.Client.State == "" {
			return askingAnswer(), nil
		}
		return answerOf(`{"content":[{"type":"text","text":"done"}]}`), nil
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs__read", Arguments: map[string]any{"x": 1}})
	if err != nil || len(result.Content) != 1 || len(s.calls) != 2 {
		t.Fatalf("%+v %v, %d calls", result, err, len(s.calls))
	}
	first, second := s.calls[0], s.calls[1]
	if first.Client.State != "" || second.Client.State != "sealed" || string(second.Arguments) != string(first.Arguments) {
		t.Errorf("%+v, then %+v", first.Client, second.Client)
	}
	var inputs map[string]json.RawMessage
	if err := json.Unmarshal(second.Client.Inputs, &inputs); err != nil || gjson.GetBytes(inputs["name"], "content.name").Str != "ann" ||
		gjson.GetBytes(inputs["roots"], "roots.0.uri").Str != "file:///work" {
		t.Errorf("%s %v", second.Client.Inputs, err)
	}
}
