package api_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/testkit"
)

// stores creates a response and returns its id.
func (b *bench) stores(t *testing.T, body string, header ...string) (id string) {
	t.Helper()
	got := b.say(t, "POST", responsesPath, body, header...)
	if got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if strings.Contains(body, `"stream":true`) {
		_, got.body, _ = strings.Cut(got.body, "event: response.completed\ndata: ")
		return gjson.Get(got.body, "response.id").Str
	}
	return gjson.Get(got.body, "id").Str
}

// A conversation goes on from any stored response, whole or streamed, at any vendor; it is read, listed and deleted by
// its owner alone.
func TestStoredResponses(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	first := b.stores(t, `{"model":"sandbox","input":"one"}`)
	second := b.stores(t, `{"model":"sandbox","stream":true,"previous_response_id":"`+first+`","input":[{"role":"user","content":"two"}]}`)
	b.responds(`{"id":"resp_v","status":"completed","output":[{"id":"msg_v","type":"message","role":"assistant","content":[{"type":"output_text","text":"from the API"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
	third := b.stores(t, `{"model":"native/wise","previous_response_id":"`+second+`","input":"three"}`)
	sent := b.vendor.last()
	for _, want := range []string{`"content":"one"`, `"text":"sandbox: one"`, `"content":"two"`, `"text":"sandbox: two"`, `"content":"three"`} {
		at := strings.Index(sent, want)
		if at < 0 || strings.Contains(sent, "previous_response_id") || strings.Contains(sent, `_sw`) {
			t.Errorf("the vendor got %s, want %s", sent, want)
		}
		sent = sent[max(at, 0):]
	}
	got := b.say(t, "GET", responsesPath+"/"+third, "")
	for _, want := range []string{`"id":"` + third + `"`, `"previous_response_id":"` + second + `"`, `"text":"from the API"`, `"store":true`} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d, want %s: %s", got.status, want, got.body)
		}
	}
	got = b.say(t, "GET", responsesPath+"/"+third+"/input_items?order=asc&limit=3", "")
	if page := gjson.Parse(got.body); len(page.Get("data").Array()) != 3 || !page.Get("has_more").Bool() || page.Get("data.0.content.0.text").Str != "one" || page.Get("first_id").Str == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	answered := b.say(t, "POST", responsesPath, `{"model":"sandbox","input":[{"role":"user","content":"x"},{"type":"item_reference","id":"`+gjson.Get(got.body, "data.1.id").Str+`"},{"role":"user","content":"y"}]}`)
	if answered.status != 200 {
		t.Errorf("a reference: %d %s", answered.status, answered.body)
	}
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"another organization", "GET", "/" + third, "", []string{"X-Organization-Id", "bolt"}, 404, `"code":"response_not_found"`},
		{"another owner", "GET", "/" + third, "", []string{"X-Owner-Id", "bob"}, 404, `"code":"response_not_found"`},
		{"another owner", "DELETE", "/" + third, "", []string{"X-Owner-Id", "bob"}, 404, `"code":"response_not_found"`},
		{"another owner", "POST", "", `{"previous_response_id":"` + third + `","input":"x"}`, []string{"X-Owner-Id", "bob"}, 400, `"param":"previous_response_id","code":"previous_response_not_found"`},
		{"no such response", "GET", "/resp_0", "", nil, 404, `"code":"response_not_found"`},
		{"no such response", "POST", "/resp_0/cancel", "", nil, 404, `"code":"response_not_found"`},
		{"nothing to cancel", "POST", "/" + third + "/cancel", "", nil, 400, "only a response that is made in the background"},
		{"nothing to stream", "GET", "/" + third + "?stream=true", "", nil, 400, `"param":"stream"`},
		{"no such page", "GET", "/" + third + "/input_items?limit=0", "", nil, 400, `"param":"limit"`},
		{"deleted", "DELETE", "/" + second, "", nil, 200, `{"id":"` + second + `","object":"response","deleted":true}`},
		{"gone", "GET", "/" + second, "", nil, 404, `"code":"response_not_found"`},
		{"its chain", "POST", "", `{"previous_response_id":"` + third + `","input":"x"}`, nil, 400, `"code":"previous_response_not_found"`},
		{"by itself", "GET", "/" + third, "", nil, 200, `"id":"` + third + `"`},
	} {
		got := b.say(t, tt.method, responsesPath+tt.path, tt.body, tt.header...)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", tt.name, tt.method, tt.path, got.status, got.body, tt.status, tt.want)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM response WHERE sealed::text LIKE '%sandbox%'"); n != 0 {
		t.Errorf("%d rows hold words", n)
	}
}

// A request that continued a conversation is issued again with all of it, whatever has become of the conversation.
func TestResponsesAreReplayed(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	first := b.stores(t, `{"model":"sandbox","input":"one"}`)
	b.stores(t, `{"model":"sandbox","previous_response_id":"`+first+`","input":"two"}`, "X-Request-Id", "r-second")
	b.recorded(t, "r-second", 1)
	if got := b.say(t, "DELETE", responsesPath+"/"+first, ""); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := b.say(t, "POST", "/v1/replay/r-second", "{}", "Authorization", "Bearer ops")
	if got.status != 200 || !strings.Contains(got.body, "sandbox: two") {
		t.Errorf("%d %s, want the answer again", got.status, got.body)
	}
}

// What is not to be stored isn't, and says so; so does what can't be.
func TestResponsesThatAreNotStored(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	got := b.say(t, "POST", responsesPath, `{"store":false,`+hello+`}`)
	id := gjson.Get(got.body, "id").Str
	if gjson.Get(got.body, "store").Bool() || b.say(t, "GET", responsesPath+"/"+id, "").status != 404 {
		t.Errorf("it is stored: %s", got.body)
	}
	testkit.Exec(t, b.pool, "ALTER TABLE response RENAME TO response_away")
	for _, stream := range []string{"false", "true"} {
		got = b.say(t, "POST", responsesPath, `{"stream":`+stream+`,`+hello+`}`)
		if got.status != 200 || !strings.Contains(got.body, "sandbox: hi") || strings.Contains(got.body[strings.LastIndex(got.body, "sandbox: hi"):], `"store":true`) {
			t.Errorf("%d %s, want the answer, which says that it is not stored", got.status, got.body)
		}
	}
	got = b.say(t, "POST", responsesPath, `{"previous_response_id":"`+id+`",`+hello+`}`)
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s, want 503", got.status, got.body)
	}
}

// Reasoning that one host encrypted goes back to it alone: another host answers without, and the answer says so.
func TestReasoningOfAnotherHost(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.responds(`{"status":"completed","output":[{"type":"reasoning","id":"rs_v","summary":[],"encrypted_content":"gAAA"},{"id":"msg_v","type":"message","role":"assistant","content":[]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
	first := b.say(t, "POST", responsesPath, `{"model":"native/wise",`+hello+`}`)
	sealed := gjson.Get(first.body, "output.0.encrypted_content").Str
	id := gjson.Get(first.body, "id").Str
	if first.status != 200 || sealed == "" || sealed == "gAAA" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	for model, same := range map[string]bool{"native/wise": true, "first/ok": false, "sandbox": false} {
		for _, body := range []string{
			`"previous_response_id":"` + id + `","input":"more"`,
			`"store":false,"input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[],"encrypted_content":"` + sealed + `"},{"role":"user","content":"more"}]`,
		} {
			got := b.say(t, "POST", responsesPath, `{"model":"`+model+`",`+body+`}`)
			if ignored := got.header.Get("X-Switchyard-Ignored"); got.status != 200 || (ignored == "") != same {
				t.Errorf("%s: %d, ignored %q: %s", model, got.status, ignored, got.body)
			}
			if sent := b.vendor.last(); model != "sandbox" && strings.Contains(sent, `"encrypted_content":"gAAA"`) != same || strings.Contains(sent, "swy1.") {
				t.Errorf("%s was sent %s", model, sent)
			}
		}
	}
}

// The state of calls that a vendor of another dialect made goes to those that can carry it: any other provider answers
// without, and the answer says so, also where the body goes out as it came.
func TestReasoningOfAnotherDialect(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	claude := `{"c":{"anthropic":{"lead":[{"type":"thinking","thinking":"the way there","signature":"s"}]}}}`
	gemini := `{"c":{"google":{"thought_signature":"the way there"}}}`
	for _, c := range []struct {
		state, model string
		carried      bool
	}{
		{claude, "second/spare", true},
		{gemini, "second/spare", false},
		{claude, "native/wise", false},
		{claude, "chats/ok", false},
		{claude, "sandbox", false},
		{gemini, "chats/ok", true},
		{gemini, "native/wise", false},
	} {
		item := `{"type":"reasoning","summary":[],"encrypted_content":"swy1.` + base64.RawURLEncoding.EncodeToString([]byte(c.state)) + `"}`
		if c.model == "native/wise" {
			b.responds(`{"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}`)
		}
		got := b.say(t, "POST", responsesPath, `{"model":"`+c.model+`","store":false,"tools":[{"type":"function","name":"f"}],"input":[{"role":"user","content":"hi"},`+item+
			`,{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"a"}]}`)
		want := "reasoning.encrypted_content"
		if c.carried {
			want = ""
		}
		if ignored := got.header.Get("X-Switchyard-Ignored"); got.status != 200 || ignored != want {
			t.Errorf("%s at %s: %d, ignored %q, want %q: %s", c.state, c.model, got.status, ignored, want, got.body)
		}
		if sent := b.vendor.last(); c.model != "sandbox" && strings.Contains(sent, "the way there") != c.carried {
			t.Errorf("%s at %s: sent %s", c.state, c.model, sent)
		}
	}
}

// A stored conversation becomes a summary by any model, is billed as its answer, and goes on at another vendor.
func TestResponsesAreCompacted(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	first := gjson.Parse(b.say(t, "POST", responsesPath, `{"model":"sandbox","input":"build it"}`).body).Get("id").Str
	before := b.rows(t, "true")
	got := b.say(t, "POST", responsesPath+"/compact", `{"model":"sandbox","previous_response_id":"`+first+`"}`)
	answer := gjson.Parse(got.body)
	if got.status != 200 || answer.Get("object").Str != "response.compaction" || answer.Get("output.0.content.0.text").Str != "build it" || answer.Get("output.1.type").Str != "compaction" {
		t.Fatalf("%d %s, want the user's message and a compaction", got.status, got.body)
	}
	if n := b.rows(t, "true") - before; n != 1 {
		t.Errorf("%d rows are billed, want one", n)
	}
	later := b.say(t, "POST", responsesPath, `{"model":"native/wise","input":`+answer.Get("output").Raw+`}`)
	if sent := b.vendor.last(); later.status != 200 || !strings.Contains(sent, "Summary of the conversation so far:") || strings.Contains(sent, "compaction") {
		t.Errorf("%d %s; the vendor got %s, want the summary", later.status, later.body, sent)
	}
	stranger := b.say(t, "POST", responsesPath+"/compact", `{"model":"sandbox","previous_response_id":"`+first+`"}`, "X-Organization-Id", "stranger")
	if stranger.status != 400 || !strings.Contains(stranger.body, "previous_response_not_found") {
		t.Errorf("another organization: %d %s, want 400", stranger.status, stranger.body)
	}
}
