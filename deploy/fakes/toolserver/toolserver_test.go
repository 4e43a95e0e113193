package toolserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/toolserver"
)

const accept = "application/json, text/event-stream"

// modern sends a request of the stateless revision.
func modern(t *testing.T, fake http.Handler, method, params string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	all := map[string]string{"Accept": accept, "Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	maps.Copy(all, header)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"progressToken":7,`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
	return fakestest.Send(t, fake, http.MethodPost, "/mcp", body, all)
}

func call(t *testing.T, fake http.Handler, tool, arguments string) string {
	t.Helper()
	return modern(t, fake, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, arguments), map[string]string{"Mcp-Name": tool}).Body.String()
}

func TestTools(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	for _, tt := range []struct{ tool, arguments, want string }{
		{"echo", `{"text":"hello"}`, `"text":"hello"`},
		{"pay", `{"to":"ada","amount":1.5}`, "paid 1.5 to ada"},
		{"structured", `{}`, `"structuredContent":{"sum":1}`},
		{"fail", `{}`, `"isError":true`},
		{"error", `{}`, `"code":-31999`},
		{"progress", `{"steps":2}`, `"message":"step 2"`},
		{"slow", `{"wait_ms":1}`, "waited"},
		{"large", `{"size":5}`, `"xxxxx"`},
		{"ask", `{}`, `"resultType":"input_required"`},
		{"echo", `{"text":1}`, "arguments are of other types"},
		{"none", `{}`, `"code":-32602`},
	} {
		if got := call(t, fake, tt.tool, tt.arguments); !strings.Contains(got, tt.want) {
			t.Errorf("%s(%s): %s", tt.tool, tt.arguments, got)
		}
	}
	executed := fake.Executed(100)
	if len(executed) != 9 || executed[1].Tool != "pay" || string(executed[1].Arguments) != `{"to":"ada","amount":1.5}` {
		t.Errorf("executed: %+v", executed)
	}
	if got := fakestest.Send(t, fake, http.MethodGet, "/_count?tool=pay", "", nil).Body.String(); !strings.Contains(got, "1") {
		t.Errorf("count: %s", got)
	}
}

func TestOffers(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	for _, tt := range []struct{ method, params, name, want string }{
		{"resources/list", "", "", `"uri":"fake://b"`},
		{"resources/templates/list", "", "", `"uriTemplate":"fake://echo/{text}"`},
		{"resources/read", `"uri":"fake://echo/x",`, "fake://echo/x", `"text":"x"`},
		{"resources/read", `"uri":"file:///x",`, "file:///x", `"code":-32602`},
		{"resources/read", `"uri":"fake://a",`, "", `"code":-32020`},
		{"prompts/list", "", "", `"name":"greet"`},
		{"prompts/get", `"name":"greet","arguments":{"who":"ada"},`, "greet", `ada`},
		{"prompts/get", `"name":"none",`, "none", `"code":-32602`},
		{"completion/complete", `"argument":{"name":"who","value":"a"},`, "", `["aa","ab"]`},
	} {
		if got := modern(t, fake, tt.method, tt.params, map[string]string{"Mcp-Name": tt.name}).Body.String(); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s", tt.method, tt.params, got)
		}
	}
	if executed := fake.Executed(100); len(executed) != 3 || executed[0].Tool != "resources/read fake://echo/x" {
		t.Errorf("executed: %+v", executed)
	}
}

func TestHeadersAreChecked(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	query := `"name":"query","arguments":{"region":"` + "\u00e4" + `"},`
	for name, tt := range map[string]struct {
		header map[string]string
		want   string
	}{
		"all":            {map[string]string{"Mcp-Name": "query", "Mcp-Param-Region": "=?base64?w6Q=?="}, "rows of"},
		"no name":        {map[string]string{"Mcp-Param-Region": "=?base64?w6Q=?="}, "Mcp-Name"},
		"another name":   {map[string]string{"Mcp-Name": "echo", "Mcp-Param-Region": "=?base64?w6Q=?="}, "Mcp-Name"},
		"no argument":    {map[string]string{"Mcp-Name": "query"}, "Mcp-Param-Region"},
		"another method": {map[string]string{"Mcp-Name": "query", "Mcp-Method": "tools/list"}, "Mcp-Method"},
	} {
		if got := modern(t, fake, "tools/call", query, tt.header).Body.String(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if answer := modern(t, fake, "roots/list", "", nil); answer.Code != http.StatusNotFound {
		t.Errorf("an unknown method: %d", answer.Code)
	}
	if answer := fakestest.Send(t, fake, http.MethodPost, "/secured", "{}", map[string]string{"Accept": accept}); answer.Code != http.StatusUnauthorized {
		t.Errorf("without a credential: %d", answer.Code)
	}
	if answer := fakestest.Send(t, fake, http.MethodGet, "/mcp", "", nil); answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", answer.Code)
	}
}

// names returns the names on all pages of the list.
func names(t *testing.T, fake http.Handler) []string {
	t.Helper()
	var all []string
	for cursor := ""; ; {
		var page struct {
			Result struct {
				Tools      []struct{ Name, Description string }
				NextCursor string
			}
		}
		if err := json.Unmarshal(modern(t, fake, "tools/list", fmt.Sprintf(`"cursor":%q,`, cursor), nil).Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, tool := range page.Result.Tools {
			all = append(all, tool.Name+": "+tool.Description)
		}
		if cursor = page.Result.NextCursor; cursor == "" {
			return all
		}
	}
}

func TestDefinitionsChange(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	before := names(t, fake)
	fakestest.Send(t, fake, http.MethodPut, "/_definitions", `{"echo":{"description":"Returns all files."},"pay":null}`, nil)
	after := names(t, fake)
	if len(after) != len(before)-1 || after[0] != "echo: Returns all files." || strings.Contains(strings.Join(after, " "), "pay:") {
		t.Errorf("%v became %v", before, after)
	}
	if got := call(t, fake, "pay", `{}`); !strings.Contains(got, "Unknown tool") {
		t.Errorf("a removed tool: %s", got)
	}
	fakestest.Send(t, fake, http.MethodDelete, "/_definitions", "", nil)
	if again := names(t, fake); strings.Join(again, "") != strings.Join(before, "") {
		t.Errorf("restored: %v", again)
	}
}

func TestSessions(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	send := func(path, body, session string) *httptest.ResponseRecorder {
		return fakestest.Send(t, fake, http.MethodPost, path, body, map[string]string{"Accept": accept, "Mcp-Session-Id": session})
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if answer := send("/modern", initialize, ""); answer.Code != http.StatusBadRequest {
		t.Errorf("initialize of a modern server: %d", answer.Code)
	}
	opened := send("/legacy", initialize, "")
	session := opened.Header().Get("Mcp-Session-Id")
	if session == "" || !strings.Contains(opened.Body.String(), `"protocolVersion":"2025-06-18"`) {
		t.Fatalf("%q, %s", session, opened.Body)
	}
	if answer := send("/legacy", list, session); !strings.Contains(answer.Body.String(), `"nextCursor"`) {
		t.Errorf("list: %s", answer.Body)
	}
	if answer := send("/legacy", list, ""); answer.Code != http.StatusBadRequest {
		t.Errorf("without a session: %d", answer.Code)
	}
	fakestest.Send(t, fake, http.MethodDelete, "/_sessions", "", nil)
	if answer := send("/legacy", list, session); answer.Code != http.StatusNotFound {
		t.Errorf("in an ended session: %d", answer.Code)
	}
}
