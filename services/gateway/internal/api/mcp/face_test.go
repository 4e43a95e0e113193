package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// Each request that breaks a rule of the protocol has a status, a code, and the id of the request where it has one.
func TestRules(t *testing.T) {
	server, s, _ := open(t)
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs__read","arguments":{%s},` + meta + `}}`
	const id, none = "7", ""
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    int64
		id      string
	}{
		"no JSON":                                {`{`, nil, 400, -32700, none},
		"a duplicate":                            {`{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}`, nil, 400, -32600, none},
		"a batch":                                {`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, nil, 400, -32600, none},
		"no version":                             {`{"id":7,"method":"ping"}`, nil, 400, -32600, none},
		"too deep":                               {`{"jsonrpc":"2.0","id":7,"method":"ping","params":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat("}", 70) + `}`, nil, 400, -32600, none},
		"another media type":                     {list, []string{"Content-Type", "text/plain"}, 415, -32600, none},
		"no streams accepted":                    {list, []string{"Accept", "application/json"}, 406, -32600, none},
		"too large":                              {`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"` + strings.Repeat("x", maxBody) + `"}}`, nil, 413, -32600, none},
		"no header of the version":               {list, []string{"Mcp-Method", "tools/list"}, 400, -32020, id},
		"another version in it":                  {list, []string{"Mcp-Method", "tools/list", "Mcp-Protocol-Version", "2025-11-25"}, 400, -32020, id},
		"no header of the method":                {list, modern(""), 400, -32020, id},
		"another case of the method":             {list, modern("Tools/List"), 400, -32020, id},
		"an unknown version":                     {strings.ReplaceAll(list, wire.Modern, "2031-01-01"), []string{"Mcp-Method", "tools/list", "Mcp-Protocol-Version", "2031-01-01"}, 400, -32022, id},
		"an unknown version in the header alone": {`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, []string{"Mcp-Protocol-Version", "2031-01-01"}, 400, -32022, id},
		"no _meta":                               {`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, modern("tools/list"), 400, -32602, id},
		"no capabilities":                        {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, modern("tools/list"), 400, -32602, id},
		"_meta is no object":                     {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":[]}}`, modern("tools/list"), 400, -32602, id},
		"discover without all":                   {`{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, nil, 400, -32602, id},
		"a removed method":                       {`{"jsonrpc":"2.0","id":7,"method":"ping","params":{` + meta + `}}`, modern("ping"), 404, -32601, id},
		"a handshake":                            {`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{` + meta + `}}`, modern("initialize"), 404, -32601, id},
		"subscriptions to nothing":               {`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{` + meta + `}}`, modern("subscriptions/listen"), 400, -32602, id},
		"a subscription that is no boolean":      {`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":1},` + meta + `}}`, modern("subscriptions/listen"), 400, -32602, id},
		"subscriptions to no URIs":               {`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a b"]},` + meta + `}}`, modern("subscriptions/listen"), 400, -32602, id},
		"too many subscriptions":                 {`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[` + strings.TrimSuffix(strings.Repeat(`"a:b",`, 5), ",") + uris(51) + `]},` + meta + `}}`, modern("subscriptions/listen"), 400, -32602, id},
		"an old subscription":                    {`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{}}}`, nil, 200, -32601, id},
		"a response":                             {`{"jsonrpc":"2.0","id":7,"result":{}}`, modern(""), 400, -32600, none},
		"no header of the name":                  {fmt.Sprintf(call, ""), modern("tools/call"), 400, -32020, id},
		"another name":                           {fmt.Sprintf(call, ""), modern("tools/call", "Mcp-Name", "fs__write"), 400, -32020, id},
		"a name in bad base64":                   {fmt.Sprintf(call, ""), modern("tools/call", "Mcp-Name", "=?base64?***?="), 400, -32020, id},
		"a mirrored argument is missing":         {fmt.Sprintf(call, `"region":"us"`), modern("tools/call", "Mcp-Name", "fs__read"), 400, -32020, id},
		"a mirrored argument differs":            {fmt.Sprintf(call, `"region":"us"`), modern("tools/call", "Mcp-Name", "fs__read", "Mcp-Param-Region", "eu"), 400, -32020, id},
		"a header without its argument":          {fmt.Sprintf(call, ""), modern("tools/call", "Mcp-Name", "fs__read", "Mcp-Param-Region", "eu"), 400, -32020, id},
		"no name":                                {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + meta + `}}`, modern("tools/call"), 400, -32602, id},
		"an empty name":                          {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"",` + meta + `}}`, modern("tools/call"), 400, -32602, id},
		"arguments are no object":                {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":[],` + meta + `}}`, modern("tools/call", "Mcp-Name", "a"), 400, -32602, id},
		"a cursor of nothing":                    {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"bm8",` + meta + `}}`, modern("tools/list"), 400, -32602, id},
		"an empty cursor":                        {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"",` + meta + `}}`, modern("tools/list"), 400, -32602, id},
		"a level of log messages that is none":   {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + strings.Replace(meta, "{}", `{},"io.modelcontextprotocol/logLevel":"loud"`, 1) + `}}`, modern("tools/list"), 400, -32602, id},
		"a token that is a list":                 {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + strings.Replace(meta, "{}", `{},"progressToken":[]`, 1) + `}}`, modern("tools/list"), 400, -32602, id},
		"an old unknown method":                  {`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, []string{"Mcp-Protocol-Version", "2025-06-18"}, 200, -32601, id},
		"an old call without a name":             {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`, nil, 200, -32602, id},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, header := post(t, server.URL+"/mcp", c.body, c.headers...)
			got := gjson.Parse(body)
			if status != c.status || got.Get("error.code").Int() != c.code || got.Get("id").Raw != c.id || got.Get("jsonrpc").Str != "2.0" ||
				got.Get("error.message").Str == "" || header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s, want %d with code %d and id %q", status, body, c.status, c.code, c.id)
			}
		})
	}
	if len(s.calls) > 0 || len(s.asked) > 0 {
		t.Errorf("called %v, listed %v", s.calls, s.asked)
	}
	_, body, _ := post(t, server.URL+"/mcp", strings.ReplaceAll(list, wire.Modern, "2031-01-01"), "Mcp-Method", "tools/list", "Mcp-Protocol-Version", "2031-01-01")
	if got := gjson.Get(body, "error.data"); got.Get("requested").Str != "2031-01-01" || got.Get("supported.0").Str != wire.Modern || len(got.Get("supported").Array()) != 4 {
		t.Errorf("data %s", got.Raw)
	}
}

