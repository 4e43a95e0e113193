//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

var (
	batchHostile = addBatchVendors("batch-hostile")
	batchOther   = addBatchVendors("batch-hostile-other")
	batchUnable  = addVendor(vendor{name: "batch-unable", dialect: "openai", model: "batch-unable"})
)

// hostileLine is what stands in the seventh place of a batch: a change of the request, or a line as it is. The answer
// names the place and says what is wrong.
type hostileLine struct {
	name   string
	change func(a batchAPI, request object)
	line   string // OpenAI's only
	says   string
}

// body returns the body of a request.
func (a batchAPI) body(request object) object {
	name := "body"
	if a.dialect == "anthropic" {
		name = "params"
	}
	body, _ := request[name].(object)
	return body
}

func setBody(field string, value any) func(batchAPI, object) {
	return func(a batchAPI, request object) { a.body(request)[field] = value }
}

func set(field string, value any) func(batchAPI, object) {
	return func(_ batchAPI, request object) { request[field] = value }
}

// nested is JSON that is nested deeper than the gateway reads.
var nested = strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)

func hostileLines() []hostileLine {
	valid := `{"custom_id":"x","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"x"}]`
	return []hostileLine{
		{name: "a custom id of 1 MiB", change: set("custom_id", strings.Repeat("x", 1<<20)), says: "custom_id"},
		{name: "an empty custom id", change: set("custom_id", ""), says: "custom_id"},
		{name: "no custom id", change: set("custom_id", nil), says: "custom_id"},
		{name: "a custom id that is a number", change: set("custom_id", 7), says: "custom_id"},
		{name: "a custom id twice", change: set("custom_id", customID(2)), says: "custom_id"},
		{name: "another model", change: func(a batchAPI, r object) { a.body(r)["model"] = batchOther[a.dialect].model }, says: "model"},
		{name: "a stream", change: setBody("stream", true), says: "stream"},
		{name: "a field of the gateway", change: setBody("switchyard", object{"optimization_goal": "cost"}), says: "switchyard"},
		{name: "no messages", change: setBody("messages", nil), says: "messages"},
		{name: "a field of the wrong type", change: setBody("max_tokens", "many"), says: "max_tokens"},
		{name: "another url", change: set("url", "/v1/embeddings"), says: "url"},
		{name: "another method", change: set("method", "GET"), says: "method"},
		{name: "no body", change: func(a batchAPI, r object) { delete(r, "body"); delete(r, "params") }, says: ""},
		{name: "nested 100,000 deep", line: valid + `,"x":` + nested + `}}`, says: "deep"},
		{name: "a line that is nested 100,000 deep", line: nested, says: ""},
		{name: "objects nested and never closed", line: valid + `,"x":` + strings.Repeat(`{"a":`, 100_000), says: ""},
		{name: "no JSON", line: "\x89PNG\r", says: "UTF-8"},
		{name: "a list", line: "[]", says: ""},
		{name: "half of a line", line: valid, says: "JSON"},
		{name: "a number", line: "7", says: ""},
		{name: "a NUL", line: "\x00", says: ""},
		{name: "two values", line: valid + `}} {}`, says: ""},
		{name: "a custom id that is no UTF-8", line: strings.Replace(valid, `"x"`, "\"\xff\"", 1) + `}}`, says: ""},
		{name: "a custom id twice in a line", line: `{"custom_id":"y",` + valid[1:] + `}}`, says: ""},
	}
}

// A batch with a request that can't be is refused, with the place of the request and the rule that it breaks; nothing of it
// reaches a vendor.
func TestBatchHostileRequests(t *testing.T) {
	const place = 6
	eachBatchAPI(t, batchHostile, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		c := h.service(stack.Gateway, unique("org"))
		at := map[string]string{"openai": fmt.Sprint("line ", place+1), "anthropic": fmt.Sprintf("requests[%d]", place)}[a.dialect]
		for _, r := range hostileLines() {
			requests := a.requests(v.model, 10)
			request, _ := requests[place].(object)
			switch {
			case a.dialect == "anthropic" && (r.line != "" || r.says == "url" || r.says == "method"):
				continue
			case r.line != "":
				requests[place] = r.line
			default:
				r.change(a, request)
			}
			got := a.try(t, c, requests)
			text := gjson.GetBytes(got.body, "error.message").Str
			if got.status != http.StatusBadRequest || !strings.Contains(text, at) || !strings.Contains(text, r.says) || len(got.body) > 4096 {
				t.Errorf("%s: answered %d with %d bytes, want 400 with %q and %q: %s", r.name, got.status, len(got.body), at, r.says, shorten(got.body))
			}
		}
		h.sentNothing(t, a, v)
	})
}

