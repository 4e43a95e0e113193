package task_test

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit/growth"
)

// times are the members that every task has beside its id and its status.
const times = `"createdAt":"2026-11-25T10:30:00Z","lastUpdatedAt":"2026-11-25T10:30:00.5Z"`

// of returns a task of a status with further members.
func of(status, more string) string {
	return `{"resultType":"complete","taskId":"t1","status":"` + status + `",` + times + more + `}`
}

func TestRead(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	for name, c := range map[string]struct{ text, want string }{
		"working": {
			of("working", `,"ttlMs":60000,"pollIntervalMs":500,"statusMessage":"half","x":{"y":[1.50]}`),
			of("working", `,"ttlMs":60000,"pollIntervalMs":500,"statusMessage":"half","x":{"y":[1.50]}`),
		},
		"without end":     {of("working", `,"ttlMs":null`), of("working", `,"ttlMs":86400000`)},
		"without a ttl":   {of("working", ``), of("working", `,"ttlMs":86400000`)},
		"a longer ttl":    {of("working", `,"ttlMs":9007199254740991`), of("working", `,"ttlMs":86400000`)},
		"a longer pause":  {of("working", `,"ttlMs":1,"pollIntervalMs":9007199254740991`), of("working", `,"ttlMs":1,"pollIntervalMs":86400000`)},
		"a long message":  {of("cancelled", `,"ttlMs":1,"statusMessage":"`+long+`"`), of("cancelled", `,"statusMessage":"`+long[:4096]+`","ttlMs":1`)},
		"no payload left": {of("working", `,"ttlMs":1,"result":{"content":[]},"error":1,"inputRequests":[]`), of("working", `,"ttlMs":1`)},
		"completed": {
			of("completed", `,"ttlMs":1,"result":{"content":[], "b":1.0,"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`),
			of("completed", `,"ttlMs":1,"result":{"content":[],"b":1.0,"_meta":{"a":1}}`),
		},
		"its result as it is": {of("completed", `,"ttlMs":1,"result":{ "content" : [] }`), of("completed", `,"ttlMs":1,"result":{ "content" : [] }`)},
		"failed": {
			of("failed", `,"ttlMs":1,"error":{"data":{"secret":1},"message":"no","code":-32603}`),
			of("failed", `,"ttlMs":1,"error":{"code":-32603,"message":"no"}`),
		},
		"asks": {of("input_required", `,"ttlMs":1,"inputRequests":{"a":{}}`), of("input_required", `,"ttlMs":1,"inputRequests":{"shown":1}`)},
		"related": {
			of("working", `,"ttlMs":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"},"b":2}`),
			of("working", `,"ttlMs":1,"_meta":{"b":2}`),
		},
	} {
		got, err := task.Read([]byte(c.text), true)
		if err != nil || got.ID != "t1" {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		shown := got.Append(nil, &task.Shown{Kind: "complete", ID: "ours", Inputs: json.RawMessage(`{"shown":1}`)})
		if err := wire.Check(shown); err != nil {
			t.Fatalf("%s: %s: %v", name, shown, err)
		}
		if same(t, shown) != same(t, []byte(strings.Replace(c.want, `"taskId":"t1"`, `"taskId":"ours"`, 1))) {
			t.Errorf("%s: %s, want %s", name, shown, c.want)
		}
		if strings.Contains(string(shown), `"t1"`) {
			t.Errorf("%s: the server's id is shown: %s", name, shown)
		}
		if name == "its result as it is" && !strings.Contains(string(shown), `{ "content" : [] }`) {
			t.Errorf("rewritten: %s", shown)
		}
	}
}

// same returns a text with its members in order.
func same(t *testing.T, text []byte) string {
	t.Helper()
	var value map[string]json.RawMessage
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, field string }{
		"no id":               {`{"status":"working",` + times + `}`, "taskId"},
		"an empty id":         {`{"taskId":"","status":"working",` + times + `}`, "taskId"},
		"an id of a number":   {`{"taskId":7,"status":"working",` + times + `}`, "taskId"},
		"a long id":           {`{"taskId":"` + strings.Repeat("x", 1025) + `","status":"working",` + times + `}`, "taskId"},
		"no status":           {`{"taskId":"t1",` + times + `}`, "status"},
		"another status":      {of("submitted", ``), "status"},
		"no times":            {`{"taskId":"t1","status":"working"}`, "createdAt"},
		"a time of a number":  {`{"taskId":"t1","status":"working","createdAt":1,"lastUpdatedAt":2}`, "createdAt"},
		"a time of words":     {`{"taskId":"t1","status":"working","createdAt":"now","lastUpdatedAt":"now"}`, "createdAt"},
		"a negative ttl":      {of("working", `,"ttlMs":-1`), "ttlMs"},
		"a ttl of a fraction": {of("working", `,"ttlMs":1.5`), "ttlMs"},
		"a ttl of a text":     {of("working", `,"ttlMs":"1"`), "ttlMs"},
		"an endless ttl":      {of("working", `,"ttlMs":9007199254740992`), "ttlMs"},
		"a negative pause":    {of("working", `,"pollIntervalMs":-1`), "pollIntervalMs"},
		"no pause":            {of("working", `,"pollIntervalMs":null`), "pollIntervalMs"},
		"a message of a list": {of("working", `,"statusMessage":[]`), "statusMessage"},
		"a meta of a list":    {of("working", `,"_meta":[]`), "_meta"},
		"no result":           {of("completed", ``), "result"},
		"a result of a list":  {of("completed", `,"result":[]`), "result"},
		"no error":            {of("failed", ``), "error"},
		"an error of a text":  {of("failed", `,"error":"no"`), "error"},
		"an error of nothing": {of("failed", `,"error":{}`), "error"},
		"no requests":         {of("input_required", ``), "inputRequests"},
		"a list of requests":  {of("input_required", `,"inputRequests":[]`), "inputRequests"},
	} {
		if got, err := task.Read([]byte(c.text), true); err == nil || !strings.HasPrefix(err.Error(), c.field) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// What belongs to the status isn't there yet when a call is answered.
	if got, err := task.Read([]byte(of("completed", ``)), false); err != nil || got.Status != task.Completed || got.Result != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFinal(t *testing.T) {
	for status, want := range map[task.Status]bool{task.Working: false, task.InputRequired: false, task.Completed: true, task.Failed: true, task.Cancelled: true} {
		if status.Final() != want {
			t.Errorf("%s: %t", status, status.Final())
		}
	}
}

func TestReadGrowsLinearly(t *testing.T) {
	head := `{"taskId":"t1","status":"completed",` + times
	inputs := append(growth.Around(head+`,"result":{"a":`, growth.JSON, `}}`), growth.Around(head+`,"result":{},"a":`, growth.JSON, `}`)...)
	inputs = append(inputs, growth.Number("members", head+`,"result":{}`, `,"a#":1`, `}`))
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		if wire.Check(text) != nil {
			return
		}
		if got, err := task.Read(text, true); err == nil {
			got.Append(nil, &task.Shown{ID: "x"})
		}
	})...)
}

// FuzzRead checks that whatever is read is written as JSON that can be read again, under the other id.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{of("working", `,"ttlMs":1,"pollIntervalMs":2`), of("completed", `,"result":{"content":[],"_meta":{}}`), of("failed", `,"error":{"code":1,"message":"x"}`), of("input_required", `,"inputRequests":{}`)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if wire.Check(text) != nil {
			return
		}
		got, err := task.Read(text, true)
		if err != nil {
			return
		}
		shown := got.Append(nil, &task.Shown{Kind: "complete", ID: "ours", Inputs: got.Inputs})
		if err := wire.Check(shown); err != nil {
			t.Fatalf("%q was written as %q: %v", text, shown, err)
		}
		again, err := task.Read(shown, true)
		if err != nil || again.ID != "ours" || again.Status != got.Status || (again.Result == nil) != (got.Result == nil) {
			t.Fatalf("%q was written as %q: %+v, %v", text, shown, again, err)
		}
	})
}
