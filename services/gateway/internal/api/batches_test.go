package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/testkit"
)

// batchObject returns the shape of a batch whose members but the first are those of a state.
func batchObject(errors, status, files, times, counts, usage, metadata string) string {
	return `{"id":"batch_ID","object":"batch","endpoint":"/v1/chat/completions","model":"first/ok","errors":` + errors + `,"input_file_id":"file-ID",` +
		`"completion_window":"24h","status":"` + status + `",` + files + `,"created_at":"TIME",` + times + `,"request_counts":` + counts + usage + `,"metadata":` + metadata + `}`
}

const (
	noFiles  = `"output_file_id":null,"error_file_id":null`
	newTimes = `"in_progress_at":null,"expires_at":"TIME","finalizing_at":null,"completed_at":null,"failed_at":null,"expired_at":null,"cancelling_at":null,"cancelled_at":null`
)

// A batch is made of a file, goes to its vendor with the vendor's model, and ends with files of results under the caller's
// ids. Each answered request is billed.
func TestBatch(t *testing.T) {
	b := setupWith(t, batchPolicy)
	lines := chatLine("a", `"model":"first/ok",`) + "\r\n\n" + chatLine("fail", `"model":"first/ok","user":"fail",`) + chatLine("c", `"model":"first/ok",`)
	made := b.submit(t, lines, `,"metadata":{ "k": "v" }`)
	want := batchObject("null", "validating", noFiles, newTimes, `{"total":3,"completed":0,"failed":0}`, "", `{"k":"v"}`)
	if made.status != 200 || shape(made.body) != want {
		t.Fatalf("%d %s, want %s", made.status, shape(made.body), want)
	}
	id, input := gjson.Get(made.body, "id").Str, gjson.Get(made.body, "input_file_id").Str
	v := b.runsBatches(t, "in_progress")
	running := b.reaches(t, "/v1/batches/"+id, "status", "in_progress")
	if strings.Contains(v.received(), "first/ok") || strings.Count(v.received(), `"model":"ok"`) != 3 || running.Get("in_progress_at").Int() == 0 {
		t.Errorf("the vendor received %s for %s", v.received(), running.Raw)
	}
	v.is("completed")
	ended := b.reaches(t, "/openai/batches/"+id, "status", "completed")
	want = batchObject("null", "completed", `"output_file_id":"file-ID","error_file_id":"file-ID"`,
		`"in_progress_at":"TIME","expires_at":"TIME","finalizing_at":"TIME","completed_at":"TIME","failed_at":null,"expired_at":null,"cancelling_at":null,"cancelled_at":null`,
		`{"total":3,"completed":2,"failed":1}`,
		`,"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":24}`, `{"k":"v"}`)
	if shape(ended.Raw) != want {
		t.Errorf("ended as %s, want %s", shape(ended.Raw), want)
	}
	got := b.say(t, "GET", "/v1/batches/"+id, "")
	for name, value := range map[string]string{
		"X-Switchyard-Provider": "first", "X-Switchyard-Cost-Cents": "0.012", "X-Switchyard-Estimated": "false",
	} {
		if got.header.Get(name) != value {
			t.Errorf("%s is %q, want %s", name, got.header.Get(name), value)
		}
	}
	output := b.say(t, "GET", "/v1/files/"+ended.Get("output_file_id").Str+"/content", "")
	const answered = `{"id":"r","custom_id":"%s","response":{"status_code":200,"request_id":"q","body":{"id":"c","model":"first/ok","usage":{"prompt_tokens":10,"completion_tokens":2}}},"error":null}` + "\n"
	if want := fmt.Sprintf(answered, "a") + fmt.Sprintf(answered, "c"); output.body != want || output.header.Get("Content-Length") != fmt.Sprint(len(want)) {
		t.Errorf("results %s, want %s", output.body, want)
	}
	if failures := b.say(t, "GET", "/v1/files/"+ended.Get("error_file_id").Str+"/content", ""); !strings.Contains(failures.body, `"custom_id":"fail"`) {
		t.Errorf("failures %s", failures.body)
	}
	if purpose := b.say(t, "GET", "/v1/files?purpose=batch_output", ""); gjson.Get(purpose.body, "data.#").Int() != 2 {
		t.Errorf("files of results: %s, want two", purpose.body)
	}
	if n := b.rows(t, "request_id = $1 AND outcome = 'completed'", id); n != 2 {
		t.Errorf("%d rows are billed, want 2", n)
	}
	if got := b.say(t, "POST", "/v1/batches/"+id+"/cancel", ""); got.status != 200 || gjson.Get(got.body, "status").Str != "completed" {
		t.Errorf("cancelled after its end: %d %s, want it unchanged", got.status, got.body)
	}
	if got := b.say(t, "DELETE", "/v1/files/"+input, ""); got.status != 200 {
		t.Errorf("its input is deleted with %d %s", got.status, got.body)
	}
}

