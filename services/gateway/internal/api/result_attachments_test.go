package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// converseTakes is what Converse takes of each family's models within a result of a call, and beside one in the same turn.
var converseTakes = map[string]struct{ inside, beside []string }{
	"us.anthropic.claude-sonnet-4-5-20250929-v1:0":  {[]string{"text", "image", "document"}, []string{"text", "image"}},
	"amazon.nova-pro-v1:0":                          {[]string{"text", "image"}, []string{"text", "image", "document"}},
	"us.meta.llama4-maverick-17b-instruct-v1:0":     {[]string{"text", "image", "document"}, nil},
	"us.mistral.pixtral-large-2502-v1:0":            {[]string{"text", "document"}, nil},
	"writer.palmyra-x5-v1:0":                        {[]string{"text"}, nil},
	"qwen.qwen3-vl-235b-a22b":                       {[]string{"text"}, []string{"text", "image"}},
	"openai.gpt-5.6-sol":                            {[]string{"text"}, []string{"text", "image"}},
	"arn:aws:bedrock:eu-west-1:1:application/a1b2c": {[]string{"text"}, []string{"text", "image"}},
}

// converseRefuses returns why Converse refuses a body for a model; empty if it doesn't.
func converseRefuses(model, body string) (why string) {
	takes, before := converseTakes[model], ""
	for _, turn := range gjson.Get(body, "messages").Array() {
		if role := turn.Get("role").Str; role == before {
			why = "two turns of the " + role
		}
		before = turn.Get("role").Str
		var kinds []string
		for _, block := range turn.Get("content").Array() {
			for kind := range block.Map() {
				kinds = append(kinds, kind)
			}
			for _, inner := range block.Get("toolResult.content").Array() {
				for kind := range inner.Map() {
					if !slices.Contains(takes.inside, kind) {
						why = kind + " within a result"
					}
				}
			}
		}
		for _, kind := range kinds {
			if slices.Contains(kinds, "toolResult") && kind != "toolResult" && !slices.Contains(takes.beside, kind) {
				why = kind + " beside a result"
			}
		}
		if slices.Contains(kinds, "document") && !slices.Contains(kinds, "text") {
			why = "a document without a text"
		}
	}
	return why
}

// attached holds a function for each face that writes a conversation with two tool results. The second result has an
// image and a PDF, and a text and another PDF follow it. The contract accepts no attachments in results.
var attached = map[string]func(model string) (path, body string){
	"openai": func(model string) (string, string) {
		return completions, fmt.Sprintf(`{"model":%q,"switchyard":{"allow_substitution":false},"messages":[%s]}`, model, attachedChat)
	},
	"anthropic": func(model string) (string, string) {
		const pdf = `{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjQ="}}`
		return messagesPath, fmt.Sprintf(`{"model":%q,"switchyard":{"allow_substitution":false},"max_tokens":9,"messages":[{"role":"user","content":"u"},`+
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"tool_use","id":"c2","name":"f","input":{}}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"result"},`+
			`{"type":"tool_result","tool_use_id":"c2","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}},%s]},{"type":"text","text":"go on"},%[3]s]}]}`, model, picture, pdf)
	},
	"responses": func(model string) (string, string) {
		const pdf = `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjQ="}`
		return responsesPath, fmt.Sprintf(`{"model":%q,"switchyard":{"allow_substitution":false},"store":false,"input":[{"role":"user","content":"u"},`+
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},`+
			`{"type":"function_call_output","call_id":"c1","output":"result"},`+
			`{"type":"function_call_output","call_id":"c2","output":[{"type":"input_image","image_url":"data:image/png;base64,%s"},%s]},`+
			`{"role":"user","content":[{"type":"input_text","text":"go on"},%[3]s]}]}`, model, picture, pdf)
	},
	"gemini": func(model string) (string, string) {
		const pdf = `{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjQ=","displayName":"a.pdf"}}`
		call := `{"functionCall":{"id":"c%d","name":"f","args":{}}}`
		return "/v1beta/models/" + model + ":generateContent", fmt.Sprintf(`{"switchyard":{"allow_substitution":false},"contents":[{"role":"user","parts":[{"text":"u"}]},`+
			`{"role":"model","parts":[%s,%s]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"result"}}},`+
			`{"functionResponse":{"id":"c2","name":"f","response":{"output":"r"},"parts":[{"inlineData":{"mimeType":"image/png","data":"%s"}},%s]}},{"text":"go on"},%[4]s]}]}`,
			fmt.Sprintf(call, 1), fmt.Sprintf(call, 2), picture, pdf)
	},
}

const (
	attachedImage = `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}`
	attachedPDF   = `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjQ="}}`
	attachedChat  = `{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},` +
		`{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"result"},` +
		`{"role":"tool","tool_call_id":"c2","content":[` + attachedImage + `,` + attachedPDF + `]},` +
		`{"role":"user","content":[{"type":"text","text":"go on"},` + attachedPDF + `]}`
)

// Images and documents of results, and what follows results, reach every vendor in a place where its model takes them.
func TestAttachmentsOfResults(t *testing.T) {
	b := limitsBench(t)
	models := []string{"openai/gpt-4o", "azure/gpt-4o", "mistral/mistral-large-latest", "anthropic/claude-sonnet-4-5", "gemini/gemini-3-flash", "vertex/gemini-2.5-flash"}
	for model := range converseTakes {
		models = append(models, "bedrock/"+model)
	}
	for _, model := range models {
		for face, write := range attached {
			path, body := write(model)
			t.Run(model+" over "+face, func(t *testing.T) {
				got := b.say(t, "POST", path, body)
				sent := b.vendor.last()
				if got.status != 200 {
					t.Fatalf("%d %s", got.status, got.body)
				}
				if d, i := strings.Count(sent, "JVBERi0xLjQ="), strings.Count(sent, picture); d != 2 || i != 1 {
					t.Errorf("%d documents and %d images are sent, want 2 and 1: %s", d, i, sent)
				}
				if why := converseRefuses(strings.TrimPrefix(model, "bedrock/"), sent); why != "" && strings.Contains(sent, "toolResult") {
					t.Errorf("%s is refused: %s", why, sent)
				}
				for _, result := range gjson.Get(sent, `messages.#(role=="tool")#.content`).Array() {
					if strings.Contains(model, "gpt") && (strings.Contains(result.Raw, picture) || strings.Contains(result.Raw, "JVBERi0xLjQ=")) {
						t.Errorf("a result has an attachment: %s", sent)
					}
				}
				if result, last := strings.Index(sent, `result"`), strings.Index(sent, "go on"); result < 0 || last < result {
					t.Errorf("the results don't come first: %s", sent)
				}
			})
		}
	}
}
