package toolcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

const taskQuestion = `{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`

// What a task asks for is screened for its caller, and the caller's answers are checked by what was asked.
func TestTaskInputs(t *testing.T) {
	c, w := working(t)
	id := becomesTask(t, c)
	w.tasks.answer = func(q *upstream.TaskQuery) (*task.Task, error) {
		if q.Method != wire.MethodGetTask {
			return nil, nil
		}
		return taskOf(t, "input_required", `,"inputRequests":{"a":`+taskQuestion+`,"roots":{"method":"roots/list"},`+
			`"page":{"method":"elicitation/create","params":{"mode":"url","message":"Open","url":"https://evil.example"}},`+
			`"loop":{"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","$ref":"#"}}}}`), nil
	}
	answer, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
	asked := gjson.GetBytes(answer.Text, "inputRequests")
	if err != nil || asked.Get("a.params.message").Str != "files: Who?" || asked.Get("roots").Exists() || asked.Get("page").Exists() {
		t.Errorf("%s, %v", answer.Text, err)
	}
	for given, want := range map[string]string{
		`{"a":{"action":"accept","content":{"name":"ann","x":1},"y":2}}`: "-",
		`{"a":{"action":"accept","content":{"name":7}}}`:                 "-",
		`{"a":{"action":"maybe"}}`:                                       "-",
		`{"a":{"action":"accept","content":{"name":"ann"},"y":2}}`:       `{"a":{"action":"accept","content":{"name":"ann"}}}`,
		`{"b":{},"a":{"action":"decline"},"roots":{"roots":[]}}`:         `{"a":{"action":"decline"}}`,
		`{"b":{"action":"accept"}}`:                                      "",
		`{}`:                                                             "",
	} {
		w.tasks.queries = nil
		r := taskRequest(wire.MethodUpdateTask, id)
		r.Client.Inputs = json.RawMessage(given)
		_, err := c.Task(t.Context(), r)
		if want == "-" {
			if shown := apierr.From(err); err == nil || !strings.HasPrefix(shown.Text, "params.inputResponses.a") || len(w.tasks.queries) != 1 {
				t.Errorf("%s: %v, sent %d", given, err, len(w.tasks.queries))
			}
			continue
		}
		sent := ""
		if last := w.tasks.queries[len(w.tasks.queries)-1]; last.Method == wire.MethodUpdateTask {
			sent = string(last.Inputs)
		}
		if err != nil || sent != want {
			t.Errorf("%s: %v, sent %s, want %s", given, err, sent, want)
		}
	}
	w.tasks.answer = func(*upstream.TaskQuery) (*task.Task, error) {
		return taskOf(t, "input_required", `,"inputRequests":{"a":{"method":"tools/call"}}`), nil
	}
	_, err = c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
	wants(t, err, ReasonInputRefused)
}

// Samplings of a task are for its caller alone, where the policy leaves them to callers.
func TestTaskSamplings(t *testing.T) {
	c, w := working(t)
	id := becomesTask(t, c)
	w.tasks.answer = func(*upstream.TaskQuery) (*task.Task, error) {
		return taskOf(t, "input_required", `,"inputRequests":{"s":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}`), nil
	}
	for by, want := range map[toolrule.SamplingBy]bool{toolrule.SamplingByClient: true, toolrule.SamplingByGateway: false, toolrule.SamplingRefused: false} {
		w.settings.Sampling = []toolrule.SamplingRule{{Sampling: toolrule.Sampling{By: by}}}
		w.tasks.queries = nil
		answer, err := c.Task(t.Context(), taskRequest(wire.MethodGetTask, id))
		if err != nil || gjson.GetBytes(answer.Text, "inputRequests.s").Exists() != want || strings.Contains(string(w.tasks.queries[0].Capabilities), "sampling") != want {
			t.Errorf("%s: %s, %v, shown %s", by, answer.Text, err, w.tasks.queries[0].Capabilities)
		}
	}
}