// A batch as a whole that can't be is refused, too.
func TestBatchHostileWhole(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	c := h.service(stack.Gateway, organization)
	a, v := openAIBatches, batchHostile["openai"]
	stored := func(text string) any {
		return c.upload(t, text).fields(t, http.StatusOK, "id")["id"]
	}
	good := stored(jsonLines(t, a.requests(v.model, 1)))
	whole := object{"input_file_id": good, "endpoint": a.lines, "completion_window": "24h"}
	for name, tt := range map[string]struct {
		body   any
		status int
		says   string
	}{
		"no line":                 {whole.with(object{"input_file_id": stored("\n \r\n\t\n")}), 400, "no request"},
		"a model without":         {whole.with(object{"input_file_id": stored(jsonLines(t, a.requests(batchUnable.model, 1)))}), 400, "line 1: no provider of the model"},
		"an unknown model":        {whole.with(object{"input_file_id": stored(jsonLines(t, a.requests("no-such-model", 1)))}), 404, "no-such-model"},
		"another purpose":         {whole.with(object{"input_file_id": c.asUserData(t)}), 400, "purpose"},
		"an unknown file":         {whole.with(object{"input_file_id": "file-nothing"}), 404, "input_file_id"},
		"a file's name as path":   {whole.with(object{"input_file_id": "../batches"}), 404, "input_file_id"},
		"another endpoint":        {whole.with(object{"endpoint": "/v1/images/generations"}), 400, "endpoint"},
		"the endpoint of others":  {whole.with(object{"endpoint": "/v1/responses"}), 400, "line 1"},
		"another window":          {whole.with(object{"completion_window": "1h"}), 400, "completion_window"},
		"too many labels":         {whole.with(object{"metadata": labels(16)}), 400, "metadata"},
		"labels that are no text": {whole.with(object{"metadata": object{"a": 1}}), 400, "metadata"},
		"a nested body":           {`{"metadata":` + nested + `}`, 400, ""},
		"no JSON":                 {`{`, 400, ""},
	} {
		if got := c.post(t, a.batches, tt.body); got.status != tt.status || !strings.Contains(gjson.GetBytes(got.body, "error.message").Str, tt.says) {
			t.Errorf("%s: answered %d, want %d with %q: %s", name, got.status, tt.status, tt.says, shorten(got.body))
		}
	}
	m := anthropicBatches
	for name, body := range map[string]any{
		"no request": object{"requests": []any{}}, "no list": object{"requests": object{}}, "nothing": object{},
		"a number for a request": object{"requests": []any{7}}, "nested": `{"requests":[{"custom_id":"a","params":` + nested + `}]}`,
	} {
		if got := c.post(t, m.batches, body); got.status != http.StatusBadRequest || gjson.GetBytes(got.body, "type").Str != "error" {
			t.Errorf("%s: answered %d, want 400 in the form of Anthropic: %s", name, got.status, shorten(got.body))
		}
	}
	h.sentNothing(t, a, v)
	h.sentNothing(t, m, batchHostile["anthropic"])
}

// labels returns so many labels of a batch.
func labels(n int) object {
	all := object{}
	for i := range n {
		all[fmt.Sprint("label-", i)] = "x"
	}
	return all
}

// asUserData stores a file of another purpose than that of batches, and returns its id.
func (c client) asUserData(t *testing.T) any {
	t.Helper()
	with, form := c.form(t, map[string]string{"purpose": "user_data"}, map[string]string{"file": "a.txt"})
	return with.post(t, "/v1/files", form).fields(t, http.StatusOK, "id")["id"]
}
