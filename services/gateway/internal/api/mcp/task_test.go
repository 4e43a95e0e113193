package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

func (s *tools) Task(_ context.Context, r *toolcall.TaskRequest) (toolcall.Answer, error) {
	s.tasks = append(s.tasks, r)
	return s.task(r)
}

func (s *tools) FollowTasks(
	_ context.Context, _ *toolcall.Asker, client toolcall.Client, server string, ids []string, meta json.RawMessage,
) ([]toolcall.FollowedTasks, error) {
	s.followed = append(s.followed, fmt.Sprint(client.Tasks, server, ids, string(meta)))
	return s.taskFollows, s.err
}

// taskMeta is the _meta of a caller that takes tasks.
const taskMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func ofTask(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
}

// Requests about tasks follow the rules of the extension, and are served where a server offers tasks.
func TestTasks(t *testing.T) {
	server, s, _ := open(t)
	s.task = func(*toolcall.TaskRequest) (toolcall.Answer, error) {
		return answerOf(`{"resultType":"complete","taskId":"ours"}`), nil
	}
	get, update := wire.MethodGetTask, wire.MethodUpdateTask
	const id = `"taskId":"=ö",`
	name := []string{"Mcp-Name", wire.EncodeHeader("=ö")}
	for what, c := range map[string]struct {
		method, params string
		headers        []string
		features       bool
		status         int
		code           int64
	}{
		"get":                  {get, id + taskMeta, name, true, 200, 0},
		"cancel":               {wire.MethodCancelTask, id + taskMeta, name, true, 200, 0},
		"update":               {update, id + `"inputResponses":{"a":{}},` + taskMeta, name, true, 200, 0},
		"no answers":           {update, id + taskMeta, name, true, 400, -32602},
		"a list of answers":    {update, id + `"inputResponses":[],` + taskMeta, name, true, 400, -32602},
		"no id":                {get, taskMeta, nil, true, 400, -32602},
		"an empty id":          {get, `"taskId":"",` + taskMeta, nil, true, 400, -32602},
		"an id of a number":    {get, `"taskId":7,` + taskMeta, nil, true, 400, -32602},
		"another name":         {get, id + taskMeta, []string{"Mcp-Name", "other"}, true, 400, -32020},
		"no name":              {get, id + taskMeta, nil, true, 400, -32020},
		"undeclared":           {get, id + meta, name, true, 400, -32021},
		"declared by a number": {get, id + strings.Replace(taskMeta, `tasks":{}`, `tasks":1`, 1), name, true, 400, -32021},
		"none are offered":     {get, id + taskMeta, name, false, 404, -32601},
		"results":              {"tasks/result", id + taskMeta, name, true, 404, -32601},
		"a list":               {"tasks/list", taskMeta, nil, true, 404, -32601},
	} {
		s.tasks, s.features = nil, map[toolserver.Feature]bool{toolserver.FeatureTasks: c.features}
		status, body, _ := post(t, server.URL+"/mcp", ofTask(c.method, c.params), modern(c.method, c.headers...)...)
		if status != c.status || gjson.Get(body, "error.code").Int() != c.code || (len(s.tasks) == 1) != (c.code == 0) {
			t.Errorf("%s: %d %s", what, status, body)
			continue
		}
		if c.code == 0 && (s.tasks[0].Method != c.method || s.tasks[0].ID != "=ö" || !s.tasks[0].Client.Tasks || s.tasks[0].Organization != "acme" || gjson.Get(body, "result.taskId").Str != "ours") {
			t.Errorf("%s: %+v, %s", what, s.tasks[0], body)
		}
		if c.code == -32021 && !gjson.Get(body, `error.data.requiredCapabilities.extensions.io\.modelcontextprotocol/tasks`).Exists() {
			t.Errorf("%s: %s", what, body)
		}
	}
	s.task = func(*toolcall.TaskRequest) (toolcall.Answer, error) {
		return toolcall.Answer{}, toolcall.ErrTaskUnknown
	}
	status, body, _ := post(t, server.URL+"/mcp", ofTask(get, id+taskMeta), modern(get, name...)...)
	if status != 400 || gjson.Get(body, "error.code").Int() != -32602 {
		t.Errorf("unknown: %d %s", status, body)
	}
	if _, body, _ := post(t, server.URL+"/mcp", ofTask(get, `"taskId":"a"`)); gjson.Get(body, "error.code").Int() != -32601 {
		t.Errorf("in an older revision: %s", body)
	}
}

