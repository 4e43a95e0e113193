package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// documentPolicy has a provider of each dialect.
const documentPolicy = `
default_model: sandbox/sandbox
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox]}
  - {name: chats, dialect: openai, base_url: %[1]s, key_file: first.key, models: [ok]}
  - {name: native, dialect: openai, base_url: %[1]s, key_file: first.key, responses: true, models: [wise]}
  - {name: claude, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [spare]}
  - {name: google, dialect: gemini, base_url: %[1]s, key_file: first.key, models: [reads]}
`

// A document that a request names by URL reaches every vendor: by its URL where the vendor fetches it, otherwise by the
// bytes that the gateway fetches.
func TestDocumentsByURL(t *testing.T) {
	b := setupWith(t, documentPolicy)
	link := b.documents + "/a.pdf"
	const bytes = "JVBERi0=" // %PDF-
	faces := map[string]struct{ path, body string }{
		"responses": {responsesPath, `"store":false,"input":[{"role":"user","content":[{"type":"input_file","file_url":"` + link + `"}]}]`},
		"messages":  {messagesPath, `"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"` + link + `"}}]}]`},
	}
	for _, c := range []struct{ model, want string }{
		{"chats/ok", `"file_data":"data:application/pdf;base64,` + bytes + `"`},
		{"native/wise", bytes},
		{"claude/spare", `"url":"` + link + `"`},
		{"google/reads", `"data":"` + bytes + `"`},
		{"sandbox", "a document, 5 bytes"},
	} {
		for name, face := range faces {
			want := c.want
			if c.model == "native/wise" && name == "responses" {
				want = `"file_url":"` + link + `"` // As it came.
			}
			b.answersAs(c.model)
			got := b.say(t, "POST", face.path, `{"model":"`+c.model+`",`+face.body+`}`)
			sent := b.vendor.last()
			if c.model == "sandbox" {
				sent, want = got.body, "application/pdf, 5 bytes"
			}
			if got.status != 200 || !strings.Contains(sent, want) {
				t.Errorf("%s at %s: %d %s, sent %s, want %s", name, c.model, got.status, got.body, sent, want)
			}
		}
	}
}

// answersAs lets the vendor answer as the dialect of a model of documentPolicy has it.
func (b *bench) answersAs(model string) {
	b.vendor.mu.Lock()
	b.vendor.fails = nil
	b.vendor.mu.Unlock()
	switch model {
	case "native/wise":
		b.responds(`{"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}`)
	case "google/reads":
		b.vendor.mu.Lock()
		b.vendor.fails = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"candidates":[{"content":{"parts":[{"text":"read"}]},"finishReason":"STOP"}]}`))
		}
		b.vendor.mu.Unlock()
	}
}

// An error of a document or an image names the field as the face has it, and no vendor is called.
func TestDocumentErrorsByPath(t *testing.T) {
	b := setupWith(t, documentPolicy)
	for _, c := range []struct{ path, body, param, code string }{
		{responsesPath, `"input":[{"role":"user","content":"hi"},{"role":"user","content":[{"type":"input_file","file_url":"` + b.documents + `/gone"}]}]`, "input[1].content[0].file_url", "document_invalid"},
		{responsesPath, `"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://10.0.0.1/a.pdf"}]}]`, "input[0].content[0].file_url", "target_not_allowed"},
		{responsesPath, `"instructions":"x","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://10.0.0.1/a.png"}]}]`, "input[0].content[0].image_url", "target_not_allowed"},
		{responsesPath, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]`, "input[0].content[0].image_url", "image_invalid"},
		{completions, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://10.0.0.1/a.png"}}]}]`, "messages[0].content[0].image_url.url", "target_not_allowed"},
		{messagesPath, `"max_tokens":9,"system":"x","messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"` + b.documents + `/gone"}}]}]`, "messages[0].content[0].source.url", "document_invalid"},
	} {
		got := b.say(t, "POST", c.path, `{"model":"chats/ok",`+c.body+`}`)
		failed := gjson.Get(got.body, "error")
		if got.status != 400 || failed.Get("code").Str != c.code || !strings.HasPrefix(failed.Get("message").Str, c.param+": ") {
			t.Errorf("%s: %d %s, want %s at %s", c.body, got.status, got.body, c.code, c.param)
		}
		if param := failed.Get("param"); c.path != messagesPath && param.Str != c.param {
			t.Errorf("%s: param %s, want %s", c.body, param.Raw, c.param)
		}
		if sent := b.vendor.last(); sent != "" {
			t.Errorf("%s: sent %s", c.body, sent)
		}
	}
}