func TestPathsAndPages(t *testing.T) {
	server, s, h := open(t)
	list := `{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{` + meta + `}}`
	status, body, _ := post(t, server.URL+"/mcp/other", list, modern("tools/list")...)
	if got := gjson.Parse(body); status != 404 || got.Get("error.code").Int() != -31404 || got.Get("error.data.reason").Str != "not_found" || got.Get("id").Str != "a" {
		t.Errorf("an unknown server: %d %s", status, body)
	}
	if status, body, _ = post(t, server.URL+"/mcp/files", list, modern("tools/list")...); status != 200 || len(s.asked) != 1 || s.asked[0] != "files" {
		t.Errorf("%d %s, listed %v", status, body, s.asked)
	}
	for origin, want := range map[string]int{"https://console.example": 200, "https://evil.example": 403, "null": 403} {
		if status, body, _ := post(t, server.URL+"/mcp", list, modern("tools/list", "Origin", origin)...); status != want {
			t.Errorf("from %s: %d %s", origin, status, body)
		}
	}
	h.Hosts = []string{"gateway.example"}
	if status, body, _ := post(t, server.URL+"/mcp", list, modern("tools/list")...); status != 403 {
		t.Errorf("to another host: %d %s", status, body)
	}
	h.Asker = func(context.Context) (toolcall.Asker, error) {
		return toolcall.Asker{}, apierr.Invalid("organization_id", "is required")
	}
	h.Hosts = nil
	if status, _, _ := post(t, server.URL+"/mcp", list, modern("tools/list")...); status != 400 {
		t.Errorf("without an identity: %d", status)
	}
}

