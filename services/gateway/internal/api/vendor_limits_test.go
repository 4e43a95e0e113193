package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/adapter"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// host is a provider whose models differ in their limits. settings holds more of its settings in the policy, and path is
// the path of its base URL.
type host struct {
	dialect, settings, path string
	models                  []string
}

// limited lists the hosts by name. Every dialect that chats has some, and each set of rules of a dialect too. The
// provider of a dialect's usual rules has the dialect's name.
var limited = map[string]host{
	"openai": {dialect: "openai", models: []string{
		"gpt-4o", "gpt-5", "gpt-5-chat-latest", "gpt-4o-search-preview", "ft:o4-mini-2025-04-16:org::id",
	}},
	"azure":     {dialect: "openai", settings: `, api_version: "2024-10-21"`, models: []string{"gpt-4o", "gpt-5"}},
	"responses": {dialect: "openai", settings: ", responses: true", models: []string{"gpt-4o", "gpt-5"}},
	"mistral":   {dialect: "openai", settings: ", short_tool_ids: true", models: []string{"magistral-medium-latest"}},
	"anthropic": {dialect: "anthropic", models: []string{"claude-sonnet-5", "claude-sonnet-4-5-20250929", "claude-opus-4-20250514"}},
	"bedrock": {dialect: "bedrock", models: []string{
		"us.anthropic.claude-opus-4-7", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0",
	}},
	"gemini": {dialect: "gemini", models: []string{"gemini-3-flash", "gemini-2.5-flash", "gemini-2.5-flash-image"}},
	"vertex": {dialect: "vertex", path: "/v1/projects/p/locations/l", models: []string{"claude-opus-4-1@20250805", "claude-sonnet-5", "gemini-2.5-flash"}},
}

// uncalled lists dialects that chat without calling a vendor.
var uncalled = []string{"sandbox"}

// limitsPolicy returns a policy with a provider for each host in limited.
func limitsPolicy() string {
	var text strings.Builder
	text.WriteString("default_model: openai/gpt-4o\nproviders:\n")
	for name, h := range limited {
		fmt.Fprintf(&text, "  - {name: %s, dialect: %s, base_url: %%[1]s%s, key_file: first.key%s}\n", name, h.dialect, h.path, h.settings)
	}
	return text.String()
}

// takes reports whether a host takes a form of requests for a model as its caller wrote it.
func (h host) takes(model, form string) bool {
	of, _ := adapter.Find(h.dialect)
	responses := strings.Contains(h.settings, "responses: true")
	return slices.Contains(of.FormsOf(provider.Settings{BaseURL: "http://vendor.example", Responses: &responses})(model), form)
}

// question is a request that every face can express.
type question struct {
	temperature, topP, maxTokens, stop, effort string
	// user is the first turn, "u" if empty. last is a user's turn at the end.
	system, user, prefill, last string
	// tool is a function's name, parameters its schema. called adds a call of it to the conversation, with a notice
	// between the call and its result. forced demands a call of it.
	tool, parameters       string
	strict, called, forced bool
	schema                 string
	// object asks for any JSON object as the answer.
	object         bool
	document, data string
}

