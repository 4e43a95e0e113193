package api_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// sentFor posts body to path and returns what the vendor got.
func (b *bench) sentFor(t *testing.T, path, body string) string {
	t.Helper()
	got := b.say(t, "POST", path, body)
	if got.status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, got.status, got.body)
	}
	return b.vendor.last()
}

// Separate texts of a caller stay separate in every dialect: as parts, or on separate lines. A document keeps its
// title.
func TestTextsStayApart(t *testing.T) {
	b := setupWith(t, answersPolicy)
	b.answers(kindCitation)
	const document = `{"type":"document","title":"Report","source":{"type":"text","media_type":"text/plain","data":"total 5"}}`
	requests := map[string]func(model string) (path, body string){
		"JSON": func(model string) (string, string) {
			return chatPath, `{"model":"` + model + `","messages":[{"role":"system","content":[{"type":"text","text":"First rule."},{"type":"text","text":"Second rule."}]},{"role":"user","content":[{"type":"text","text":"total 5"},{"type":"text","text":"0 questions"}]}]}`
		},
		"chat completions": func(model string) (string, string) {
			return completions, `{"model":"` + model + `","messages":[{"role":"system","content":[{"type":"text","text":"First rule."},{"type":"text","text":"Second rule."}]},{"role":"user","content":[{"type":"text","text":"total 5"},{"type":"text","text":"0 questions"}]}]}`
		},
		"messages": func(model string) (string, string) {
			return messagesPath, `{"model":"` + model + `","max_tokens":9,"system":[{"type":"text","text":"First rule."},{"type":"text","text":"Second rule."}],"messages":[{"role":"user","content":[` + document + `,{"type":"text","text":"0 questions"}]}]}`
		},
		"responses": func(model string) (string, string) {
			return responsesPath, `{"model":"` + model + `","store":false,"input":[{"role":"system","content":[{"type":"input_text","text":"First rule."},{"type":"input_text","text":"Second rule."}]},{"role":"user","content":[{"type":"input_text","text":"total 5"},{"type":"input_text","text":"0 questions"}]}]}`
		},
		"generateContent": func(model string) (string, string) {
			return generates(model, false), `{"systemInstruction":{"parts":[{"text":"First rule."},{"text":"Second rule."}]},"contents":[{"role":"user","parts":[{"text":"total 5"},{"text":"0 questions"}]}]}`
		},
	}
	for name, request := range requests {
		for form := range answersOf {
			path, body := request(form + "/m")
			sent := b.sentFor(t, path, body)
			for _, joined := range []string{"First rule.Second", "total 50"} {
				if strings.Contains(sent, joined) {
					t.Errorf("%s at %s: sent %s", name, form, sent)
				}
			}
			for _, text := range []string{"First rule.", "Second rule.", "total 5", "0 questions"} {
				if !strings.Contains(sent, text) {
					t.Errorf("%s at %s: %q is not in %s", name, form, text, sent)
				}
			}
			if name == "messages" && !strings.Contains(sent, "Report") {
				t.Errorf("at %s the title is not in %s", form, sent)
			}
		}
	}
}

// The texts of a tool's result stay separate too.
func TestTextsOfResultsStayApart(t *testing.T) {
	b := setupWith(t, answersPolicy)
	b.answers(kindCitation)
	const content = `[{"type":"tool_use","id":"call_a","name":"Read","input":{}}]`
	for form := range answersOf {
		sent := b.sentFor(t, messagesPath, messagesBody(form+"/m", `,{"role":"assistant","content":`+content+
			`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a","content":[{"type":"text","text":"line1"},{"type":"text","text":"line2"}]}]}`))
		if strings.Contains(sent, "line1line2") || !strings.Contains(sent, "line1") || !strings.Contains(sent, "line2") {
			t.Errorf("at %s: sent %s", form, sent)
		}
	}
}