func TestDiscover(t *testing.T) {
	server, _, _ := open(t)
	status, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`, modern("server/discover")...)
	want := `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{`
	if result := gjson.Get(body, "result").Raw; status != 200 || !strings.HasPrefix(result, want) {
		t.Errorf("%d %s", status, body)
	}
}

func TestHandshake(t *testing.T) {
	server, _, _ := open(t)
	for wanted, want := range map[string]string{"2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2025-11-25", "2026-07-28": "2025-11-25"} {
		status, body, header := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+wanted+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		got := gjson.Get(body, "result")
		if status != 200 || got.Get("protocolVersion").Str != want || got.Get("capabilities").Raw != `{"tools":{}}` || got.Get("serverInfo.name").Str == "" || header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: %d %s %v", wanted, status, body, header)
		}
	}
	for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/x","params":{` + meta + `}}`} {
		if status, answer, _ := post(t, server.URL+"/mcp", body); status != 202 || answer != "" {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if _, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Protocol-Version", "2025-11-25"); body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("ping: %s", body)
	}
}

func TestList(t *testing.T) {
	server, s, _ := open(t)
	s.list.Unavailable = []string{"slow"}
	_, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, modern("tools/list")...)
	tool := `{"name":"fs__read","title":"\u0041","inputSchema":` + schema + `,"x":{"y":1}}`
	want := `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + tool + `],"_meta":{"dev.switchyard/unavailable":["slow"]}}`
	if result := gjson.Get(body, "result").Raw; result != want {
		t.Errorf("%s\nwant %s", result, want)
	}
	_, body, _ = post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	want = `{"tools":[` + tool + `],"_meta":{"dev.switchyard/unavailable":["slow"]}}`
	if result := gjson.Get(body, "result").Raw; result != want {
		t.Errorf("old: %s\nwant %s", result, want)
	}
	s.list = toolcall.List{}
	if _, body, _ = post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); gjson.Get(body, "result").Raw != `{"tools":[]}` {
		t.Errorf("none: %s", body)
	}
	s.err = run.ErrRevoked
	status, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, modern("tools/list")...)
	if got := gjson.Get(body, "error"); status != 200 || got.Get("code").Int() != -31403 || got.Get("data.reason").Str != "run_revoked" {
		t.Errorf("refused: %d %s", status, body)
	}
}

// Pages hold every tool once, in order, also when the list changes in between.
func TestPages(t *testing.T) {
	server, s, _ := open(t)
	s.list = toolcall.List{}
	for i := range 1203 {
		s.list.Tools = append(s.list.Tools, toolcall.Tool{Name: fmt.Sprintf("t%05d", i), Definition: json.RawMessage(`{"name":"x"}`)})
	}
	var names []string
	cursor, pages := "", 0
	for ; pages < 10; pages++ {
		params := `{` + cursor + meta + `}`
		_, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`, modern("tools/list")...)
		for _, name := range gjson.Get(body, "result.tools.#.name").Array() {
			names = append(names, name.Str)
		}
		next := gjson.Get(body, "result.nextCursor").Str
		if next == "" {
			break
		}
		cursor = `"cursor":"` + next + `",`
		s.list.Tools = append(s.list.Tools[:499:499], s.list.Tools[500:]...) // The last of the page goes.
	}
	if pages != 2 || len(names) != 1203 || names[500] != "t00500" {
		t.Errorf("%d pages, %d names", pages, len(names))
	}
	large := make([]toolcall.Tool, 40)
	for i := range large {
		large[i] = toolcall.Tool{Name: fmt.Sprint(i), Definition: make([]byte, 64<<10)}
	}
	if page, more := pageAfter(large, "", textOfTool); len(page) != 16 || !more {
		t.Errorf("%d large tools on a page, more %t", len(page), more)
	}
}