// Whether a caller takes tasks is in each of its calls. The older form, in which a caller asks for a task, is none.
func TestCallsForTasks(t *testing.T) {
	server, s, _ := open(t)
	s.list.Tools[0].Definition = json.RawMessage(`{"name":"read","inputSchema":{}}`)
	s.call = func(context.Context, *toolcall.Request) (toolcall.Answer, error) {
		return answerOf(`{"resultType":"task","taskId":"ours"}`), nil
	}
	for what, c := range map[string]struct {
		params string
		era    []string
		want   bool
	}{
		"declared":           {taskMeta, modern("tools/call", "Mcp-Name", "fs__read"), true},
		"undeclared":         {meta, modern("tools/call", "Mcp-Name", "fs__read"), false},
		"the older form":     {`"task":{"ttl":1},` + meta, modern("tools/call", "Mcp-Name", "fs__read"), false},
		"an older revision":  {`"task":{"ttl":1},"arguments":{}`, nil, false},
		"an older extension": {`"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`, nil, false},
	} {
		s.calls = nil
		status, body, _ := post(t, server.URL+"/mcp", ofTask("tools/call", `"name":"fs__read",`+c.params), c.era...)
		if status != 200 || len(s.calls) != 1 || s.calls[0].Client.Tasks != c.want || gjson.Get(body, "result.resultType").Str != "task" {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
}

// Tasks are followed beside other notices, by callers that declare them.
func TestFollowsTasks(t *testing.T) {
	server, s, h := open(t)
	n := newNotices()
	h.Notices, s.features = n, map[toolserver.Feature]bool{toolserver.FeatureTasks: true}
	listenTasks := func(ids, meta string) string {
		return `{"jsonrpc":"2.0","id":"l1","method":"subscriptions/listen","params":{"notifications":{"taskIds":` + ids + `},` + meta + `}}`
	}
	for what, c := range map[string]struct {
		body string
		code int64
	}{
		"undeclared":  {listenTasks(`["a"]`, meta), -32021},
		"no list":     {listenTasks(`"a"`, taskMeta), -32602},
		"a number":    {listenTasks(`["a",1]`, taskMeta), -32602},
		"a long id":   {listenTasks(`["`+strings.Repeat("a", task.MaxHandle+1)+`"]`, taskMeta), -32602},
		"an empty id": {listenTasks(`[""]`, taskMeta), -32602},
		"too many":    {listenTasks(`["a"`+uris(50)+`]`, taskMeta), -32602},
	} {
		if status, body, _ := post(t, server.URL+"/mcp", c.body, modern("subscriptions/listen")...); status != 400 || gjson.Get(body, "error.code").Int() != c.code {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	said, left := make(chan struct{}), make(chan struct{})
	s.taskFollows = []toolcall.FollowedTasks{
		{Run: func(ctx context.Context, begun func([]string), changed func(string, json.RawMessage)) {
			begun([]string{"t1"})
			changed("t1", json.RawMessage("{\"taskId\":\"t1\",\n\"status\":\"working\"}"))
			changed("t2", json.RawMessage(`{"taskId":"t2"}`)) // Not acknowledged.
			close(said)
			<-ctx.Done()
			close(left)
		}},
		{Run: func(_ context.Context, begun func([]string), _ func(string, json.RawMessage)) { begun(nil) }},
	}
	go func() {
		<-n.asked
		<-said
		close(n.goOn)
	}()
	status, answer, _ := post(t, server.URL+"/mcp", listenTasks(`["t1","t2","t1"]`, taskMeta), modern("subscriptions/listen")...)
	var got []gjson.Result
	for line := range strings.Lines(answer) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			got = append(got, gjson.Parse(text))
		}
	}
	if status != 200 || len(got) != 3 || got[0].Get("params.notifications.taskIds").Raw != `["t1"]` ||
		got[1].Get("method").Str != "notifications/tasks" || got[1].Get("params.status").Str != "working" || !got[2].Get("result").Exists() {
		t.Fatalf("%d %s", status, answer)
	}
	<-left
	if want := `true[t1 t2]{"io.modelcontextprotocol/subscriptionId":"l1"}`; strings.Join(s.followed, "; ") != want {
		t.Errorf("asked for %v, want %s", s.followed, want)
	}
	s.features = nil
	if _, answer, _ = post(t, server.URL+"/mcp", listenTasks(`["t1"]`, taskMeta), modern("subscriptions/listen")...); !strings.Contains(answer, `"notifications":{}`) || len(s.followed) != 1 {
		t.Errorf("none are offered: %s, %v", answer, s.followed)
	}
}
