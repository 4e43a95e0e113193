package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/anthropic"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/gemini"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/vendors/adapter"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

var updateFields = flag.Bool("update-fields", false, "write docs/fields.md anew")

// fieldTable is the document that the test writes and compares.
const fieldTable = "../../docs/fields.md"

const fieldTableHead = `# What becomes of a field

A face's fields at each kind of provider. The table is written by a test that sends each field through the faces and the
adapters, so that it shows what the code does. Its fields are those of the lists that the faces read by (` + "`field.go`" + ` in
` + "`internal/api/openai`, `responses`, `anthropic` and `gemini`" + `); the test fails if one is missing on either side.

- **relayed**: the provider takes the request as it came.
- **mapped**: it gets the setting in its own form.
- **named**: it serves without the setting, and ` + "`X-Switchyard-Ignored`" + ` names it.
- **satisfied**: it need not be told: the gateway does it itself, or the provider does so anyway.
- **refused**: this provider can't serve the request; without another one it is a 400 that names the field.

The models are gpt-5, claude-opus-4-6 (at Bedrock, too) and gemini-3-flash, and a Llama at a compatible server.
Penalties are mapped for models that take them: Gemini's before 2.5, and those of OpenAI and of compatible servers that
don't reason. In a body that is relayed, what is mapped is something that the vendor would refuse.
`