func TestCall(t *testing.T) {
	server, s, _ := open(t)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__read","arguments":{"region":"zürich","n":7},` + meta + `}}`
	headers := modern("tools/call", "Mcp-Name", "=?base64?ZnNfX3JlYWQ=?=", "Mcp-Param-Region", wire.EncodeHeader("zürich"), "Mcp-Param-N", "07")
	status, answer, header := post(t, server.URL+"/mcp", body, headers...)
	if want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`; status != 200 || answer != want || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", status, answer)
	}
	r := s.calls[0]
	if r.Tool != (toolcall.Name{Tool: "fs__read"}) || string(r.Arguments) != `{"region":"zürich","n":7}` || r.Organization != "acme" || r.Progress != nil {
		t.Errorf("called %+v", r)
	}
	s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) { return answerOf(` {} `), nil }
	if _, answer, _ = post(t, server.URL+"/mcp", body, headers...); answer != `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"} }` {
		t.Errorf("an empty result: %s", answer)
	}
	_, answer, _ = post(t, server.URL+"/mcp/files", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}`)
	if answer != `{"jsonrpc":"2.0","id":1,"result": {} }` || s.calls[2].Tool != (toolcall.Name{Server: "files", Tool: "read"}) {
		t.Errorf("old: %s %+v", answer, s.calls[2].Tool)
	}
}

// Errors of the gateway have codes of their own and say why; those of a server are passed on.
func TestErrors(t *testing.T) {
	server, s, _ := open(t)
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "too many")
	limited.RetryAfter = 1500 * time.Millisecond
	usedUp := &apierr.Error{Kind: apierr.KindRateLimited, Reason: "quota_exceeded", Class: apierr.ClassPolicy, Text: "used up", RetryAfter: time.Hour}
	for name, c := range map[string]struct {
		err    error
		status int
		want   string
	}{
		"policy":       {definition.ErrChanged, 200, `{"code":-31403,"message":"` + definition.ErrChanged.Text + `","data":{"reason":"definition_changed","error_class":"policy","retryable":false,"request_id":"r1"}}`},
		"limit":        {limited, 200, `{"code":-31429,"message":"too many","data":{"reason":"rate_limited","error_class":"rate_limit","retryable":true,"request_id":"r1","retry_after_ms":1500}}`},
		"a plan":       {usedUp, 200, `{"code":-31429,"message":"used up","data":{"reason":"quota_exceeded","error_class":"policy","retryable":false,"request_id":"r1","retry_after_ms":3600000}}`},
		"arguments":    {apierr.Invalid("params.arguments/a", "must not"), 400, `{"code":-32602,"message":"params.arguments/a: must not","data":{"reason":"invalid_request","error_class":"policy","retryable":false,"request_id":"r1","field":"params.arguments/a"}}`},
		"a bug":        {errors.New("secret"), 200, `{"code":-32603,"message":"internal error; quote the request id to support","data":{"reason":"internal","error_class":"server_error","retryable":true,"request_id":"r1"}}`},
		"the server's": {&wire.Error{Code: -32602, Message: "Unknown <tool>", Data: json.RawMessage(`{"a":1}`)}, 200, `{"code":-32602,"message":"Unknown <tool>"}`},
		"its own code": {&wire.Error{Code: 42, Message: "x"}, 200, `{"code":42,"message":"x"}`},
		"of transport": {&wire.Error{Code: -32020, Message: "header"}, 200, `{"code":-32603,"message":"header"}`},
		"a long text":  {&wire.Error{Code: 1, Message: strings.Repeat("ü", 4096)}, 200, `{"code":1,"message":"` + strings.Repeat("ü", 2048) + `"}`},
	} {
		s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) { return toolcall.Answer{}, c.err }
		status, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",`+meta+`}}`, modern("tools/call", "Mcp-Name", "a")...)
		if got := gjson.Get(body, "error").Raw; status != c.status || got != c.want {
			t.Errorf("%s: %d %s, want %d %s", name, status, got, c.status, c.want)
		}
		if status, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`); status != 200 || gjson.Get(body, "error").Raw != c.want {
			t.Errorf("%s, old: %d %s", name, status, body)
		}
	}
	text, err := json.Marshal(ErrorBody(apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "who"), "r9"))
	if want := `{"jsonrpc":"2.0","error":{"code":-31401,"message":"who","data":{"reason":"unauthenticated","error_class":"auth","retryable":false,"request_id":"r9"}}}`; err != nil || string(text) != want {
		t.Errorf("before it is read: %s %v", text, err)
	}
}

// Progress makes the response a stream, whose last event is the answer in one line.
func TestProgress(t *testing.T) {
	server, s, _ := open(t)
	s.call = func(_ context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		r.Progress(upstream.Progress{Progress: 0.5, Total: 2, Message: "half\nway"})
		r.Progress(upstream.Progress{Progress: 0.6})
		return answerOf("{\r\n \"content\": []\n}"), nil
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + strings.Replace(meta, "{}", `{},"progressToken":"t"`, 1) + `}}`
	status, answer, header := post(t, server.URL+"/mcp", body, modern("tools/call", "Mcp-Name", "a")...)
	want := "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.5,"total":2,"message":"half\nway"}}` +
		"\n\nevent: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.6}}` +
		"\n\nevent: message\ndata: " + `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}` + "\n\n"
	if status != 200 || answer != want || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %q\nwant %q", status, answer, want)
	}
	s.call = func(_ context.Context, r *toolcall.Request) (toolcall.Answer, error) {
		r.Progress(upstream.Progress{Progress: 1})
		return toolcall.Answer{}, toolcall.ErrOutcomeUnknown
	}
	status, answer, _ = post(t, server.URL+"/mcp", body, modern("tools/call", "Mcp-Name", "a")...)
	if _, last, _ := strings.Cut(answer, "\n\n"); status != 200 || gjson.Get(strings.TrimPrefix(last, "event: message\ndata: "), "error.data.reason").Str != "outcome_unknown" {
		t.Errorf("an error: %d %q", status, answer)
	}
}

