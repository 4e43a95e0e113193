//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// Calls become tasks, which are polled through the edge, asked and answered, and cancelled by who made them alone. Any
// replica serves them, also when the one that made them is killed.
func TestToolTasks(t *testing.T) {
	t.Parallel()
	h := plan{name: "tool-tasks", replicas: map[stack.Service]int{stack.Gateway: 2}, fakes: []stack.Fake{stack.FakeTools}}.start(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	listing := h.registerTools(t, organization, "files", 1.5, "tasks")
	gateways[0].post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	gateways[0].post(t, serversPath+"/files/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
	customer := tasker{h.customer(t, organization, "ai", "write"), toolsPath}
	first, second := tasker{gateways[0], "/mcp"}, tasker{gateways[1], "/mcp"}
	for _, c := range []tasker{customer, first, second} {
		waitFor(t, waitTimeout, "the review on every replica", func() error {
			if list := c.ask(t, "tools/list", nil); !list.Get(`result.tools.#(name=="files__work")`).Exists() {
				return fmt.Errorf("%s", list.Raw)
			}
			return nil
		})
	}
	if about := customer.ask(t, "server/discover", nil); !about.Get(`result.capabilities.extensions.io\.modelcontextprotocol/tasks`).Exists() {
		t.Errorf("not advertised: %s", about.Raw)
	}
	customer.finishes(t, customer.work(t, object{"wait_ms": 300}), "worked")
	customer.answers(t)
	customer.listens(t)
	h.tasksOfOthers(t, organization, customer)
	second.recorded(t, 4) // What waits to be stored is lost with its replica.

	made := first.work(t, object{"wait_ms": 2000})
	if err := h.Kill(string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	second.finishes(t, made, "worked")
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	first.finishes(t, made, "worked")
	h.toolRows(t, organization, []string{"completed work", "completed work", "completed work", "completed work", "completed work"})
	second.recorded(t, 5)
}

// tasker is a client that takes tasks, at a path.
type tasker struct {
	client

	at string
}

// message returns a request of a caller that takes tasks, with who makes it.
func (c tasker) message(method string, params object) (client, object) {
	pairs := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Accept", "application/json, text/event-stream"}
	for _, member := range []string{"name", "taskId"} {
		if name, ok := params[member].(string); ok {
			pairs = append(pairs, "Mcp-Name", name)
		}
	}
	all := object{"_meta": object{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": object{
		"elicitation": object{}, "extensions": object{"io.modelcontextprotocol/tasks": object{}},
	}}}
	maps.Copy(all, params)
	return c.with(pairs...), object{"jsonrpc": "2.0", "id": 1, "method": method, "params": all}
}

// ask makes a request, and returns its answer.
func (c tasker) ask(t *testing.T, method string, params object) gjson.Result {
	t.Helper()
	of, message := c.message(method, params)
	return gjson.ParseBytes(of.post(t, c.at, message).body)
}

// work makes a call that becomes a task, and returns the task's id.
func (c tasker) work(t *testing.T, arguments object) (id string) {
	t.Helper()
	made := c.ask(t, "tools/call", object{"name": "files__work", "arguments": arguments})
	if id = made.Get("result.taskId").Str; id == "" || made.Get("result.resultType").Str != "task" {
		t.Fatalf("no task: %s", made.Raw)
	}
	return id
}

// becomes waits until a task has a status, and returns it.
func (c tasker) becomes(t *testing.T, id, status string) (task gjson.Result) {
	t.Helper()
	waitFor(t, waitTimeout, "a task that is "+status, func() error {
		answer := c.ask(t, "tasks/get", object{"taskId": id})
		if task = answer.Get("result"); task.Get("status").Str != status || task.Get("taskId").Str != id {
			return fmt.Errorf("%s", answer.Raw)
		}
		return nil
	})
	return task
}

// finishes waits until a task is completed with a text.
func (c tasker) finishes(t *testing.T, id, text string) {
	t.Helper()
	if task := c.becomes(t, id, "completed"); task.Get("result.content.0.text").Str != text {
		t.Errorf("%s", task.Raw)
	}
}

// answers checks that a task asks its caller, and gets the answer that was given.
func (c tasker) answers(t *testing.T) {
	t.Helper()
	id := c.work(t, object{"ask": true})
	task := c.becomes(t, id, "input_required")
	if asked := task.Get("inputRequests.name"); asked.Get("method").Str != "elicitation/create" || !strings.HasPrefix(asked.Get("params.message").Str, "files: ") {
		t.Errorf("asked %s", task.Raw)
	}
	wrong := c.ask(t, "tasks/update", object{"taskId": id, "inputResponses": object{"name": object{"action": "accept", "content": object{"name": 7}}}})
	if wrong.Get("error.code").Int() != -32602 {
		t.Errorf("an answer of another type: %s", wrong.Raw)
	}
	given := object{"name": object{"action": "accept", "content": object{"name": "ann"}}, "unasked": object{}}
	if done := c.ask(t, "tasks/update", object{"taskId": id, "inputResponses": given}); done.Get("result.resultType").Str != "complete" {
		t.Errorf("%s", done.Raw)
	}
	c.finishes(t, id, `worked with {"name":{"action":"accept","content":{"name":"ann"}}}`)
}

// listens checks that the end of a task is notified.
func (c tasker) listens(t *testing.T) {
	t.Helper()
	id := c.work(t, object{"wait_ms": 1500})
	of, message := c.message("subscriptions/listen", object{"notifications": object{"taskIds": []string{id, "unknown"}}})
	stream := of.stream(t, c.at, message)
	if e, ok := stream.next(t); !ok || gjson.Get(e.data, "params.notifications.taskIds").Raw != `["`+id+`"]` {
		t.Fatalf("%+v", e)
	}
	for {
		e, ok := stream.next(t)
		if !ok {
			t.Fatal("the stream ended before the task")
		}
		if got := gjson.Get(e.data, "params"); got.Get("taskId").Str != id {
			t.Fatalf("%s", e.data)
		} else if got.Get("status").Str == "completed" {
			return
		}
	}
}

// tasksOfOthers checks that a task is its caller's alone, who cancels it.
func (h *harness) tasksOfOthers(t *testing.T, organization string, c tasker) {
	t.Helper()
	id := c.work(t, object{"wait_ms": 60_000})
	for name, other := range map[string]tasker{
		"another key":          {h.customer(t, organization, "ai", "write"), toolsPath},
		"another organization": {h.customer(t, unique("org"), "ai", "write"), toolsPath},
		"another run":          {c.with("X-Run-Id", "run-of-others"), toolsPath},
		"another user":         {h.service(stack.Gateway, organization).with("X-User-Id", "bob"), "/mcp"},
	} {
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			refused := other.ask(t, method, object{"taskId": id})
			if code := refused.Get("error.code").Int(); code != -32602 && code != -32601 { // Others have no server with tasks.
				t.Errorf("%s, %s: %s", name, method, refused.Raw)
			}
		}
	}
	c.becomes(t, id, "working")
	if done := c.ask(t, "tasks/cancel", object{"taskId": id}); done.Get("result.resultType").Str != "complete" {
		t.Errorf("%s", done.Raw)
	}
	c.becomes(t, id, "cancelled")
}

// recorded waits until the ends of so many tasks have a trace each.
func (c tasker) recorded(t *testing.T, ends int) {
	t.Helper()
	waitFor(t, waitTimeout, "the traces of the ends of tasks", func() error {
		a := c.get(t, "/v1/traces?limit=100&operation=tool").want(t, http.StatusOK)
		if calls := gjson.GetBytes(a.body, "traces.#.request.call").Array(); len(calls) != ends {
			return fmt.Errorf("%d ends: %v", len(calls), calls)
		}
		return nil
	})
}