// A late system message stays in its place: only those before the conversation are in the system prompt.
func TestLateInstructionsStay(t *testing.T) {
	b := setupWith(t, answersPolicy)
	b.answers(kindCitation)
	const turns = `[{"role":"developer","content":"D1"},{"role":"user","content":"u1"},{"role":"assistant","content":"a1"},{"role":"developer","content":"D2"},{"role":"user","content":"u2"}]`
	system := map[string]string{"anthropic": "system", "gemini": "systemInstruction"}
	conversation := map[string]string{"anthropic": "messages", "gemini": "contents", "openai": "messages"}
	for path, body := range map[string]string{
		completions:   `"messages":` + turns,
		responsesPath: `"store":false,"input":` + turns,
		chatPath:      `"messages":` + strings.ReplaceAll(turns, "developer", "system"),
	} {
		for form := range answersOf {
			sent := b.sentFor(t, path, `{"model":"`+form+`/m",`+body+`}`)
			if prompt := gjson.Get(sent, system[form]).Raw; system[form] != "" && (strings.Contains(prompt, "D2") || !strings.Contains(prompt, "D1")) {
				t.Errorf("%s at %s: the prompt is %s", path, form, prompt)
			}
			said := gjson.Get(sent, conversation[form]).Raw
			if a1, d2, u2 := strings.Index(said, `"a1"`), strings.Index(said, `"D2"`), strings.Index(said, `"u2"`); a1 < 0 || d2 < a1 || u2 < d2 {
				t.Errorf("%s at %s: the conversation is %s", path, form, said)
			}
			if form == "anthropic" && gjson.Get(sent, "messages.#").Int() != 3 {
				t.Errorf("%s: turns of one side follow each other in %s", path, said)
			}
		}
	}
}

// Images are sent with the type that their bytes show, whatever the caller claims, in every dialect and in relayed
// bodies.
func TestImagesAreSentByTheirTrueType(t *testing.T) {
	b := setupWith(t, answersPolicy)
	b.answers(kindCitation)
	jpeg := base64.StdEncoding.EncodeToString([]byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01"))
	uri := func(kind string) string { return "data:" + kind + ";base64," + jpeg }
	requests := map[string]func(model, kind string) (path, body string){
		"JSON": func(model, kind string) (string, string) {
			return chatPath, `{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + uri(kind) + `"}}]}]}`
		},
		"chat completions": func(model, kind string) (string, string) {
			return completions, `{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + uri(kind) + `"}}]}]}`
		},
		"messages": func(model, kind string) (string, string) {
			return messagesPath, `{"model":"` + model + `","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"` + kind + `","data":"` + jpeg + `"}}]}]}`
		},
		"a result on messages": func(model, kind string) (string, string) {
			return messagesPath, messagesBody(model, `,{"role":"assistant","content":[{"type":"tool_use","id":"call_a","name":"Read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a","content":[{"type":"image","source":{"type":"base64","media_type":"`+kind+`","data":"`+jpeg+`"}}]}]}`)
		},
		"responses": func(model, kind string) (string, string) {
			return responsesPath, `{"model":"` + model + `","store":false,"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + uri(kind) + `"}]}]}`
		},
		"generateContent": func(model, kind string) (string, string) {
			return generates(model, false), `{"contents":[{"role":"user","parts":[{"inlineData":{"data":"` + jpeg + `","mimeType":"` + kind + `"}}]}]}`
		},
		"vision": func(model, kind string) (string, string) {
			return "/v1/vision", `{"model":"` + model + `","prompt":"What is it?","image":{"base64":"` + jpeg + `","mime_type":"` + kind + `"}}`
		},
	}
	for name, request := range requests {
		for form := range answersOf {
			for _, kind := range []string{"image/jpg", "image/png", "IMAGE/JPEG", "image/jpeg"} {
				path, body := request(form+"/m", kind)
				sent := b.sentFor(t, path, body)
				if !strings.Contains(sent, "image/jpeg") || kind != "image/jpeg" && strings.Contains(sent, kind) {
					t.Errorf("%s as %s at %s: sent %s", name, kind, form, sent)
				}
			}
		}
	}
}
