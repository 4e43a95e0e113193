package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// compacts makes the vendor shorten conversations by itself; it answers everything else with a text.
func (b *bench) compacts(t *testing.T) {
	t.Helper()
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/responses/compact"):
			_, _ = io.WriteString(w, `{"id":"resp_v","object":"response.compaction","created_at":1,"output":[{"type":"message","id":"msg_1","role":"user","content":"build it"},{"id":"cmp_1","type":"compaction","encrypted_content":"theirs"}],"usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13}}`)
		case strings.HasSuffix(r.URL.Path, "/responses"):
			_, _ = io.WriteString(w, `{"id":"resp_v","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
		default:
			_, _ = io.WriteString(w, `{"content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}`)
		}
	}
}

// A vendor's own compaction goes back to that vendor only. Everywhere else the conversation goes on with the items that it
// stands for.
func TestVendorCompaction(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.compacts(t)
	const talk = `{"role":"user","content":"build it"},{"type":"function_call","call_id":"c1","name":"make","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"done"}`
	got := b.say(t, "POST", responsesPath+"/compact", `{"model":"native/wise","instructions":"be brief","input":[`+talk+`]}`)
	if want := `{"model":"wise","instructions":"be brief","input":[` + talk + `]}`; b.vendor.last() != want {
		t.Errorf("the vendor got %s, want %s", b.vendor.last(), want)
	}
	answer := gjson.Parse(got.body)
	if got.status != 200 || answer.Get("object").Str != "response.compaction" || answer.Get("output.#").Int() != 2 || answer.Get("usage.total_tokens").Int() != 13 {
		t.Fatalf("%d %s, want a compaction of two items", got.status, got.body)
	}
	input := `"input":[` + answer.Get("output.1").Raw + `,{"role":"user","content":"go on"}]`
	for _, c := range []struct{ model, want, without string }{
		{"native/wise", `"encrypted_content":"theirs"`, "build it"},
		{"first/ok", `"input":[` + talk + `,{"role":"user","content":"go on"}]`, "compaction"},
		{"spare", `"tool_use_id":"c1"`, "compaction"},
	} {
		got := b.say(t, "POST", responsesPath, `{"model":"`+c.model+`",`+input+`}`)
		if sent := b.vendor.last(); got.status != 200 || !strings.Contains(sent, c.want) || strings.Contains(sent, c.without) {
			t.Errorf("%s: %d %s; it got %s, want %s and no %s", c.model, got.status, got.body, sent, c.want, c.without)
		}
	}
	again := b.say(t, "POST", responsesPath+"/compact", `{"model":"spare",`+input+`}`)
	if sent := b.vendor.last(); again.status != 200 || !strings.Contains(sent, "build it") || !strings.Contains(sent, "Summarize the conversation") {
		t.Errorf("shortened elsewhere: %d %s; the vendor got %s", again.status, again.body, sent)
	}
}

// A server that has the Responses API without compactions is asked for a summary.
func TestVendorWithoutCompaction(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"message":"not found"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"It is built."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}
	b.vendor.mu.Unlock()
	got := b.say(t, "POST", responsesPath+"/compact", `{"model":"native/wise","switchyard":{"allow_substitution":false},"input":"build it"}`)
	if got.status != 200 || gjson.Get(got.body, "output.1.type").Str != "compaction" {
		t.Fatalf("%d %s, want a compaction", got.status, got.body)
	}
	if n := b.rows(t, "true"); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
}
