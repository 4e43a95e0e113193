package toolserver

import (
	"encoding/json"
	"time"
)

// fixturesPath is where the tools of fixtures are.
const fixturesPath = "/tasks"

// toolsAt returns the tools of a path.
func toolsAt(path string) []tool {
	if path == fixturesPath {
		return fixtures
	}
	return tools
}

// fixtures are the tools that the protocol's conformance suite calls in its scenarios of tasks.
var fixtures = []tool{
	{"greet", "Greets, at once.", `{"name":{"type":"string"}}`, func(x *execution) { x.text("Hello, " + x.args.Name + "!") }},
	{"slow_compute", "Computes for some seconds, in a task.", `{"seconds":{"type":"number"},"label":{"type":"string"}}`, func(x *execution) {
		x.task(task{wait: time.Duration(x.args.Seconds * float64(time.Second)), text: "computed"}, false)
	}},
	{"failing_job", "Fails as a tool, in a task.", `{}`, func(x *execution) { x.task(task{wait: time.Second, text: "failed", fails: true}, true) }},
	{"protocol_error_job", "Fails with an error of the protocol, in a task.", `{}`, func(x *execution) {
		x.task(task{failure: map[string]any{"code": -32603, "message": "the job broke"}}, false)
	}},
	{"confirm_delete", "Asks whether to delete, in a task.", `{"filename":{"type":"string"}}`, func(x *execution) {
		x.task(task{asks: map[string]any{"confirm": askFor("Delete "+x.args.Filename+"?", map[string]string{"confirm": "boolean"})}, text: "confirmed"}, false)
	}},
	{"multi_input", "Asks twice at once, in a task.", `{}`, func(x *execution) {
		both := map[string]string{"name": "string", "confirm": "boolean"}
		x.task(task{asks: map[string]any{"first": askFor("First?", both), "second": askFor("Second?", both)}, text: "got both"}, false)
	}},
	{"test_tool_with_task", "Asks for a name, then goes on as a task.", `{}`, (*execution).askThenWork},
}

// askThenWork requires input before it becomes a task.
func (x *execution) askThenWork() {
	var given map[string]struct {
		Content struct {
			Name string `json:"name"`
		} `json:"content"`
	}
	_ = json.Unmarshal(x.m.Params.InputResponses, &given)
	if name, ok := given["user_name"]; ok {
		x.task(task{text: "worked for " + name.Content.Name}, true)
		return
	}
	x.result(map[string]any{
		"resultType": "input_required", "requestState": state, "inputRequests": map[string]any{"user_name": askFor("Your name?", map[string]string{"name": "string"})},
	})
}