// A batch that its vendor refuses as a whole shows the reason, and one that is cancelled ends at its vendor.
func TestBatchEnds(t *testing.T) {
	b := setupWith(t, batchPolicy)
	v := b.runsBatches(t, "failed")
	failed := b.submit(t, chatLine("a", ""), "")
	if model := gjson.Get(failed.body, "model").Str; model != "ok" {
		t.Errorf("requests without a model are for %q, want the default model's name", model)
	}
	ended := b.reaches(t, "/v1/batches/"+gjson.Get(failed.body, "id").Str, "status", "failed")
	const problems = `{"object":"list","data":[{"code":"invalid_json_line","line":2,"message":"Line 2 is not JSON.","param":"body"}]}`
	if got := ended.Get("errors").Raw; got != problems || ended.Get("failed_at").Int() == 0 || ended.Get("output_file_id").Type != gjson.Null {
		t.Errorf("failed as %s, want %s", ended.Raw, problems)
	}
	if strings.Contains(b.log.String(), "Line 2 is not JSON") {
		t.Error("the vendor's message is logged")
	}
	v.is("in_progress")
	id := gjson.Get(b.submit(t, chatLine("a", "")+chatLine("b", `"user":"fail",`), "").body, "id").Str
	b.reaches(t, "/v1/batches/"+id, "status", "in_progress")
	got := b.say(t, "POST", "/v1/batches/"+id+"/cancel", "")
	if status := gjson.Get(got.body, "status").Str; got.status != 200 || status != "cancelling" && status != "finalizing" && status != "cancelled" {
		t.Errorf("cancel: %d %s", got.status, got.body)
	}
	ended = b.reaches(t, "/v1/batches/"+id, "status", "cancelled")
	if ended.Get("cancelled_at").Int() == 0 || ended.Get("cancelling_at").Int() == 0 || ended.Get("request_counts").Raw != `{"total":2,"completed":1,"failed":1}` {
		t.Errorf("cancelled as %s", ended.Raw)
	}
}

