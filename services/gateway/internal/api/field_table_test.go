package api_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
adapters, so that it shows what the code does.

- **relayed**: the provider takes the request as it came.
- **mapped**: it gets the setting in its own form.
- **left out**: nothing of the answer depends on it.
- **named**: it is left out, and ` + "`X-Switchyard-Ignored`" + ` names it.
- **refused**: this provider can't serve the request; without another one it is a 400 that names the field.
`

// faceFields are the fields of a face with a value that has an effect. before completes the body.
var faceFields = []struct {
	title   string
	dialect dialect.Dialect
	before  string
	fields  []string
}{
	{"OpenAI: chat completions", openai.Dialect{}, `"messages":[{"role":"user","content":"hi"}]`, []string{
		`"temperature":0.5`, `"top_p":0.5`, `"max_completion_tokens":99`, `"stop":["a"]`, `"seed":7`, `"reasoning_effort":"low"`,
		`"response_format":{"type":"json_object"}`, `"tools":[{"type":"function","function":{"name":"f"}}]`, `"functions":[{"name":"f"}]`,
		`"user":"u"`, `"safety_identifier":"u"`, `"metadata":{"a":"b"}`, `"store":true`, `"prompt_cache_key":"k"`, `"verbosity":"low"`,
		`"service_tier":"auto"`, `"service_tier":"priority"`, `"n":2`, `"logprobs":true`, `"logit_bias":{"1":1}`, `"frequency_penalty":1`,
		`"presence_penalty":1`, `"prediction":{"type":"content","content":"a"}`, `"modalities":["text","audio"]`, `"web_search_options":{}`, `"brand_new":1`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]`,
	}},
	{"OpenAI: responses", responses.Dialect{}, `"input":"hi"`, []string{
		`"instructions":"a"`, `"temperature":0.5`, `"top_p":0.5`, `"max_output_tokens":99`, `"reasoning":{"effort":"low"}`,
		`"text":{"format":{"type":"json_object"}}`, `"text":{"verbosity":"low"}`, `"tools":[{"type":"function","name":"f"}]`,
		`"tools":[{"type":"custom","name":"f"}]`, `"tools":[{"type":"web_search"}]`, `"tools":[{"type":"local_shell"}]`,
		`"user":"u"`, `"safety_identifier":"u"`, `"metadata":{"a":"b"}`, `"prompt_cache_key":"k"`, `"client_metadata":{"a":"b"}`,
		`"max_tool_calls":3`, `"truncation":"auto"`, `"include":["reasoning.encrypted_content"]`, `"service_tier":"auto"`, `"service_tier":"priority"`,
		`"top_logprobs":2`, `"context_management":[{"type":"compaction"}]`, `"prompt":{"id":"p"}`, `"moderation":{}`, `"brand_new":1`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`,
	}},
	{"Anthropic: messages", anthropic.Dialect{}, `"max_tokens":64000,"messages":[{"role":"user","content":"hi"}]`, []string{
		`"system":"a"`, `"temperature":0.5`, `"top_p":0.5`, `"stop_sequences":["a"]`, `"thinking":{"type":"enabled","budget_tokens":2048}`,
		`"output_config":{"effort":"low"}`, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`, `"tools":[{"name":"f","input_schema":{}}]`,
		`"tools":[{"type":"web_search_20250305","name":"web_search"}]`, `"metadata":{"user_id":"u"}`, `"cache_control":{"type":"ephemeral"}`, `"top_k":5`,
		`"context_management":{"edits":[]}`, `"service_tier":"auto"`, `"service_tier":"standard_only"`, `"container":"c"`, `"mcp_servers":[{"type":"url"}]`,
		`"speed":"fast"`, `"inference_geo":"us"`, `"brand_new":1`,
	}},
	{"Gemini: generateContent", gemini.Dialect{}, `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`, []string{
		`"systemInstruction":{"parts":[{"text":"a"}]}`, `"generationConfig":{"temperature":0.5}`, `"generationConfig":{"topP":0.5}`, `"generationConfig":{"topK":5}`,
		`"generationConfig":{"maxOutputTokens":99}`, `"generationConfig":{"stopSequences":["a"]}`, `"generationConfig":{"seed":7}`,
		`"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}`, `"generationConfig":{"thinkingConfig":{"thinkingBudget":2048}}`,
		`"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`, `"generationConfig":{"responseMimeType":"application/json"}`,
		`"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"}}`, `"generationConfig":{"candidateCount":2}`,
		`"generationConfig":{"responseModalities":["IMAGE"]}`, `"generationConfig":{"responseLogprobs":true}`, `"generationConfig":{"presencePenalty":1}`,
		`"generationConfig":{"speechConfig":{"languageCode":"en"}}`, `"generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_LOW"}`,
		`"tools":[{"functionDeclarations":[{"name":"f"}]}]`, `"tools":[{"googleSearch":{}}]`, `"tools":[{"codeExecution":{}}]`, `"tools":[{"brandNew":{}}]`,
		`"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT"}]`, `"labels":{"a":"b"}`, `"cachedContent":"cachedContents/a"`,
		`"serviceTier":"standard"`, `"serviceTier":"flex"`, `"brand_new":1`,
	}},
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
	{"Anthropic", "anthropic", "claude-opus-4-6", provider.Settings{BaseURL: "https://api.anthropic.com"}},
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
	_, _ = p.(provider.ChatProvider).Chat(context.Background(), provider.Credential{}, &chat)
	return wire.sent, wire.sent != ""
}