// member returns a JSON member with a trailing comma; empty without a value.
func member(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf("%q:%s,", name, value)
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// limitedFaces holds a function for each SDK face and for the contract's JSON face that writes a question for a model.
var limitedFaces = map[string]func(model string, q *question) (path, body string){
	"http": func(model string, q *question) (string, string) {
		if q.document != "" {
			return "", "" // The contract has no documents.
		}
		return chatPath, fmt.Sprintf(`{"model":%q,"allow_substitution":false,%s%s}`, model, when(q.effort != "", fmt.Sprintf(`"reasoning":{"effort":%q},`, q.effort)), q.chat("system"))
	},
	"openai": func(model string, q *question) (string, string) {
		return completions, fmt.Sprintf(`{"model":%q,"switchyard":{"allow_substitution":false},%s%s}`, model, when(q.effort != "", fmt.Sprintf(`"reasoning_effort":%q,`, q.effort)), q.chat("developer"))
	},
	"anthropic": func(model string, q *question) (string, string) {
		content := when(q.called, `{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"`+q.tool+`","input":{}}]},`+
			`{"role":"user","content":[{"type":"text","text":"notice"},{"type":"tool_result","tool_use_id":"c1","content":"result"}]}`) +
			when(!q.called, `{"role":"user","content":"`+or(q.user, "u")+`"}`) + when(q.prefill != "", `,{"role":"assistant","content":"`+q.prefill+`"}`) +
			when(q.last != "", `,{"role":"user","content":"`+q.last+`"}`)
		switch {
		case q.document == provider.TypePDF:
			content += `,{"role":"user","content":[{"type":"document","title":"a.txt","source":{"type":"base64","media_type":"` + q.document + `","data":"` + q.data + `"}}]}`
		case q.document != "" || q.object:
			return "", "" // This face has another source for texts, none for other types, and no form for any object.
		}
		return messagesPath, fmt.Sprintf(`{"model":%q,"switchyard":{"allow_substitution":false},"max_tokens":%s,%s%s%s%s%s%s%s%s"messages":[%s]}`, model, or(q.maxTokens, "9000"),
			member("temperature", q.temperature), member("top_p", q.topP), member("stop_sequences", q.stop), member("system", quoted(q.system)),
			when(q.effort != "", fmt.Sprintf(`"output_config":{"effort":%q},`, q.effort)), when(q.schema != "", `"output_format":{"type":"json_schema","schema":`+q.schema+`},`),
			when(q.tool != "", fmt.Sprintf(`"tools":[{"name":%q,"strict":%v,"input_schema":%s}],`, q.tool, q.strict, or(q.parameters, "{}"))),
			when(q.forced, fmt.Sprintf(`"tool_choice":{"type":"tool","name":%q},`, q.tool)), content)
	},
	"responses": func(model string, q *question) (string, string) {
		content := `{"role":"user","content":"` + or(q.user, "u") + `"}` + when(q.called, `,{"type":"function_call","call_id":"c1","name":"`+q.tool+`","arguments":"{}"},`+
			`{"role":"developer","content":"notice"},{"type":"function_call_output","call_id":"c1","output":"result"}`) +
			when(q.document != "", `,{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"data:`+q.document+`;base64,`+q.data+`"}]}`) +
			when(q.prefill != "", `,{"role":"assistant","content":"`+q.prefill+`"}`) + when(q.last != "", `,{"role":"user","content":"`+q.last+`"}`)
		if q.stop != "" {
			return "", "" // The Responses API has no stop sequences.
		}
		return responsesPath, fmt.Sprintf(`{"model":%q,"switchyard":{"allow_substitution":false},"store":false,%s%s%s%s%s%s%s%s"input":[%s]}`, model,
			member("temperature", q.temperature), member("top_p", q.topP), member("max_output_tokens", q.maxTokens), member("instructions", quoted(q.system)),
			when(q.effort != "", fmt.Sprintf(`"reasoning":{"effort":%q},`, q.effort)),
			when(q.schema != "", `"text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":`+q.schema+`}},`)+
				when(q.object, `"text":{"format":{"type":"json_object"}},`),
			when(q.tool != "", fmt.Sprintf(`"tools":[{"type":"function","name":%q,"strict":%v,"parameters":%s}],`, q.tool, q.strict, or(q.parameters, "{}"))),
			when(q.forced, fmt.Sprintf(`"tool_choice":{"type":"function","name":%q},`, q.tool)), content)
	},
	"gemini": func(model string, q *question) (string, string) {
		content := `{"role":"user","parts":[{"text":"` + or(q.user, "u") + `"}` + when(q.document != "", `,{"inlineData":{"mimeType":"`+q.document+`","data":"`+q.data+`","displayName":"a.txt"}}`) + `]}` +
			when(q.called, `,{"role":"model","parts":[{"functionCall":{"id":"c1","name":"`+q.tool+`","args":{}}}]},`+
				`{"role":"user","parts":[{"text":"notice"},{"functionResponse":{"id":"c1","name":"`+q.tool+`","response":{"output":"result"}}}]}`) +
			when(q.prefill != "", `,{"role":"model","parts":[{"text":"`+q.prefill+`"}]}`) + when(q.last != "", `,{"role":"user","parts":[{"text":"`+q.last+`"}]}`)
		if q.schema != "" || q.strict {
			return "", "" // Google's form has nothing strict.
		}
		settings := strings.TrimSuffix(member("temperature", q.temperature)+member("topP", q.topP)+member("maxOutputTokens", q.maxTokens)+member("stopSequences", q.stop)+
			when(q.effort != "", fmt.Sprintf(`"thinkingConfig":{"thinkingLevel":%q},`, strings.ToUpper(q.effort)))+
			when(q.object, `"responseMimeType":"application/json",`), ",")
		return "/v1beta/models/" + model + ":generateContent", fmt.Sprintf(`{"switchyard":{"allow_substitution":false},%s%s%s"generationConfig":{%s},"contents":[%s]}`,
			when(q.system != "", `"systemInstruction":{"parts":[{"text":`+quoted(q.system)+`}]},`),
			when(q.tool != "", fmt.Sprintf(`"tools":[{"functionDeclarations":[{"name":%q,"parametersJsonSchema":%s}]}],`, q.tool, or(q.parameters, "{}"))),
			when(q.forced, fmt.Sprintf(`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[%q]}},`, q.tool)), settings, content)
	},
}

// chat returns the members that the contract and OpenAI's chat completions share.
func (q *question) chat(notice string) string {
	content := `{"role":"user","content":"` + or(q.user, "u") + `"}`
	if q.system != "" {
		content = `{"role":"system","content":` + quoted(q.system) + `},` + content
	}
	if q.document != "" {
		content += `,{"role":"user","content":[{"type":"text","text":"` + or(q.user, "q") + `"},{"type":"file","file":{"filename":"a.txt","file_data":"data:` + q.document + `;base64,` + q.data + `"}}]}`
	}
	content += when(q.called, `,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"`+q.tool+`","arguments":"{}"}}]},`+
		`{"role":"`+notice+`","content":"notice"},{"role":"tool","tool_call_id":"c1","content":"result"}`) +
		when(q.prefill != "", `,{"role":"assistant","content":"`+q.prefill+`"}`) + when(q.last != "", `,{"role":"user","content":"`+q.last+`"}`)
	return member("temperature", q.temperature) + member("top_p", q.topP) + member("max_tokens", q.maxTokens) + member("stop", q.stop) +
		when(q.schema != "", `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":`+q.schema+`}},`) +
		when(q.object, `"response_format":{"type":"json_object"},`) +
		when(q.tool != "", fmt.Sprintf(`"tools":[{"type":"function","function":{"name":%q,"strict":%v,"parameters":%s}}],`, q.tool, q.strict, or(q.parameters, "{}"))) +
		when(q.forced, fmt.Sprintf(`"tool_choice":{"type":"function","function":{"name":%q}},`, q.tool)) + `"messages":[` + content + `]`
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}

// limitedVendor answers in the dialect of the path: with a call of the offered function, or with a text if there is
// none.
func limitedVendor(w http.ResponseWriter, r *http.Request) {
	body := requestText(r)
	name := sentName.FindStringSubmatch(body)
	called := func(call, text string) string {
		if name == nil {
			return text
		}
		return strings.ReplaceAll(call, "NAME", name[1])
	}
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/responses"):
		fmt.Fprint(w, `{"object":"response","status":"completed","output":[`+called(`{"type":"function_call","call_id":"c2","name":"NAME","arguments":"{}"}`, `{"type":"message","content":[{"type":"output_text","text":"ok"}]}`)+`],"usage":{"input_tokens":1,"output_tokens":1}}`)
	case strings.HasSuffix(path, "/chat/completions"):
		fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant",`+called(`"tool_calls":[{"id":"c2","type":"function","function":{"name":"NAME","arguments":"{}"}}]`, `"content":"ok"`)+`},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	case strings.Contains(path, "/converse"):
		fmt.Fprint(w, `{"output":{"message":{"role":"assistant","content":[`+called(`{"toolUse":{"toolUseId":"c2","name":"NAME","input":{}}}`, `{"text":"ok"}`)+`]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`)
	case strings.Contains(path, ":generateContent"):
		fmt.Fprint(w, `{"candidates":[{"content":{"role":"model","parts":[`+called(`{"functionCall":{"id":"c2","name":"NAME","args":{}}}`, `{"text":"ok"}`)+`]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`)
	default:
		fmt.Fprint(w, `{"type":"message","role":"assistant","content":[`+called(`{"type":"tool_use","id":"c2","name":"NAME","input":{}}`, `{"type":"text","text":"ok"}`)+`],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	}
}

// sentName matches the name of the first function in a request of any dialect.
var sentName = regexp.MustCompile(`"(?:tools|functionDeclarations)":\[(?:\{"(?:toolSpec|functionDeclarations)":\[?|\{"type":"function",(?:"function":)?)?\{?"name":"([^"]+)"`)

// exchange is a question that was sent over a face, with its answer.
type exchange struct {
	answer

	t *testing.T

	face, host, dialect, model string
	// relayed reports whether the vendor takes the face's form, so that the body is relayed as far as it accepts that.
	relayed bool
	// sent is the request that the vendor got; empty if it was not called.
	sent string
}

func (e *exchange) claude() bool { return strings.Contains(e.model, "claude") }

// is reports whether the name of the model contains one of versions.
func (e *exchange) is(versions ...string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return strings.Contains(e.model, v) })
}

// eachLimit sends q to every model over every face, also where the face's body is relayed, and calls check with each
// exchange.
func eachLimit(t *testing.T, b *bench, q question, check func(e *exchange)) {
	t.Helper()
	for name, h := range limited {
		for _, model := range h.models {
			for face, write := range limitedFaces {
				path, body := write(name+"/"+model, &q)
				if path == "" {
					continue
				}
				t.Run(name+"/"+model+"/"+face, func(t *testing.T) {
					before := b.vendor.count()
					e := exchange{answer: b.say(t, "POST", path, body), t: t, face: face, host: name, dialect: h.dialect, model: model, relayed: h.takes(model, face)}
					if b.vendor.count() > before {
						e.sent = b.vendor.last()
					}
					check(&e)
					if t.Failed() {
						t.Logf("asked %s\nsent %s\n%d %s\nignored %q", body, e.sent, e.status, e.body, e.header.Get("X-Switchyard-Ignored"))
					}
				})
			}
		}
	}
}

func limitsBench(t *testing.T) *bench {
	t.Helper()
	b := setupWith(t, limitsPolicy())
	b.vendor.mu.Lock()
	b.vendor.fails = limitedVendor
	b.vendor.mu.Unlock()
	return b
}

// The matrix covers every dialect that chats and every SDK face.
func TestLimitsCoverAllDialectsAndFaces(t *testing.T) {
	for name := range strings.FieldsFuncSeq(adapter.Names(), func(c rune) bool { return c == ',' || c == ' ' }) {
		of, known := adapter.Find(name)
		if known && of.Operations.Has(provider.OperationChat) && limited[name].models == nil && !slices.Contains(uncalled, name) {
			t.Errorf("no models of %s", name)
		}
	}
	for _, face := range faceFields {
		if limitedFaces[face.dialect.Name()] == nil {
			t.Errorf("no face %s", face.dialect.Name())
		}
	}
}

// ignored returns the settings that the answer says were left out.
func (e *exchange) ignored() []string {
	return strings.Split(e.header.Get("X-Switchyard-Ignored"), ", ")
}

func (e *exchange) has(path string) bool { return gjson.Get(e.sent, path).Exists() }