// Requests of every API that has batches are taken by their own form.
func TestBatchAPIs(t *testing.T) {
	b := setupWith(t, batchPolicy)
	for api, body := range map[string]string{
		"/v1/chat/completions": `{"model":"ok","messages":[{"role":"user","content":"hi"}]}`, "/v1/responses": `{"model":"ok","input":"hi"}`,
		"/v1/embeddings": `{"model":"ok","input":"hi"}`, "/v1/completions": `{"model":"text","prompt":"hi"}`, "/v1/moderations": `{"input":"hi"}`,
	} {
		for _, root := range []string{"/v1/batches", "/openai/batches", "/openai/deployments/ok/batches"} {
			if strings.Contains(root, "deployments") && !strings.Contains(body, `"model":"ok"`) {
				continue
			}
			for _, url := range []string{api, strings.TrimPrefix(api, "/v1")} { // Azure's form has no version.
				line := `{"custom_id":"a","method":"POST","url":"` + url + `","body":` + body + `}`
				request := `{"input_file_id":"` + b.upload(t, line) + `","endpoint":"` + url + `","completion_window":"24h"}`
				if got := b.say(t, "POST", root, request); got.status != 200 || gjson.Get(got.body, "endpoint").Str != api {
					t.Errorf("%s of %s: %d %s", root, url, got.status, got.body)
				}
			}
		}
	}
	noModel := b.upload(t, chatLine("a", ""))
	if got := b.say(t, "POST", "/openai/deployments/free/batches", batchOf(noModel, "")); gjson.Get(got.body, "model").Str != "free" {
		t.Errorf("a deployment's batch: %d %s, want its model", got.status, got.body)
	}
	input := b.upload(t, `{"custom_id":"a","method":"POST","url":"/v1/messages","body":{}}`)
	if got := b.say(t, "POST", "/v1/batches", `{"input_file_id":"`+input+`","endpoint":"/v1/messages","completion_window":"24h"}`); got.status != 400 {
		t.Errorf("messages in OpenAI's form: %d %s, want 400", got.status, got.body)
	}
}

