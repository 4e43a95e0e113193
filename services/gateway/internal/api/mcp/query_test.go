package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// The gateway says of itself exactly what the servers of the organization offer.
func TestCapabilities(t *testing.T) {
	server, s, h := open(t)
	for _, c := range []struct {
		path string
		of   []toolserver.Feature
		want string
	}{
		{"/mcp", nil, `{"tools":{}}`},
		{"/mcp", []toolserver.Feature{toolserver.FeatureResources}, `{"tools":{},"resources":{}}`},
		{"/mcp", toolserver.Features(), `{"tools":{},"resources":{},"prompts":{},"completions":{}}`},
		{"/mcp/files", nil, `{"prompts":{}}`},
	} {
		s.features = make(map[toolserver.Feature]bool)
		for _, f := range c.of {
			s.features[f] = true
		}
		_, modernBody, _ := post(t, server.URL+c.path, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`, modern("server/discover")...)
		_, older, _ := post(t, server.URL+c.path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		h.Sessions = &sessions{}
		_, withSessions, _ := post(t, server.URL+c.path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		h.Sessions = nil
		changing := regexp.MustCompile(`"(tools|resources|prompts)":{}`).ReplaceAllString(c.want, `"$1":{"listChanged":true}`)
		logging := strings.TrimSuffix(changing, "}") + `,"logging":{}}`
		subscribed := strings.Replace(logging, `"resources":{"listChanged":true}`, `"resources":{"listChanged":true,"subscribe":true}`, 1)
		if s.features[toolserver.FeatureTasks] {
			subscribed = strings.TrimSuffix(subscribed, "}") + `,"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		}
		for body, want := range map[string]string{modernBody: subscribed, older: c.want, withSessions: logging} {
			if got := gjson.Get(body, "result.capabilities").Raw; got != want {
				t.Errorf("%s with %v: %s, want %s", c.path, c.of, got, want)
			}
		}
	}
}

func TestPagesOfOffers(t *testing.T) {
	server, s, _ := open(t)
	for i := range pageTools + 2 {
		uri := fmt.Sprintf("file:///%04d%s", i, strings.Repeat("x", 1500))
		s.offers.Items = append(s.offers.Items, toolcall.Offered{Name: uri, Text: json.RawMessage(`{"uri": "` + uri + `", "n":1.0}`)})
	}
	s.offers.Unavailable, s.offers.Ambiguous = []string{"docs"}, []string{"note://a"}
	for _, era := range [][]string{nil, modern("resources/list")} {
		cursor, total, pages := "", 0, 0
		for {
			params := meta
			if era == nil {
				params = `"a":1`
			}
			if cursor != "" {
				params += `,"cursor":"` + cursor + `"`
			}
			status, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{`+params+`}}`, era...)
			got := gjson.Get(body, "result")
			if status != 200 || got.Get(`_meta.dev\.switchyard/unavailable.0`).Str != "docs" || got.Get(`_meta.dev\.switchyard/ambiguous.0`).Str != "note://a" ||
				(got.Get("resultType").Str == "complete") != (era != nil) || !strings.Contains(got.Get("resources.0").Raw, `"n":1.0`) {
				t.Fatalf("%d %.300s", status, body)
			}
			total, pages = total+len(got.Get("resources").Array()), pages+1
			if cursor = got.Get("nextCursor").Str; cursor == "" {
				break
			}
		}
		if total != pageTools+2 || pages != 2 {
			t.Errorf("%d items on %d pages", total, pages)
		}
	}
	for _, c := range []string{"bm8", strings.Repeat("A", 5000)} {
		_, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"cursor":"`+c+`"}}`)
		if gjson.Get(body, "error.code").Int() != wire.CodeInvalidParams {
			t.Errorf("%s", body)
		}
	}
}