// becomes returns what becomes of a field at a kind of provider.
func (k kindOfProvider) becomes(t *testing.T, d dialect.Dialect, without, with *dialect.Chat) string {
	t.Helper()
	of, _ := adapter.Find(k.dialect)
	if slices.Contains(of.FormsOf(k.settings), d.Name()) {
		return "relayed"
	}
	if with.Only != "" {
		return "refused"
	}
	plain, _ := k.sends(t, without.Chat)
	sent, ok := k.sends(t, with.Chat)
	switch {
	case !ok:
		return "refused"
	case sent != plain:
		return "mapped"
	case len(with.Unknown) > 0, with.CachePoint != "" && !of.CachePoints:
		return "named"
	}
	return "left out"
}

// bodyOf returns a body with a field, which replaces the one that before begins with if it is the same.
func bodyOf(before, field string) []byte {
	name, _, _ := strings.Cut(before, ":")
	if strings.HasPrefix(field, name+":") {
		return []byte("{" + field + "}")
	}
	return []byte("{" + before + "," + field + "}")
}

// The table of fields in the documents is what the faces and the adapters do. -update-fields writes it.
func TestFieldsAreDocumented(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(fieldTableHead)
	for _, face := range faceFields {
		titles := []string{}
		for _, k := range kindsOfProviders {
			titles = append(titles, k.title)
		}
		fmt.Fprintf(&doc, "\n## %s\n\n| Field | %s |\n|%s\n", face.title, strings.Join(titles, " | "), strings.Repeat(" --- |", len(titles)+1))
		without, err := face.dialect.Chat([]byte("{"+face.before+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range face.fields {
			with, err := face.dialect.Chat(bodyOf(face.before, field), nil)
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			row := []string{"`" + strings.ReplaceAll(field, `"`, "") + "`"}
			for _, k := range kindsOfProviders {
				row = append(row, k.becomes(t, face.dialect, without, with))
			}
			fmt.Fprintf(&doc, "| %s |\n", strings.Join(row, " | "))
		}
	}
	if *updateFields {
		if err := os.WriteFile(fieldTable, []byte(doc.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(fieldTable)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), doc.String()); diff != "" {
		t.Errorf("%s; -update-fields writes it (-document +code):\n%s", fieldTable, diff)
	}
}

// Hints shut no vendor out, whatever else changes.
func TestHintsShutNoVendorOut(t *testing.T) {
	hints := []string{"user", "safety_identifier", "metadata", "store", "prompt_cache_key", "verbosity", "service_tier\":\"auto", "cache_control", "reasoning", "thinking", "functions", "brand_new"}
	for _, face := range faceFields {
		for _, field := range face.fields {
			if !slices.ContainsFunc(hints, func(hint string) bool { return strings.HasPrefix(field, `"`+hint) }) {
				continue
			}
			with, err := face.dialect.Chat(bodyOf(face.before, field), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range kindsOfProviders {
				if _, ok := k.sends(t, with.Chat); !ok || with.Only != "" {
					t.Errorf("%s, %s: refused by %s", face.title, field, k.title)
				}
			}
		}
	}
}
