package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/toolserver"
)

// taskRequest is a request of a client that takes tasks.
func taskRequest(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
}

// taskState is what a test reads of a task.
type taskState struct {
	ResultType, TaskID, Status string
	InputRequests              map[string]any
	Result                     struct{ Content []struct{ Text string } }
}

func askTask(t *testing.T, fake http.Handler, method, name, params string) (state taskState, text string) {
	t.Helper()
	text = fakestest.Send(t, fake, http.MethodPost, "/mcp", taskRequest(method, params), map[string]string{
		"Accept": accept, "Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	}).Body.String()
	var answer struct{ Result taskState }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Result, text
}

func TestTasks(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	if got := call(t, fake, "work", `{"wait_ms":1}`); !strings.Contains(got, "worked at once") {
		t.Errorf("without tasks: %s", got)
	}
	if got := call(t, fake, "work", `{"only":true}`); !strings.Contains(got, `"code":-32021`) {
		t.Errorf("without tasks: %s", got)
	}
	begin := func(arguments string) string {
		t.Helper()
		made, text := askTask(t, fake, "tools/call", "work", `"name":"work","arguments":`+arguments)
		if made.ResultType != "task" || made.TaskID == "" {
			t.Fatal(text)
		}
		return made.TaskID
	}
	about := func(method, id, more string) (taskState, string) {
		t.Helper()
		return askTask(t, fake, method, id, fmt.Sprintf(`"taskId":%q%s`, id, more))
	}
	done := begin(`{}`)
	if got, text := about("tasks/get", done, ""); got.Status != "completed" || got.Result.Content[0].Text != "worked" {
		t.Error(text)
	}
	stopped := begin(`{"wait_ms":60000}`)
	if got, text := about("tasks/get", stopped, ""); got.Status != "working" || got.TaskID != stopped {
		t.Error(text)
	}
	about("tasks/cancel", stopped, "")
	if got, text := about("tasks/get", stopped, ""); got.Status != "cancelled" {
		t.Error(text)
	}
	asks := begin(`{"ask":true}`)
	if got, text := about("tasks/get", asks, ""); got.Status != "input_required" || got.InputRequests["name"] == nil {
		t.Error(text)
	}
	about("tasks/update", asks, `,"inputResponses":{"name":{"action":"decline"}}`)
	if got, text := about("tasks/get", asks, ""); got.Result.Content[0].Text != `worked with {"name":{"action":"decline"}}` {
		t.Error(text)
	}
	if _, text := about("tasks/get", "none", ""); !strings.Contains(text, "-32602") {
		t.Error(text)
	}
	if _, text := askTask(t, fake, "tasks/get", "another", fmt.Sprintf(`"taskId":%q`, done)); !strings.Contains(text, "-32020") {
		t.Error(text)
	}
	if got := modern(t, fake, "tasks/get", fmt.Sprintf(`"taskId":%q,`, done), map[string]string{"Mcp-Name": done}).Body.String(); !strings.Contains(got, "-32021") {
		t.Error(got)
	}
}

// A client that listens is notified of each change of a status.
func TestTaskNotices(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	made, _ := askTask(t, fake, "tools/call", "work", `"name":"work","arguments":{"wait_ms":50}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(taskRequest("subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q,"none"]}`, made.TaskID))))
	for name, value := range map[string]string{"Accept": accept, "Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	fake.ServeHTTP(w, r)
	if got := w.Body.String(); !strings.Contains(got, fmt.Sprintf(`"taskIds":[%q]`, made.TaskID)) || !strings.Contains(got, `"status":"completed"`) {
		t.Error(got)
	}
}
