package api_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// responseID finds the id of a response.
var responseID = regexp.MustCompile(`resp_sw[0-9a-f]+`)

// credentialMark is in every credential that the tests below send.
const credentialMark = "cred-marked"

// serverTools are tools with a credential in each place where a vendor takes one.
const serverTools = `"tools":[{"type":"mcp","server_label":"x","server_url":"https://cred-marked-user:cred-marked-password@x.example/cred-marked-path?token=cred-marked-query",` +
	`"authorization":"cred-marked-token","headers":{"X-Team":"cred-marked-header"},"extra_headers":{"a":["cred-marked-list"]},"authorization_token":{"a":"cred-marked-object"}},` +
	`{"type":"code_interpreter","container":{"type":"auto","network_policy":{"type":"allowlist","domain_secrets":[{"domain":"x.example","name":"n","value":"cred-marked-secret"}]}}},` +
	`{"type":"function","name":"open","parameters":{"type":"object","properties":{"password":{"type":"string"}}}}]`

// echoes makes the vendor answer requests of the Responses API as OpenAI does, but repeat tools and prompt as they came.
func (b *bench) echoes() {
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/responses") {
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
			return
		}
		response := `{"id":"resp_v","status":"completed","output":[{"id":"msg_v","type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],` +
			`"tools":` + cmp.Or(gjson.GetBytes(body, "tools").Raw, "[]") + `,"prompt":` + cmp.Or(gjson.GetBytes(body, "prompt").Raw, "null") + `,"usage":{"input_tokens":5,"output_tokens":2}}`
		if !gjson.GetBytes(body, "stream").Bool() {
			_, _ = io.WriteString(w, response)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{"created", "in_progress", "completed"} {
			_, _ = fmt.Fprintf(w, "data: {\"type\":\"response.%s\",\"response\":%s}\n\n", event, response)
		}
	}
}

