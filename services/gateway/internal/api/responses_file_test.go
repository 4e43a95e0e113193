package api_test

import (
	"strings"
	"testing"
)

// Documents go to vendors by their bytes, in each one's form; one at an internal address is refused before any call.
func TestDocuments(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	const pdf = `data:application/pdf;base64,JVBERi0=`
	item := func(part string) string { return `"input":[{"role":"user","content":[` + part + `]}]}` }
	for model, want := range map[string]string{
		"sandbox":  `sandbox: [a.pdf, 5 bytes]`,
		"chats/ok": `{"type":"file","file":{"filename":"a.pdf","file_data":"` + pdf + `"}}`,
		"spare":    `{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}`,
	} {
		got := b.say(t, "POST", responsesPath, `{"model":"`+model+`",`+item(`{"type":"input_file","filename":"a.pdf","file_data":"`+pdf+`"}`))
		if text := got.body + b.vendor.last(); got.status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", model, got.status, text, want)
		}
	}
	before := b.vendor.count()
	for _, c := range []struct{ path, body, field string }{
		{responsesPath, `{"model":"native/wise",` + item(`{"type":"input_file","file_url":"https://127.0.0.1/a.pdf"}`), "input[0].content[0].file_url: "},
		{messagesPath, `{"model":"spare","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://localhost/a.pdf"}}]}]}`, "messages[0].content[0].source.url: "},
	} {
		got := b.say(t, "POST", c.path, c.body)
		if got.status != 400 || !strings.Contains(got.body, c.field) {
			t.Errorf("%s: %d %s, want 400 with %s", c.path, got.status, got.body, c.field)
		}
	}
	if n := b.vendor.count() - before; n != 0 {
		t.Errorf("%d calls were made", n)
	}
}