// What is wrong with a batch is said by its field, in OpenAI's form.
func TestBatchErrors(t *testing.T) {
	b := setupWith(t, batchPolicy)
	input := b.upload(t, chatLine("a", ""))
	kind, form := fileForm(t, "a", "x", "purpose", "user_data")
	other := gjson.Get(b.say(t, "POST", "/v1/files", form, "Content-Type", kind).body, "id").Str
	labels := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return `,"metadata":{` + strings.Join(all, ",") + `}`
	}
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, c := range map[string]struct {
		body, want string
		status     int
	}{
		"no JSON":             {`{`, "body", 400},
		"no object":           {`[]`, "body: must be a JSON object", 400},
		"no file":             {`{"endpoint":"/v1/chat/completions","completion_window":"24h"}`, "input_file_id: is required", 400},
		"no endpoint":         {`{"input_file_id":"a","completion_window":"24h"}`, "endpoint: is required", 400},
		"another endpoint":    {`{"input_file_id":"a","endpoint":"/v1/files","completion_window":"24h"}`, "endpoint: must be one of", 400},
		"another form":        {`{"input_file_id":"a","endpoint":"/v1/messages","completion_window":"24h"}`, "endpoint: must be one of", 400},
		"no window":           {`{"input_file_id":"a","endpoint":"/v1/responses"}`, "completion_window: is required", 400},
		"another window":      {`{"input_file_id":"a","endpoint":"/v1/responses","completion_window":"1h"}`, "completion_window: must be 24h", 400},
		"a number":            {`{"input_file_id":7,"endpoint":"/v1/responses","completion_window":"24h"}`, "input_file_id: ", 400},
		"a file twice":        {`{"input_file_id":"a","input_file_id":"b"}`, "twice", 400},
		"labels as a list":    {batchOf(input, `,"metadata":[1]`), "metadata: ", 400},
		"labels of numbers":   {batchOf(input, `,"metadata":{"a":1}`), "metadata", 400},
		"too many labels":     {batchOf(input, labels(16)), "metadata: must hold at most 15 labels", 400},
		"a long label":        {batchOf(input, `,"metadata":{"`+strings.Repeat("ä", 65)+`":"v"}`), "metadata: names have at most 64 characters", 400},
		"a long label's text": {batchOf(input, `,"metadata":{"a":"`+strings.Repeat("ä", 513)+`"}`), "metadata: names have at most 64 characters, values 512", 400},
		"no anchor":           {batchOf(input, `,"output_expires_after":{"seconds":3600}`), "output_expires_after.anchor: must be created_at", 400},
		"a short life":        {batchOf(input, `,"output_expires_after":{"anchor":"created_at","seconds":3599}`), "output_expires_after.seconds: must be a whole number from 3600 to 2592000", 400},
		"a long life":         {batchOf(input, `,"output_expires_after":{"anchor":"created_at","seconds":2592001}`), "output_expires_after.seconds: must be", 400},
		"a life in words":     {batchOf(input, `,"output_expires_after":{"anchor":"created_at","seconds":"3600"}`), "output_expires_after", 400},
		"an unknown file":     {batchOf("file-unknown", ""), "input_file_id: no such file is stored", 404},
		"another purpose":     {batchOf(other, ""), "input_file_id: must be a file of the purpose batch", 400},
		"deep":                {batchOf(input, `,"x":`+deep), "body", 400},
		"no UTF-8":            {batchOf(input, `,"x":"`+"\xff"+`"`), "UTF-8", 400},
		"a long extension":    {batchOf(input, `,"switchyard":{"metadata":{"a":"`+strings.Repeat("a", 5000)+`"}}`), "switchyard: must have at most 4096 bytes", 400},
		"a wrong extension":   {batchOf(input, `,"switchyard":{"goal":"x"}`), "switchyard", 400},
		"another run":         {batchOf(input, `,"switchyard":{"organization_id":"globex"}`), "organization", 403},
	} {
		got := b.say(t, "POST", "/v1/batches", c.body)
		if got.status != c.status || !strings.Contains(gjson.Get(got.body, "error.message").Str, c.want) || gjson.Get(got.body, "error.type").Str == "" {
			t.Errorf("%s: %d %.300s, want %d %s", name, got.status, got.body, c.status, c.want)
		}
	}
	for query, field := range map[string]string{"?limit=0": "limit", "?limit=101": "limit", "?limit=x": "limit"} {
		if got := b.say(t, "GET", "/v1/batches"+query, ""); got.status != 400 || !strings.Contains(got.body, field+": must be a whole number from 1 to 100") {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	if got := b.submit(t, chatLine("a", ""), labels(15)+`,"output_expires_after":{"anchor":"created_at","seconds":3600}`); got.status != 200 {
		t.Errorf("at the bounds: %d %s", got.status, got.body)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job"); n != 1 {
		t.Errorf("%d batches are stored, want the one that is right", n)
	}
}

// What is wrong with a request of a batch is said by its line.
func TestBatchLines(t *testing.T) {
	b := setupWith(t, batchPolicy)
	good := chatLine("good", "")
	line := func(fields string) string { return `{` + fields + `}` }
	const rest = `"method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"hi"}]}`
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, c := range map[string]struct {
		content, want string
		status        int
	}{
		"an empty file":          {" \n\n", "the batch holds no request", 400},
		"no JSON":                {good + "x", "line 2: body", 400},
		"no object":              {good + "\n\r\n[]", "line 2: body: must be a JSON object", 400},
		"two on a line":          {strings.TrimSpace(good) + good, "line 1: body", 400},
		"a byte order mark":      {"\ufeff" + good, "line 1: body", 400},
		"many containers":        {good + strings.Replace(chatLine("b", ""), `"hi"`, "["+strings.Repeat("[],", 270_000)+"[]]", 1), "line 2: body: must not hold more than 262144", 400},
		"no UTF-8":               {good + strings.Replace(chatLine("b", ""), "hi", "\xff", 1), "line 2: body", 400},
		"deep":                   {good + line(`"custom_id":"b",`+strings.Replace(rest, `"hi"`, deep, 1)), "line 2: body", 400},
		"no id":                  {good + line(rest), "line 2: custom_id: must have 1 to 512 characters", 400},
		"an empty id":            {line(`"custom_id":"",` + rest), "line 1: custom_id: must have 1 to 512", 400},
		"a long id":              {line(`"custom_id":"` + strings.Repeat("ä", 513) + `",` + rest), "line 1: custom_id: must have 1 to 512", 400},
		"a number as id":         {line(`"custom_id":7,` + rest), "line 1: custom_id", 400},
		"an id twice":            {good + chatLine("b", "") + good, "line 3: custom_id: a request before it has the same", 400},
		"a member twice":         {line(`"custom_id":"a","custom_id":"b",` + rest), "twice", 400},
		"another method":         {line(`"custom_id":"a",` + strings.Replace(rest, "POST", "GET", 1)), "line 1: method: must be POST", 400},
		"another url":            {line(`"custom_id":"a",` + strings.Replace(rest, "/v1/chat/completions", "/v1/responses", 1)), "line 1: url: must be the endpoint of the batch", 400},
		"no body":                {line(`"custom_id":"a","method":"POST","url":"/v1/chat/completions"`), "line 1: body: must be a JSON object", 400},
		"a list as body":         {line(`"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":[]`), "line 1: body: must be a JSON object", 400},
		"no messages":            {line(`"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}`), "line 1: body.messages", 400},
		"a stream":               {good + chatLine("b", `"stream":true,`), "line 2: body.stream: is not possible in a batch", 400},
		"in the background":      {good + chatLine("b", `"background":true,`), "line 2: body.background: is not possible in a batch", 400},
		"an extension":           {good + chatLine("b", `"switchyard":{},`), "line 2: body.switchyard: belongs to the batch", 400},
		"a hidden extension":     {good + chatLine("b", `"switch\u0079ard":{},`), "line 2: body", 400},
		"another model":          {chatLine("a", `"model":"first/ok",`) + chatLine("b", `"model":"first/free",`), "line 2: body.model: must be the same in all requests", 400},
		"an approval":            {good + chatLine("b", `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"deploy"}}],`), "line 2: body.tools[1]: calls of this tool need an approval", 403},
		"an internal image":      {good + strings.Replace(chatLine("b", ""), `"hi"`, `[{"type":"image_url","image_url":{"url":"https://10.0.0.1/a.png"}}]`, 1), "line 2: body.messages[0].content[0].image_url.url: ", 400},
		"an unknown model":       {chatLine("a", `"model":"first/nothing/here",`), "", 404},
		"an unknown provider":    {chatLine("a", `"model":"nobody/ok",`), "", 404},
		"a host without batches": {chatLine("a", `"model":"alone",`), "no provider of the model runs such requests in batches", 400},
		"another dialect's host": {chatLine("a", `"model":"spare",`), "no provider of the model runs such requests in batches", 400},
	} {
		got := b.submit(t, c.content, "")
		if got.status != c.status || !strings.Contains(gjson.Get(got.body, "error.message").Str, c.want) || gjson.Get(got.body, "error.type").Str == "" {
			t.Errorf("%s: %d %.300s, want %d %s", name, got.status, got.body, c.status, c.want)
		}
	}
	item := `{"custom_id":"a","method":"POST","url":"/v1/responses","body":{"input":[{"type":"item_reference","id":"msg_1"}]}}`
	if got := b.say(t, "POST", "/v1/batches", strings.Replace(batchOf(b.upload(t, item), ""), "chat/completions", "responses", 1)); got.status != 404 ||
		!strings.Contains(got.body, "line 1: body.input[0].id: no such item is stored") {
		t.Errorf("an item of another response: %d %s", got.status, got.body)
	}
	if got := b.submit(t, chatLine("a", `"model":"alone",`), ""); !strings.Contains(got.body, "capability_unsupported") {
		t.Errorf("a host without batches: %s, want the reason capability_unsupported", got.body)
	}
	named := strings.Replace(good, `"hi"`, `[{"type":"file","file":{"file_id":"`+b.upload(t, good)+`"}}]`, 1)
	if got := b.submit(t, named, ""); got.status != 400 || !strings.Contains(got.body, "line 1: body: names a stored file by its id") {
		t.Errorf("a stored file by its id: %d %s", got.status, got.body)
	}
	if got := b.submit(t, good, `,"switchyard":{"locale":"de"}`); got.status != 400 || !strings.Contains(got.body, "locale: is not possible in a batch") {
		t.Errorf("a locale: %d %s", got.status, got.body)
	}
	if got := b.submit(t, good, "", "X-Switchyard-Locale", "de"); got.status != 400 || !strings.Contains(got.body, "locale: is not possible in a batch") {
		t.Errorf("a locale in a header: %d %s", got.status, got.body)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job"); n != 0 {
		t.Errorf("%d batches are stored", n)
	}
}

// An internal host is refused in every form of batch whose requests have images or documents.
func TestBatchesRefuseInternalHosts(t *testing.T) {
	b := setupWith(t, batchPolicy)
	const image, document = "https://10.0.0.1/a.png", "https://10.0.0.1/a.pdf"
	line := func(path, body string) string {
		return b.upload(t, `{"custom_id":"a","method":"POST","url":"`+path+`","body":`+body+`}`)
	}
	for _, c := range []struct{ path, content, field string }{
		{"/v1/chat/completions", `{"type":"image_url","image_url":{"url":"` + image + `"}}`, "body.messages[0].content[0].image_url.url"},
		{"/v1/responses", `{"type":"input_image","image_url":"` + image + `"}`, "body.input[0].content[0].image_url"},
		{"/v1/responses", `{"type":"input_file","file_url":"` + document + `"}`, "body.input[0].content[0].file_url"},
		{"/v1/messages", `{"type":"image","source":{"type":"url","url":"` + image + `"}}`, "params.messages[0].content[0].source.url"},
		{"/v1/messages", `{"type":"document","source":{"type":"url","url":"` + document + `"}}`, "params.messages[0].content[0].source.url"},
	} {
		turn := `[{"role":"user","content":[` + c.content + `]}]`
		var got answer
		switch c.path {
		case "/v1/messages":
			got = b.say(t, "POST", messageBatches, messageBatch(`{"custom_id":"a","params":{"model":"spare","max_tokens":9,"messages":`+turn+`}}`))
		case "/v1/responses":
			got = b.say(t, "POST", "/v1/batches", strings.Replace(batchOf(line(c.path, `{"input":`+turn+`}`), ""), "/v1/chat/completions", c.path, 1))
		default:
			got = b.say(t, "POST", "/v1/batches", batchOf(line(c.path, `{"messages":`+turn+`}`), ""))
		}
		if got.status != 400 || !strings.Contains(gjson.Get(got.body, "error.message").Str, c.field+": ") || !strings.Contains(got.body, "target_not_allowed") {
			t.Errorf("%s with %s: %d %.300s, want target_not_allowed at %s", c.path, c.content, got.status, got.body, c.field)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job"); n != 0 {
		t.Errorf("%d batches are stored", n)
	}
}

// A file of more requests than a batch may have is refused, though each is right.
func TestTooManyRequests(t *testing.T) {
	b := setupWith(t, batchPolicy)
	var lines strings.Builder
	for i := range 50_001 {
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":"/v1/moderations","body":{"input":"a"}}`+"\n", i)
	}
	id := b.store(t, lines.String())
	got := b.say(t, "POST", "/v1/batches", `{"input_file_id":"`+id+`","endpoint":"/v1/moderations","completion_window":"24h"}`)
	if got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "more than 50000 requests") {
		t.Errorf("%d %s, want 413", got.status, got.body)
	}
}

// Batches belong to an organization and an owner, and are listed newest first in pages.
func TestBatchScope(t *testing.T) {
	b := setupWith(t, batchPolicy)
	var ids []string
	for range 3 {
		ids = append(ids, gjson.Get(b.submit(t, chatLine("a", ""), "", "X-Owner-Id", "ada").body, "id").Str)
	}
	for query, want := range map[string]string{
		"": "2 1 0 false", "?limit=2": "2 1 true", "?limit=2&after=" + ids[1]: "0 false", "?after=" + ids[0]: "false", "?after=unknown": "false",
	} {
		got := b.say(t, "GET", "/v1/batches"+query, "", "X-Owner-Id", "ada")
		if text := order(got.body, ids); got.status != 200 || text != want {
			t.Errorf("%s: %d %s, want %s", query, got.status, text, want)
		}
	}
	for name, headers := range map[string][]string{
		"no owner": {}, "another owner": {"X-Owner-Id", "bob"}, "another organization": {"X-Owner-Id", "ada", "X-Organization-Id", "globex"},
	} {
		for _, call := range []string{"GET /v1/batches/" + ids[0], "POST /v1/batches/" + ids[0] + "/cancel"} {
			verb, path, _ := strings.Cut(call, " ")
			if got := b.say(t, verb, path, "", headers...); got.status != 404 || !strings.Contains(got.body, "batch_id: no such batch is stored") {
				t.Errorf("%s: %s is %d %s, want 404", name, call, got.status, got.body)
			}
		}
		if got := b.say(t, "GET", "/v1/batches?after="+ids[2], "", headers...); gjson.Get(got.body, "data.#").Int() != 0 {
			t.Errorf("%s: lists %s", name, got.body)
		}
	}
	if got := b.say(t, "GET", "/v1/messages/batches/"+ids[0], "", "X-Owner-Id", "ada"); got.status != 404 {
		t.Errorf("read in Anthropic's form: %d %s, want 404", got.status, got.body)
	}
}

// order returns which of some ids a list holds, in its order, and whether others follow.
func order(body string, ids []string) string {
	var seen []string
	for _, one := range gjson.Get(body, "data").Array() {
		for i, id := range ids {
			if one.Get("id").Str == id {
				seen = append(seen, fmt.Sprint(i))
			}
		}
	}
	return strings.Join(append(seen, gjson.Get(body, "has_more").Raw), " ")
}

// A batch counts as so many calls of its run, and as what they can cost at most. It is refused with nothing stored.
func TestBatchLimits(t *testing.T) {
	b := setupWith(t, batchPolicy)
	two := chatLine("a", `"model":"first/ok",`) + chatLine("b", `"model":"first/ok",`)
	for name, c := range map[string]struct {
		limits, lines string
		status        int
	}{
		"calls":           {`,"max_calls":1`, two, 403},
		"as many calls":   {`,"max_calls":2`, two, 200},
		"cost":            {`,"max_cost_cents":0.0001`, two, 403},
		"enough":          {`,"max_cost_cents":50`, two, 200},
		"a sum too large": {`,"max_cost_cents":50`, manyChoices(300), 403},
		"unpriced":        {`,"max_cost_cents":50`, chatLine("a", `"model":"first/free",`), 403},
	} {
		run := "run-" + strings.ReplaceAll(name, " ", "-")
		b.mint(t, run, c.limits)
		got := b.submit(t, c.lines, "", "X-Run-Id", run)
		if got.status != c.status {
			t.Errorf("%s: %d %s, want %d", name, got.status, got.body, c.status)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM batch_job"); n != 2 {
		t.Errorf("%d batches are stored, want 2", n)
	}
	if calls := testkit.Value[int](t, b.pool, "SELECT sum(calls) FROM budget_reservation"); calls != 4 {
		t.Errorf("%d calls are reserved, want 4", calls)
	}
	b.operate(t, suspendPath, `{"reason":"abuse"}`)
	until(t, func() string {
		if got := b.submit(t, two, ""); got.status != 403 || !strings.Contains(got.body, "organization_suspended") {
			return fmt.Sprintf("suspended: %d %s", got.status, got.body)
		}
		return ""
	})
}

// manyChoices returns n requests that can cost more together than an amount can hold.
func manyChoices(n int) string {
	var lines strings.Builder
	for i := range n {
		lines.WriteString(strings.Replace(chatLine(fmt.Sprint(i), `"model":"first/ok","n":128,`), `"max_tokens":9`, `"max_tokens":10000000`, 1))
	}
	return lines.String()
}