// faceFields are values of a face's fields, each of which has an effect unless the provider is satisfied without. before
// completes the body.
var faceFields = []struct {
	title   string
	dialect dialect.Dialect
	before  string
	samples []string
}{
	{"OpenAI: chat completions", openai.Dialect{}, `"messages":[{"role":"user","content":"hi"}]`, []string{
		`"model":"m"`, `"stream":true`, `"stream_options":{"include_usage":true}`, `"stream_options":{"include_obfuscation":true}`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]`,
		`"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]`,
		`"temperature":0.5`, `"top_p":0.5`, `"max_completion_tokens":99`, `"max_tokens":99`, `"stop":["a"]`, `"reasoning_effort":"low"`, `"reasoning":{"effort":"low"}`,
		`"response_format":{"type":"json_object"}`, `"tools":[{"type":"function","function":{"name":"f"}}]`, `"tools":[{"type":"custom","custom":{"name":"f"}}]`,
		`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f"}}]`, `"functions":[{"name":"f"}]`, `"function_call":{"name":"f"},"functions":[{"name":"f"}]`,
		`"parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f"}}]`, `"parallel_tool_calls":true`,
		`"seed":7`, `"frequency_penalty":1`, `"presence_penalty":1`, `"logit_bias":{"1":1}`, `"prediction":{"type":"content","content":"a"}`, `"moderation":{"model":"m"}`,
		`"verbosity":"low"`, `"user":"u"`, `"safety_identifier":"u"`, `"metadata":{"a":"b"}`, `"store":true`, `"store":false`,
		`"prompt_cache_key":"k"`, `"prompt_cache_retention":"24h"`, `"prompt_cache_options":{"ttl":"30m"}`,
		`"n":2`, `"logprobs":true`, `"top_logprobs":2`, `"audio":{"voice":"a"}`, `"modalities":["text","audio"]`, `"web_search_options":{}`,
		`"service_tier":"auto"`, `"service_tier":"default"`, `"service_tier":"flex"`, `"service_tier":"priority"`, `"brand_new":1`,
	}},
	{"OpenAI: responses", responses.Dialect{}, `"input":"hi"`, []string{
		`"model":"m"`, `"stream":true`, `"stream_options":{"include_obfuscation":false}`, `"stream_options":{"include_obfuscation":true}`, `"store":true`, `"store":false`, `"background":true`,
		`"previous_response_id":null`, `"include":["reasoning.encrypted_content"]`, `"include":["file_search_call.results"]`, `"include":["message.output_text.logprobs"]`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`,
		`"instructions":"a"`, `"temperature":0.5`, `"top_p":0.5`, `"max_output_tokens":99`, `"reasoning":{"effort":"low"}`,
		`"text":{"format":{"type":"json_object"}}`, `"text":{"verbosity":"low"}`, `"tools":[{"type":"function","name":"f"}]`,
		`"tools":[{"type":"custom","name":"f"}]`, `"tools":[{"type":"web_search"}]`, `"tools":[{"type":"local_shell"}]`,
		`"tool_choice":"required","tools":[{"type":"function","name":"f"}]`, `"tool_choice":{"type":"web_search"},"tools":[{"type":"web_search"}]`,
		`"parallel_tool_calls":false,"tools":[{"type":"function","name":"f"}]`, `"user":"u"`, `"safety_identifier":"u"`, `"metadata":{"a":"b"}`, `"client_metadata":{"a":"b"}`,
		`"prompt_cache_key":"k"`, `"prompt_cache_retention":"24h"`, `"prompt_cache_options":{"ttl":"30m"}`, `"max_tool_calls":3`, `"truncation":"auto"`, `"truncation":"disabled"`,
		`"context_management":[{"type":"compaction"}]`, `"moderation":{"model":"m"}`, `"prompt":{"id":"p"}`, `"top_logprobs":2`,
		`"service_tier":"auto"`, `"service_tier":"default"`, `"service_tier":"priority"`, `"access_programs":["a"]`, `"brand_new":1`,
	}},
	{"Anthropic: messages", anthropic.Dialect{}, `"max_tokens":64000,"messages":[{"role":"user","content":"hi"}]`, []string{
		`"model":"m"`, `"stream":true`, `"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]`,
		`"system":"a"`, `"max_tokens":99`, `"temperature":0.5`, `"top_p":0.5`, `"stop_sequences":["a"]`, `"thinking":{"type":"enabled","budget_tokens":2048}`,
		`"thinking":{"type":"adaptive","display":"omitted"}`, `"output_config":{"effort":"low"}`, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`,
		`"output_format":{"type":"json_schema","schema":{"type":"object"}}`, `"tools":[{"name":"f","input_schema":{}}]`, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`,
		`"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":{}}]`, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"tools":[{"name":"f","input_schema":{}}]`,
		`"metadata":{"user_id":"u"}`, `"cache_control":{"type":"ephemeral"}`, `"top_k":5`, `"context_management":{"edits":[]}`,
		`"service_tier":"auto"`, `"service_tier":"standard_only"`, `"container":"c"`, `"mcp_servers":[{"type":"url"}]`,
		`"speed":"standard"`, `"speed":"fast"`, `"inference_geo":"us"`, `"fallbacks":[{"model":"m"}]`, `"brand_new":1`,
	}},
	{"Gemini: generateContent", gemini.Dialect{}, `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`, []string{
		`"model":"models/m"`, `"contents":[{"role":"user","parts":[{"fileData":{"fileUri":"gs://a/b","mimeType":"image/png"}}]}]`,
		`"systemInstruction":{"parts":[{"text":"a"}]}`, `"generationConfig":{}`, `"generationConfig":{"temperature":0.5}`, `"generationConfig":{"topP":0.5}`,
		`"generationConfig":{"maxOutputTokens":99}`, `"generationConfig":{"stopSequences":["a"]}`,
		`"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}`, `"generationConfig":{"thinkingConfig":{"thinkingBudget":2048}}`,
		`"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`, `"generationConfig":{"responseMimeType":"application/json"}`,
		`"generationConfig":{"responseSchema":{"type":"OBJECT"},"responseMimeType":"application/json"}`,
		`"generationConfig":{"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json"}`,
		`"generationConfig":{"responseModalities":["IMAGE"]}`, `"generationConfig":{"seed":7}`, `"generationConfig":{"presencePenalty":1}`, `"generationConfig":{"frequencyPenalty":1}`,
		`"generationConfig":{"topK":5}`, `"generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_LOW"}`, `"generationConfig":{"imageConfig":{"aspectRatio":"1:1"}}`,
		`"generationConfig":{"audioTimestamp":true}`, `"generationConfig":{"enableAffectiveDialog":true}`, `"generationConfig":{"enableEnhancedCivicAnswers":true}`,
		`"generationConfig":{"modelSelectionConfig":{}}`, `"generationConfig":{"candidateCount":2}`, `"generationConfig":{"responseLogprobs":true}`, `"generationConfig":{"logprobs":2}`,
		`"generationConfig":{"speechConfig":{"languageCode":"en"}}`, `"generationConfig":{"audioTranscriptionConfig":{"a":1}}`, `"generationConfig":{"routingConfig":{"a":1}}`,
		`"tools":[{"functionDeclarations":[{"name":"f"}]}]`, `"tools":[{"googleSearch":{}}]`, `"tools":[{"codeExecution":{}}]`, `"tools":[{"brandNew":{}}]`,
		`"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},"tools":[{"functionDeclarations":[{"name":"f"}]}]`,
		`"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT"}]`, `"labels":{"a":"b"}`, `"store":true`, `"store":false`, `"cachedContent":"cachedContents/a"`, `"continuationToken":"t"`,
		`"serviceTier":"standard"`, `"serviceTier":"flex"`, `"brand_new":1`,
	}},
}