// An answer that is late becomes a stream, so that nothing on the way gives the connection up.
func TestLateAnswer(t *testing.T) {
	server, s, h := open(t)
	h.patience = time.Millisecond
	begun := make(chan struct{})
	events := h.Events
	h.Events = func(w http.ResponseWriter) Events {
		defer close(begun)
		return events(w)
	}
	s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) {
		<-begun
		return answerOf(`{}`), nil
	}
	_, answer, header := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	if header.Get("Content-Type") != "text/event-stream" || answer != ": wait\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n" {
		t.Errorf("%v %q", header, answer)
	}
}

// A caller that disconnects ends its call.
func TestDisconnect(t *testing.T) {
	server, s, _ := open(t)
	began, ended := make(chan struct{}), make(chan error, 1)
	s.call = func(ctx context.Context, _ *toolcall.Request) (toolcall.Answer, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return toolcall.Answer{}, ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "*/*")
	go func() {
		<-began
		leave()
	}()
	if answer, err := server.Client().Do(r); err == nil {
		_ = answer.Body.Close()
		t.Error("it was answered")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	server.Client().CloseIdleConnections()
}

// A server's demand for a capability reaches the callers that lack it.
func TestMissingCapabilities(t *testing.T) {
	server, s, _ := open(t)
	s.list.Tools[0].Definition = json.RawMessage(`{"name":"read","inputSchema":{}}`)
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs__read",` + meta + `}}`
	for name, c := range map[string]struct {
		data, own string
		status    int
		code      int64
	}{
		"lacks it":           {`{"requiredCapabilities":{"sampling":{}},"x":1}`, `{}`, 400, -32021},
		"has it":             {`{"requiredCapabilities":{"sampling":{}}}`, `{"sampling":{}}`, 200, -32603},
		"has one of two":     {`{"requiredCapabilities":{"sampling":{},"roots":{}}}`, `{"sampling":{}}`, 200, -32603},
		"lacks an extension": {`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`, `{"extensions":{"x/y":{}}}`, 400, -32021},
		"has an extension":   {`{"requiredCapabilities":{"extensions":{"x/y":{}}}}`, `{"extensions":{"x/y":{}}}`, 200, -32603},
		"nothing is named":   {`{"requiredCapabilities":{}}`, `{}`, 200, -32603},
		"of another type":    {`{"requiredCapabilities":["sampling"]}`, `{}`, 200, -32603},
		"without data":       {``, `{}`, 200, -32603},
		"more than is shown": {`{"requiredCapabilities":{"a":"` + strings.Repeat("x", 5000) + `"}}`, `{}`, 200, -32603},
	} {
		s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) {
			return toolcall.Answer{}, &wire.Error{Code: wire.CodeMissingCapability, Message: "needs", Data: json.RawMessage(c.data)}
		}
		body := strings.Replace(call, `Capabilities":{}`, `Capabilities":`+c.own, 1)
		status, body, _ := post(t, server.URL+"/mcp", body, modern("tools/call", "Mcp-Name", "fs__read")...)
		got := gjson.Get(body, "error")
		if status != c.status || got.Get("code").Int() != c.code || got.Get("data").Exists() != (c.code == -32021) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if _, body, _ := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs__read"}}`); gjson.Get(body, "error.code").Int() != -32603 {
		t.Errorf("in an older revision: %s", body)
	}
}

// Some reports of progress may come at once, more are left out.
func TestProgressIsPaced(t *testing.T) {
	var x exchange
	now := time.Now()
	passed := 0
	for range 100 {
		if x.paced(now) {
			passed++
		}
	}
	for range 100 {
		if now = now.Add(progressEvery / 2); x.paced(now) {
			passed++
		}
	}
	if passed != progressBurst+50 {
		t.Errorf("%d passed", passed)
	}
}

// uris returns different URIs, each behind a comma.
func uris(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`,"a:%d"`, i)
	}
	return text
}