// Results are passed on byte for byte; only what says for how long they may be kept is the gateway's.
func TestQueries(t *testing.T) {
	server, s, _ := open(t)
	s.query = func(*toolcall.Query) (toolcall.Answer, error) {
		return answerOf(`{"contents":[{"uri":"a:b", "n":1.0, "text":"\u0041"}],"ttlMs":5,"cacheScope":"public"}`), nil
	}
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b",`
	_, body, _ := post(t, server.URL+"/mcp", read+meta+`}}`, modern("resources/read", "Mcp-Name", "a:b")...)
	if got := gjson.Get(body, "result"); got.Get("contents").Raw != `[{"uri":"a:b", "n":1.0, "text":"\u0041"}]` || got.Get("ttlMs").Raw != "0" ||
		got.Get("cacheScope").Str != "private" || got.Get("resultType").Str != "complete" || !json.Valid([]byte(body)) {
		t.Errorf("%s", body)
	}
	_, body, _ = post(t, server.URL+"/mcp/files", read+`"a":1}}`, "Mcp-Protocol-Version", "2025-06-18")
	if got := gjson.Get(body, "result").Raw; got != `{"contents":[{"uri":"a:b", "n":1.0, "text":"\u0041"}],"ttlMs":5,"cacheScope":"public"}` {
		t.Errorf("%s", body)
	}
	for body, want := range map[string]*toolcall.Query{
		`"method":"resources/read","params":{"uri":"a:b"}`:                       {Method: "resources/read", Name: "a:b"},
		`"method":"prompts/get","params":{"name":"fs__p","arguments":{"a":"b"}}`: {Method: "prompts/get", Name: "fs__p", Arguments: json.RawMessage(`{"a":"b"}`)},
		`"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"fs__p"},"argument":{"name":"a","value":""},"context":{}}`: {
			Method: "completion/complete", Name: "fs__p", Arguments: json.RawMessage(`{"name":"a","value":""}`), Context: json.RawMessage(`{}`),
		},
		`"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"a:{b}"},"argument":{"name":"b","value":"c"}}`: {
			Method: "completion/complete", Name: "a:{b}", Template: true, Arguments: json.RawMessage(`{"name":"b","value":"c"}`),
		},
	} {
		s.queries = nil
		post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,`+body+`}`)
		if want.Asker = (toolcall.Asker{RequestID: "r1", Organization: "acme"}); len(s.queries) != 1 || cmp.Diff(want, s.queries[0]) != "" {
			t.Errorf("%s: %+v", body, s.queries)
		}
	}
}

func TestWrongQueries(t *testing.T) {
	server, s, _ := open(t)
	const ref, argument = `"ref":{"type":"ref/prompt","name":"a"}`, `"argument":{"name":"a","value":""}`
	for name, c := range map[string]struct {
		body   string
		header []string
		code   int64
	}{
		"no uri":                      {`"resources/read","params":{}`, nil, -32602},
		"a uri that is none":          {`"resources/read","params":{"uri":"a b"}`, nil, -32602},
		"a long uri":                  {`"resources/read","params":{"uri":"a:` + strings.Repeat("x", 2047) + `"}`, nil, -32602},
		"a number":                    {`"resources/read","params":{"uri":1}`, nil, -32602},
		"no name":                     {`"prompts/get","params":{}`, nil, -32602},
		"arguments are a list":        {`"prompts/get","params":{"name":"a","arguments":[]}`, nil, -32602},
		"no ref":                      {`"completion/complete","params":{` + argument + `}`, nil, -32602},
		"another ref":                 {`"completion/complete","params":{"ref":{"type":"ref/tool","name":"a"},` + argument + `}`, nil, -32602},
		"a ref that is a text":        {`"completion/complete","params":{"ref":"a",` + argument + `}`, nil, -32602},
		"no argument":                 {`"completion/complete","params":{` + ref + `}`, nil, -32602},
		"an argument without a value": {`"completion/complete","params":{` + ref + `,"argument":{"name":"a"}}`, nil, -32602},
		"a context that is a list":    {`"completion/complete","params":{` + ref + `,` + argument + `,"context":[]}`, nil, -32602},
		"no header of the uri":        {`"resources/read","params":{"uri":"a:b",` + meta + `}`, modern("resources/read"), -32020},
		"another uri in it":           {`"resources/read","params":{"uri":"a:b",` + meta + `}`, modern("resources/read", "Mcp-Name", "a:c"), -32020},
		"another prompt in it":        {`"prompts/get","params":{"name":"a",` + meta + `}`, modern("prompts/get", "Mcp-Name", "b"), -32020},
	} {
		_, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":`+c.body+`}`, c.header...)
		if gjson.Get(body, "error.code").Int() != c.code {
			t.Errorf("%s: %s, want %d", name, body, c.code)
		}
	}
	if len(s.queries) > 0 {
		t.Errorf("asked %+v", s.queries)
	}
	s.query = func(*toolcall.Query) (toolcall.Answer, error) { return toolcall.Answer{}, toolcall.ErrAmbiguous }
	_, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`)
	if got := gjson.Get(body, "error"); got.Get("code").Int() != -31409 || got.Get("data.reason").Str != "resource_ambiguous" {
		t.Errorf("%s", body)
	}
}

// The official client uses what is beside tools in each revision that it has.
func TestOfficialClientQueries(t *testing.T) {
	for _, version := range append(versions(), "") {
		t.Run("version "+version, func(t *testing.T) {
			server, s, _ := open(t)
			s.features = map[toolserver.Feature]bool{}
			for _, f := range toolserver.Features() {
				s.features[f] = true
			}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1,
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close() }()
			s.offers.Items = []toolcall.Offered{{Name: "a:b", Text: json.RawMessage(`{"uri":"a:b","name":"n"}`)}}
			if list, err := session.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 1 || list.Resources[0].URI != "a:b" {
				t.Errorf("%+v %v", list, err)
			}
			s.offers.Items = []toolcall.Offered{{Name: "a:{b}", Text: json.RawMessage(`{"uriTemplate":"a:{b}","name":"n"}`)}}
			if list, err := session.ListResourceTemplates(t.Context(), nil); err != nil || len(list.ResourceTemplates) != 1 {
				t.Errorf("%+v %v", list, err)
			}
			s.offers.Items = []toolcall.Offered{{Name: "fs__p", Text: json.RawMessage(`{"name":"p"}`)}}
			if list, err := session.ListPrompts(t.Context(), nil); err != nil || len(list.Prompts) != 1 || list.Prompts[0].Name != "fs__p" {
				t.Errorf("%+v %v", list, err)
			}
			s.query = func(q *toolcall.Query) (toolcall.Answer, error) {
				return answerOf(map[string]string{
					wire.MethodReadResource: `{"contents":[{"uri":"a:b","text":"t"}]}`,
					wire.MethodGetPrompt:    `{"messages":[{"role":"user","content":{"type":"text","text":"t"}}]}`,
					wire.MethodComplete:     `{"completion":{"values":["v"]}}`,
				}[q.Method]), nil
			}
			if got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "a:b"}); err != nil || got.Contents[0].Text != "t" {
				t.Errorf("%+v %v", got, err)
			}
			if got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "fs__p"}); err != nil || len(got.Messages) != 1 {
				t.Errorf("%+v %v", got, err)
			}
			got, err := session.Complete(t.Context(), &mcp.CompleteParams{
				Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "fs__p"}, Argument: mcp.CompleteParamsArgument{Name: "a", Value: ""},
			})
			if err != nil || len(got.Completion.Values) != 1 {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
}