// satisfied are samples of fields that the gateway doesn't handle itself and whose values no list calls a default, though
// a provider need not be told of them.
var satisfied = []string{
	`"generationConfig":{}`, // It holds nothing.
	`"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`, // The face shows what thoughts there are.
}

// capture records what is sent, and answers with an error.
type capture struct{ sent string }

func (c *capture) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	c.sent = string(body)
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, err
}

// kindOfProvider is a column of the table.
type kindOfProvider struct {
	title, dialect, model string
	settings              provider.Settings
}

var kindsOfProviders = []kindOfProvider{
	{"OpenAI, chat", "openai", "gpt-5", provider.Settings{BaseURL: "https://api.openai.com", Responses: new(false)}},
	{"OpenAI, responses", "openai", "gpt-5", provider.Settings{BaseURL: "https://api.openai.com"}},
	{"Compatible", "openai", "llama-3", provider.Settings{BaseURL: "https://vendor.example"}},
	{"Anthropic", "anthropic", "claude-opus-4-6", provider.Settings{BaseURL: "https://api.anthropic.com"}},
	{"Bedrock", "bedrock", "anthropic.claude-opus-4-6-v1", provider.Settings{BaseURL: "https://bedrock-runtime.eu-west-1.amazonaws.com"}},
	{"Gemini", "gemini", "gemini-3-flash", provider.Settings{BaseURL: "https://generativelanguage.googleapis.com"}},
}

// sends returns what a provider of the kind is sent for a chat; false where its adapter refuses.
func (k kindOfProvider) sends(t *testing.T, chat provider.Chat) (string, bool) {
	t.Helper()
	d, _ := adapter.Find(k.dialect)
	wire := &capture{}
	settings := k.settings
	settings.Transport = wire
	p, err := d.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	chat.Model = k.model
	sent := &chat
	if chat.Native == nil || !slices.Contains(d.FormsOf(k.settings)(k.model), chat.Native.Dialect) {
		terms := d.TermsOf(k.model)
		fitted, err := terms.Fit(&chat)
		if err != nil {
			return "", false
		}
		sent = fitted.Chat
	}
	_, _ = p.(provider.ChatProvider).Chat(context.Background(), provider.Credential{}, sent)
	return wire.sent, wire.sent != ""
}

// ignores reports whether a provider of this kind serves the chat but leaves a setting out.
func (k kindOfProvider) ignores(with *dialect.Chat) bool {
	of, _ := adapter.Find(k.dialect)
	chat, terms := with.Chat, of.TermsOf(k.model)
	chat.Model = k.model
	fitted, err := terms.Fit(&chat)
	takes := of.HintsOf(k.settings)(k.model) | provider.HintSettings
	return err == nil && (fitted.Left&provider.HintEffort != 0 || len(provider.Ignored(with.Hints, takes&^fitted.Left, "")) > 0)
}

// becomes returns what becomes of a field at a kind of provider.
func (k kindOfProvider) becomes(t *testing.T, d dialect.Dialect, without, with *dialect.Chat) string {
	t.Helper()
	of, _ := adapter.Find(k.dialect)
	if slices.Contains(of.FormsOf(k.settings)(k.model), d.Name()) {
		if becomes := k.relays(t, with); becomes != "" {
			return becomes
		}
	}
	if with.Only != "" {
		return "refused"
	}
	translated := func(of *dialect.Chat) provider.Chat {
		chat := of.Chat
		chat.Native = nil
		return chat
	}
	plain, _ := k.sends(t, translated(without))
	sent, ok := k.sends(t, translated(with))
	switch {
	case !ok:
		return "refused"
	case k.ignores(with):
		return "named"
	case sent != plain:
		return "mapped"
	}
	return "satisfied"
}

// relays returns what becomes of a field at a kind of provider that takes the body; empty if the vendor would refuse the
// body, so that it is encoded anew.
func (k kindOfProvider) relays(t *testing.T, with *dialect.Chat) string {
	t.Helper()
	of, _ := adapter.Find(k.dialect)
	chat, terms := with.Chat, of.TermsOf(k.model)
	chat.Model = k.model
	p, err := of.New(k.settings)
	if err != nil {
		t.Fatal(err)
	}
	fitted, err := terms.FitRelayed(&chat)
	relaying, isAsked := p.(provider.Relaying)
	_, ok := k.sends(t, with.Chat)
	switch {
	case !ok, err != nil && with.Only == "":
		return "refused"
	case with.Only == "" && (fitted.Rewritten || isAsked && !relaying.CanRelay(&chat)):
		return ""
	case err == nil && len(provider.Named(with.Hints, fitted.Left)) > 0:
		return "named"
	}
	return "relayed"
}

