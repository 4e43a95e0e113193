package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/testkit"
)

const messageBatches = "/v1/messages/batches"

// messageRequest returns a request of a batch of messages.
func messageRequest(id, fields string) string {
	return `{"custom_id":"` + id + `","params":{"model":"spare",` + fields + `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}}`
}

// messageBatch returns a request for a batch of messages.
func messageBatch(requests ...string) string {
	return `{"requests":[` + strings.Join(requests, ",") + `]}`
}

// messageObject returns the shape of a batch of messages in a state.
func messageObject(status, counts, ended, cancelled, results string) string {
	return `{"id":"msgbatch_ID","type":"message_batch","processing_status":"` + status + `","request_counts":` + counts + `,"ended_at":` + ended +
		`,"created_at":"TIME","expires_at":"TIME","archived_at":null,"cancel_initiated_at":` + cancelled + `,"results_url":` + results + `}`
}

// A batch of messages goes to its vendor with the vendor's model, and ends with its results under the caller's ids.
func TestMessageBatch(t *testing.T) {
	b := setupWith(t, batchPolicy)
	made := b.say(t, "POST", messageBatches, messageBatch(messageRequest("a", ""), messageRequest("b", `"system":"fail", `), messageRequest("c", "")))
	want := messageObject("in_progress", `{"processing":3,"succeeded":0,"errored":0,"canceled":0,"expired":0}`, "null", "null", "null")
	if made.status != 200 || shape(made.body) != want {
		t.Fatalf("%d %s, want %s", made.status, shape(made.body), want)
	}
	id := gjson.Get(made.body, "id").Str
	path := messageBatches + "/" + id
	for call, rule := range map[string]string{"GET " + path + "/results": "the batch has not ended", "DELETE " + path: "the batch has not ended; cancel it first"} {
		verb, at, _ := strings.Cut(call, " ")
		if got := b.say(t, verb, at, ""); got.status/100 != 4 || gjson.Get(got.body, "type").Str != "error" || !strings.Contains(got.body, rule) {
			t.Errorf("%s before its end: %d %s, want %s", call, got.status, got.body, rule)
		}
	}
	v := b.runsBatches(t, "completed")
	ended := b.reaches(t, path, "processing_status", "ended")
	want = messageObject("ended", `{"processing":0,"succeeded":2,"errored":1,"canceled":0,"expired":0}`, `"TIME"`, "null", `"/v1/messages/batches/msgbatch_ID/results"`)
	if shape(ended.Raw) != want {
		t.Errorf("ended as %s, want %s", shape(ended.Raw), want)
	}
	if strings.Count(v.received(), `"model":"spare"`) != 3 || strings.Contains(v.received(), "\n ") {
		t.Errorf("the vendor received %s", v.received())
	}
	results := b.say(t, "GET", ended.Get("results_url").Str, "")
	const succeeded = `{"custom_id":"%s","result":{"type":"succeeded","message":{"type":"message","model":"spare","content":[],"usage":{"input_tokens":4,"output_tokens":2}}}}` + "\n"
	const errored = `{"custom_id":"b","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"no"}}}}` + "\n"
	if want := fmt.Sprintf(succeeded, "a") + fmt.Sprintf(succeeded, "c") + errored; results.status != 200 || results.body != want ||
		results.header.Get("Content-Length") != fmt.Sprint(len(want)) || results.header.Get("Content-Type") != "application/x-jsonl" {
		t.Errorf("results %d %s with %v, want %s", results.status, results.body, results.header, want)
	}
	if n := b.rows(t, "request_id = $1", id); n != 2 {
		t.Errorf("%d rows are billed, want 2", n)
	}
	if files := b.say(t, "GET", "/v1/files", ""); gjson.Get(files.body, "data.#").Int() != 0 {
		t.Errorf("its files are shown: %s", files.body)
	}
	input := testkit.Value[string](t, b.pool, "SELECT id FROM file WHERE purpose = 'message_batch'")
	for _, call := range []string{"GET /v1/files/" + input, "GET /v1/files/" + input + "/content", "DELETE /v1/files/" + input} {
		verb, at, _ := strings.Cut(call, " ")
		if got := b.say(t, verb, at, ""); got.status != 404 {
			t.Errorf("%s of its requests: %d %s, want 404", call, got.status, got.body)
		}
	}
	if got := b.say(t, "DELETE", path, ""); got.status != 200 || shape(got.body) != `{"id":"msgbatch_ID","type":"message_batch_deleted"}` {
		t.Errorf("deleted with %d %s", got.status, got.body)
	}
	for _, call := range []string{"GET " + path, "GET " + path + "/results", "DELETE " + path, "POST " + path + "/cancel"} {
		verb, at, _ := strings.Cut(call, " ")
		if got := b.say(t, verb, at, ""); got.status != 404 || gjson.Get(got.body, "error.type").Str != "not_found_error" {
			t.Errorf("%s of a deleted batch: %d %s", call, got.status, got.body)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM file"); n != 0 {
		t.Errorf("%d files are left of it", n)
	}
}

// A batch of messages that is cancelled before a vendor has it ends without results.
func TestMessageBatchCancelled(t *testing.T) {
	b := setupWith(t, batchPolicy)
	made := b.say(t, "POST", messageBatches, messageBatch(messageRequest("a", ""), messageRequest("b", "")))
	path := messageBatches + "/" + gjson.Get(made.body, "id").Str
	got := b.say(t, "POST", path+"/cancel", "")
	if gjson.Get(got.body, "processing_status").Str != "canceling" {
		t.Errorf("cancelled as %d %s", got.status, got.body)
	}
	v := b.runsBatches(t, "in_progress")
	ended := b.reaches(t, path, "processing_status", "ended")
	if ended.Get("request_counts").Raw != `{"processing":0,"succeeded":0,"errored":0,"canceled":2,"expired":0}` || v.received() != "" {
		t.Errorf("ended as %s; the vendor received %q", ended.Raw, v.received())
	}
	results := b.say(t, "GET", path+"/results", "")
	if results.status != 200 || results.body != "" || results.header.Get("Content-Length") != "0" {
		t.Errorf("results %d %q", results.status, results.body)
	}
}

// What is wrong with a batch of messages is said by the request, in Anthropic's form.
func TestMessageBatchErrors(t *testing.T) {
	b := setupWith(t, batchPolicy)
	good := messageRequest("good", "")
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, c := range map[string]struct {
		body, want string
		status     int
	}{
		"no JSON":                   {`{`, "body", 400},
		"no requests":               {`{}`, "requests: must hold a request", 400},
		"an empty list":             {messageBatch(), "requests: must hold a request", 400},
		"an object":                 {`{"requests":{}}`, "requests: must be an array", 400},
		"too many":                  {messageBatch(strings.Repeat("1,", 50_000) + "1"), "more than 50000 requests", 413},
		"a number":                  {messageBatch(good, "7"), "requests[1]: request: must be a JSON object", 400},
		"no id":                     {messageBatch(`{"params":{}}`), "requests[0]: custom_id: must have 1 to 64", 400},
		"a long id":                 {messageBatch(good, messageRequest(strings.Repeat("a", 65), "")), "requests[1]: custom_id: must have 1 to 64", 400},
		"an id of other characters": {messageBatch(messageRequest("a b", "")), "requests[0]: custom_id: must have 1 to 64", 400},
		"an id twice":               {messageBatch(good, good), "requests[1]: custom_id: a request before it has the same", 400},
		"no params":                 {messageBatch(`{"custom_id":"a"}`), "requests[0]: params: must be a JSON object", 400},
		"params twice":              {messageBatch(`{"custom_id":"a","params":{},"params":{}}`), "twice", 400},
		"no messages":               {messageBatch(`{"custom_id":"a","params":{"model":"spare","max_tokens":1}}`), "requests[0]: params.messages", 400},
		"a stream":                  {messageBatch(good, messageRequest("b", `"stream":true,`)), "requests[1]: params.stream: is not possible in a batch", 400},
		"an extension":              {messageBatch(messageRequest("b", `"switchyard":{},`)), "requests[0]: params.switchyard: belongs to the batch", 400},
		"another model":             {messageBatch(good, strings.Replace(messageRequest("b", ""), "spare", "second/spare", 1)), "requests[1]: params.model: must be the same", 400},
		"an approval":               {messageBatch(messageRequest("b", `"tools":[{"name":"deploy","input_schema":{}}],`)), "requests[0]: params.tools[0]: calls of this tool need an approval", 403},
		"another dialect":           {messageBatch(strings.Replace(good, "spare", "first/ok", 1)), "no provider of the model runs such requests in batches", 400},
		"deep":                      {messageBatch(strings.Replace(good, `"hi"`, deep, 1)), "body", 400},
		"no UTF-8":                  {messageBatch(strings.Replace(good, "hi", "\xff", 1)), "UTF-8", 400},
	} {
		got := b.say(t, "POST", messageBatches, c.body)
		if got.status != c.status || gjson.Get(got.body, "type").Str != "error" || !strings.Contains(gjson.Get(got.body, "error.message").Str, c.want) {
			t.Errorf("%s: %d %.300s, want %d %s", name, got.status, got.body, c.status, c.want)
		}
	}
	for query, want := range map[string]string{
		"?limit=0": "limit: must be a whole number from 1 to 1000", "?limit=1001": "limit: must be", "?limit=x": "limit: must be",
		"?after_id=a&before_id=b": "before_id: can't be combined with after_id",
	} {
		if got := b.say(t, "GET", messageBatches+query, ""); got.status != 400 || !strings.Contains(gjson.Get(got.body, "error.message").Str, want) {
			t.Errorf("%s: %d %s, want %s", query, got.status, got.body, want)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job") + testkit.Value[int](t, b.pool, "SELECT count(*) FROM file"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
}

// Batches of messages belong to an organization and an owner, and are listed newest first, in pages of either direction.
func TestMessageBatchPages(t *testing.T) {
	b := setupWith(t, batchPolicy)
	if got := b.say(t, "GET", messageBatches, ""); strings.TrimSpace(got.body) != `{"data":[],"has_more":false,"first_id":null,"last_id":null}` {
		t.Errorf("an empty list: %s", got.body)
	}
	var ids []string
	for range 4 {
		ids = append(ids, gjson.Get(b.say(t, "POST", messageBatches, messageBatch(messageRequest("a", "")), "X-Owner-Id", "ada").body, "id").Str)
	}
	for query, want := range map[string]string{
		"": "3 2 1 0 false", "?limit=2": "3 2 true", "?limit=2&after_id=" + ids[2]: "1 0 false", "?limit=1&after_id=" + ids[2]: "1 true",
		"?limit=2&before_id=" + ids[0]: "2 1 true", "?limit=3&before_id=" + ids[0]: "3 2 1 false", "?before_id=" + ids[3]: "false",
		"?before_id=unknown": "false", "?after_id=unknown": "false",
	} {
		got := b.say(t, "GET", messageBatches+query, "", "X-Owner-Id", "ada")
		data := gjson.Get(got.body, "data")
		if text := order(got.body, ids); got.status != 200 || text != want || gjson.Get(got.body, "first_id").Str != data.Get("0.id").Str ||
			gjson.Get(got.body, "last_id").Str != data.Get(fmt.Sprint(data.Get("#").Int()-1)+".id").Str {
			t.Errorf("%s: %d %s, want %s", query, got.status, text, want)
		}
	}
	for name, headers := range map[string][]string{
		"no owner": {}, "another owner": {"X-Owner-Id", "bob"}, "another organization": {"X-Owner-Id", "ada", "X-Organization-Id", "globex"},
	} {
		for _, call := range []string{"GET ", "POST /cancel", "DELETE ", "GET /results"} {
			verb, rest, _ := strings.Cut(call, " ")
			if got := b.say(t, verb, messageBatches+"/"+ids[0]+rest, "", headers...); got.status != 404 || gjson.Get(got.body, "error.type").Str != "not_found_error" {
				t.Errorf("%s: %s is %d %s, want 404", name, call, got.status, got.body)
			}
		}
	}
}

// A batch of messages that a limit does not cover leaves nothing behind.
func TestMessageBatchLimits(t *testing.T) {
	b := setupWith(t, batchPolicy)
	b.mint(t, "one", `,"max_calls":1`)
	got := b.say(t, "POST", messageBatches, messageBatch(messageRequest("a", ""), messageRequest("b", "")), "X-Run-Id", "one")
	if got.status != 403 || gjson.Get(got.body, "type").Str != "error" {
		t.Errorf("%d %s, want 403", got.status, got.body)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job") + testkit.Value[int](t, b.pool, "SELECT count(*) FROM file"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
	got = b.say(t, "POST", messageBatches, strings.Replace(messageBatch(messageRequest("a", "")), `{"requests"`, `{"switchyard":{"run_id":"one"},"requests"`, 1))
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job WHERE run_id = 'one'"); got.status != 200 || n != 1 {
		t.Errorf("with the run in its body: %d %s, %d stored", got.status, got.body, n)
	}
}