// reads returns what other keys of the organization read of the one request that the bench has served, by record. An
// empty response id means that none is stored.
func (b *bench) reads(t *testing.T, response string) map[string]string {
	t.Helper()
	records := make(map[string]string)
	read := func(name, path string) (body string) {
		got := b.say(t, "GET", path, "", "X-Key-Id", "key-b")
		if got.status != 200 && (name != "stored events" || got.status != 400) { // Only of a stream are events stored.
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		records[name] = got.body
		return got.body
	}
	if response != "" {
		stored := read("stored response", responsesPath+"/"+response)
		read("input items", responsesPath+"/"+response+"/input_items")
		if gjson.Get(stored, "background").Bool() {
			read("stored events", responsesPath+"/"+response+"?stream=true")
		}
	}
	until(t, func() string {
		if traces := read("traces", "/v1/traces"); gjson.Get(traces, "traces.#").Int() != 1 {
			return traces
		}
		return ""
	})
	request := gjson.Get(records["traces"], "traces.0.request_id").Str
	if packet := read("replay packet", "/v1/replay/"+request); !strings.Contains(packet, "[api_key]") {
		t.Errorf("the packet lacks the request: %s", packet)
	}
	read("lineage", "/v1/lineage/"+request)
	records["log"] = b.log.String()
	records["spans"] = fmt.Sprintf("%+v", b.spans.GetSpans())
	return records
}

// hidesCredentials reports every record that holds a credential.
func hidesCredentials(t *testing.T, records map[string]string) {
	t.Helper()
	for name, record := range records {
		if i := strings.Index(record, credentialMark); i >= 0 {
			t.Errorf("%s holds …%s…", name, record[max(0, i-60):min(len(record), i+40)])
		}
	}
}

// However a response is made, its answer and each record of it name a tool's server and keep its credentials out.
func TestToolServerCredentialsOfResponses(t *testing.T) {
	const more = `"prompt":{"id":"p","variables":{"api_key":"cred-marked-variable"}},` +
		`"input":[{"role":"user","content":"one"},{"type":"tool_search_call","call_id":"c","execution":"client","arguments":{}},{"type":"tool_search_output","call_id":"c","execution":"client","tools":[{"type":"mcp","server_label":"x","authorization":"cred-marked-item"}]}],` + serverTools
	for model, fields := range map[string]string{"sandbox": `"input":"one",` + serverTools, "native/wise": more} {
		for _, way := range []string{`"stream":false`, `"stream":true`, `"background":true`, `"background":true,"stream":true`} {
			t.Run(model+" "+way, func(t *testing.T) {
				b := setupWith(t, responsesPolicy)
				b.echoes()
				got := b.say(t, "POST", responsesPath, `{"model":"`+model+`",`+way+`,`+fields+`}`, "X-Key-Id", "key-a")
				for _, want := range []string{
					`"server_url":"https://x.example/[api_key]"`, `"X-Team":"[api_key]"`, `"properties":{"password":{"type":"string"}}`,
				} {
					if got.status != 200 || !strings.Contains(got.body, want) {
						t.Fatalf("%d %s, want %s", got.status, got.body, want)
					}
				}
				id := responseID.FindString(got.body)
				b.ended(t, id)
				records := b.reads(t, id)
				records["answer"] = got.body
				hidesCredentials(t, records)
				if sent := b.vendor.last(); model == "native/wise" && strings.Count(sent, credentialMark) < 9 {
					t.Errorf("the vendor got %s, want all credentials", sent)
				}
			})
		}
	}
}

// A connection's answers, its stored responses and their records are the same, and the next request of the conversation
// sends its tools again: they are not carried over.
func TestToolServerCredentialsOfSockets(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.echoes()
	c := b.connects(t, "X-Key-Id", "key-a")
	last := c.asks(t, `{"type":"response.create","model":"native/wise","input":"one",`+serverTools+`}`)
	id := last.Get("response.id").Str
	records := b.reads(t, id)
	records["answer"] = last.Raw
	hidesCredentials(t, records)
	_ = c.asks(t, `{"type":"response.create","model":"native/wise","previous_response_id":"`+id+`","input":"two"}`)
	if sent := b.vendor.last(); strings.Contains(sent, `"tools"`) || !strings.Contains(sent, "one") {
		t.Errorf("the vendor got %s, want the conversation without tools", sent)
	}
	_ = c.asks(t, `{"type":"response.create","model":"native/wise","previous_response_id":"`+id+`","input":"two",`+serverTools+`}`)
	if sent := b.vendor.last(); !strings.Contains(sent, "cred-marked-token") || !strings.Contains(sent, "one") {
		t.Errorf("the vendor got %s, want the conversation and the tools as they were sent", sent)
	}
}

// The records of every face keep the credentials out, wherever its dialect takes them.
func TestToolServerCredentialsOfFaces(t *testing.T) {
	const search = `"data_sources":[{"type":"azure_search","parameters":{"authentication":{"type":"api_key","key":"cred-marked-search"}}}]`
	for name, face := range map[string]struct{ path, body string }{
		"chat": {completions, `{"model":"first/ok","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f",` +
			`"arguments":"{\"client_secret\":\"cred-marked-argument\"}"}}]},{"role":"tool","tool_call_id":"c","content":"{\"accessToken\":\"cred-marked-result\"}"}],` + search + `}`},
		"messages": {messagesPath, `{"model":"second/spare","max_tokens":9,"messages":[{"role":"user","content":"hi"}],` +
			`"mcp_servers":[{"type":"url","name":"x","url":"https://x.example/sse/cred-marked-path?k=cred-marked-query","authorization_token":"cred-marked-token"}]}`},
		"gemini": {"/v1beta/models/first/ok:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],` +
			`"tools":[{"mcpServers":[{"name":"x","streamableHttpTransport":{"url":"https://x.example/?k=cred-marked-query","headers":{"X-Team":"cred-marked-header"}}}]}]}`},
		"the contract": {chatPath, `{"model":"first/ok","messages":[{"role":"user","content":"hi"}],"metadata":{"x-api-key":"cred-marked-metadata"},"tools":[{"type":"function",` +
			`"function":{"name":"f","parameters":{"type":"object","authorization":"cred-marked-schema"}}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			if got := b.say(t, "POST", face.path, face.body, "X-Key-Id", "key-a"); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			hidesCredentials(t, b.reads(t, ""))
		})
	}
}

// The results of a batch repeat the tools as other answers do.
func TestToolServerCredentialsOfBatches(t *testing.T) {
	b := setupWith(t, batchPolicy)
	line := `{"custom_id":"a","method":"POST","url":"/v1/responses","body":{"model":"first/ok","input":"hi",` + serverTools + "}}\n"
	made := b.say(t, "POST", "/v1/batches", strings.Replace(batchOf(b.upload(t, line), ""), "chat/completions", "responses", 1))
	v := b.runsBatches(t, "completed")
	routes := b.vendor.fails
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/files/file-out/content" {
			routes(w, r)
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		_, _ = io.WriteString(w, v.results(false, `{"id":"r","custom_id":"%s","response":{"status_code":200,"request_id":"q","body":{"id":"c","model":"theirs",`+
			strings.ReplaceAll(serverTools, "%", "%%")+`,"output":[],"usage":{"input_tokens":10,"output_tokens":2}}},"error":null}`))
	}
	b.vendor.mu.Unlock()
	ended := b.reaches(t, "/v1/batches/"+gjson.Get(made.body, "id").Str, "status", "completed")
	output := b.say(t, "GET", "/v1/files/"+ended.Get("output_file_id").Str+"/content", "", "X-Key-Id", "key-b")
	if !strings.Contains(output.body, `"authorization":"[api_key]"`) || !strings.Contains(output.body, `"model":"first/ok"`) {
		t.Errorf("%d %s", output.status, output.body)
	}
	hidesCredentials(t, map[string]string{
		"batch": ended.Raw, "results": output.body, "log": b.log.String(), "spans": fmt.Sprintf("%+v", b.spans.GetSpans()),
	})
	if !strings.Contains(v.received(), "cred-marked-token") {
		t.Errorf("the vendor got %s, want all credentials", v.received())
	}
}