// bodiesOf returns a body with a sample, which replaces the fields of before that it has too, and the same without the
// field that it is of.
func bodiesOf(t *testing.T, before, sample string) (with, without []byte) {
	t.Helper()
	var body map[string]json.RawMessage
	for _, part := range []string{before, sample} {
		if err := json.Unmarshal([]byte("{"+part+"}"), &body); err != nil {
			t.Fatalf("%s: %v", part, err)
		}
	}
	with, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := fieldOf(sample)
	if instead := gjson.Get("{"+before+"}", name); instead.Exists() {
		without, err = sjson.SetRawBytes(with, name, []byte(instead.Raw))
	} else {
		without, err = sjson.DeleteBytes(with, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return with, without
}

// chatsOf returns the chats of bodiesOf.
func chatsOf(t *testing.T, d dialect.Dialect, before, sample string) (with, without *dialect.Chat) {
	t.Helper()
	sampled, plain := bodiesOf(t, before, sample)
	with, err := d.Chat(bytes.Clone(sampled), nil)
	if err == nil {
		without, err = d.Chat(plain, nil)
	}
	if err != nil {
		t.Fatalf("%s: %v", sample, err)
	}
	return with, without
}

// fieldOf returns the field that a sample is of, and its value: the first, which may be within generationConfig.
func fieldOf(sample string) (name string, value json.RawMessage) {
	first := func(object string) (name string, value gjson.Result) {
		gjson.Parse(object).ForEach(func(key, of gjson.Result) bool {
			name, value = key.Str, of
			return false
		})
		return name, value
	}
	name, of := first("{" + sample + "}")
	if name == "generationConfig" && len(of.Map()) > 0 {
		inner, within := first(of.Raw)
		name, of = name+"."+inner, within
	}
	return name, json.RawMessage(of.Raw)
}

// check returns what is wrong with what becomes of a sample, given what the face's list calls its field; empty for
// nothing.
func check(of *dialect.Field, sample, becomes string) string {
	_, value := fieldOf(sample)
	switch isDefault := of != nil && of.IsDefault(value); {
	case of == nil && becomes != "named" && becomes != "relayed":
		return "want an unknown field named"
	case becomes == "satisfied" && !isDefault && of.Class != dialect.Handled && !slices.Contains(satisfied, sample):
		return "nothing says why it is satisfied"
	case of != nil && of.Class == dialect.Hint && becomes == "refused":
		return "want no vendor shut out by a hint"
	case of != nil && of.Class == dialect.Own && !isDefault && becomes != "refused" && becomes != "relayed":
		return "want it refused: only its own dialect has it"
	}
	return ""
}

// The table of fields in the documents is what the faces and the adapters do, and its fields are those of the faces'
// lists. -update-fields writes it.
func TestFieldsAreDocumented(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(fieldTableHead)
	for _, face := range faceFields {
		titles := []string{}
		for _, k := range kindsOfProviders {
			titles = append(titles, k.title)
		}
		fmt.Fprintf(&doc, "\n## %s\n\n| Field | %s |\n|%s\n", face.title, strings.Join(titles, " | "), strings.Repeat(" --- |", len(titles)+1))
		shown := map[string]bool{}
		for _, sample := range face.samples {
			with, without := chatsOf(t, face.dialect, face.before, sample)
			name, _ := fieldOf(sample)
			shown[name] = true
			of := face.dialect.Fields().Find(name)
			row := []string{"`" + strings.ReplaceAll(sample, `"`, "") + "`"}
			for _, k := range kindsOfProviders {
				becomes := k.becomes(t, face.dialect, without, with)
				row = append(row, becomes)
				if wrong := check(of, sample, becomes); wrong != "" {
					t.Errorf("%s, %s at %s is %s: %s", face.title, sample, k.title, becomes, wrong)
				}
			}
			fmt.Fprintf(&doc, "| %s |\n", strings.Join(row, " | "))
		}
		for _, name := range face.dialect.Fields().Names() {
			if !shown[name] {
				t.Errorf("%s: no sample of %s", face.title, name)
			}
		}
	}
	compareFields(t, doc.String())
}

// compareFields compares the document with what it is to be, or writes it.
func compareFields(t *testing.T, want string) {
	t.Helper()
	if *updateFields {
		if err := os.WriteFile(fieldTable, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(fieldTable)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("%s; -update-fields writes it (-document +code):\n%s", fieldTable, diff)
	}
}
