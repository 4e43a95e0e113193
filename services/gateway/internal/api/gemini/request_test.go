package gemini

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/platform/apierr"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// read is what a request becomes, in the golden files.
type read struct {
	Model, Only string
	Unknown     []string
	Bounds      any
	Reasoning   *provider.Reasoning
	Chat        provider.Chat
}

// bodies are the requests whose reading is in the golden files of the same name.
func bodies() map[string]string {
	own := vendor.Signature(json.RawMessage(`{"anthropic":{"lead":[]}}`))
	return map[string]string{
		"text": `{"model":"models/m","contents":[{"parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"}]}],"systemInstruction":{"role":"user","parts":[{"text":"be kind"}]}}`,
		"settings": `{` + hi + `,"generationConfig":{"temperature":0.5,"topP":0.9,"topK":40,"maxOutputTokens":7,"stopSequences":["x"],"seed":3,"candidateCount":1,
			"responseModalities":["TEXT"],"presencePenalty":0,"thinkingConfig":{"thinkingBudget":2048,"includeThoughts":true},"unheardOf":1},"safetySettings":[{"category":"X"}],"labels":{},"unheard_of":1}`,
		"snake_case": `{"contents":[{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"AA-_"}}]}],"system_instruction":{"parts":[{"text":"s"}]},
			"generation_config":{"max_output_tokens":5,"response_mime_type":"application/json","thinking_config":{"thinking_level":"LOW"}},
			"tools":[{"function_declarations":[{"name":"f"}]}],"tool_config":{"function_calling_config":{"mode":"ANY"}}}`,
		"tools": `{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING","nullable":true,"enum":["x"]}},"required":["a"],"propertyOrdering":["a"]},"behavior":"BLOCKING"},
			{"name":"g","parametersJsonSchema":{"type":"object"}},{"name":"h"}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]},"retrievalConfig":{}}}`,
		"calls": `{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"QUJD"},{"text":"I call"},
			{"functionCall":{"name":"f","args":{"a": 1}},"thoughtSignature":"QUJD"},{"functionCall":{"id":"x","name":"g"},"thoughtSignature":"` + own + `"},{"functionCall":{"name":"f","args":{"a":2}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"x","name":"g","response":{"output":"three"}}},{"functionResponse":{"name":"f","response":{"result":"one"}}},
			{"functionResponse":{"name":"f","response":{"error":"two"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}},{"text":"go on"}]}]}`,
		"media":       `{"contents":[{"parts":[{"inlineData":{"mimeType":"application/pdf","data":"AAAA","displayName":"a.pdf"}},{"fileData":{"mimeType":"image/png","fileUri":"https://images.example/a.png"},"mediaResolution":{"level":"X"}},{"fileData":{"mimeType":"application/pdf","fileUri":"https://images.example/a.pdf"}}]}]}`,
		"schema":      `{` + hi + `,"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"ARRAY","items":{"type":"INTEGER","format":"int32"},"minItems":"1"}}}`,
		"json_schema": `{` + hi + `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`,
		"own_tools":   `{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"executableCode":{"code":"1"}},{"codeExecutionResult":{"output":"1"}},{"text":"it is 1"}]}]}`,
		"no_thinking": `{` + hi + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`,
	}
}

func TestChat(t *testing.T) {
	for name, body := range bodies() {
		t.Run(name, func(t *testing.T) {
			got, err := Dialect{}.Chat([]byte(body), nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Chat.Native.Body) != body || got.Chat.Native.Dialect != "gemini" {
				t.Errorf("a vendor of the dialect gets %s", got.Chat.Native.Body)
			}
			got.Chat.Native = nil
			compact, err := jsontext.Marshal(read{got.Model, got.Only, provider.Ignored(got.Hints, provider.HintSettings, ""), got.Bounds, got.Chat.Reasoning, got.Chat})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.MarshalIndent(compact, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".request.json", string(text)+"\n")
		})
	}
}

// What only this dialect has shuts the others out, by its path.
func TestOnly(t *testing.T) {
	for body, want := range map[string]string{
		`"generationConfig":{"candidateCount":2}`:                                             "generationConfig.candidateCount",
		`"generationConfig":{"responseModalities":["TEXT","IMAGE"]}`:                          "generationConfig.responseModalities[1]",
		`"generationConfig":{"responseLogprobs":true}`:                                        "generationConfig.responseLogprobs",
		`"generationConfig":{"logprobs":3}`:                                                   "generationConfig.logprobs",
		`"serviceTier":"Standard","cachedContent":"","generationConfig":{"candidateCount":1}`: "",
		`"generationConfig":{"speechConfig":{"voiceConfig":{}}}`:                              "generationConfig.speechConfig",
		`"generationConfig":{"responseMimeType":"text/x.enum"}`:                               "generationConfig.responseMimeType",
		`"generationConfig":{"thinkingConfig":{"thinkingLevel":"BRISK"}}`:                     "generationConfig.thinkingConfig.thinkingLevel",
		`"cachedContent":"cachedContents/a"`:                                                  "cachedContent",
		`"serviceTier":"flex"`:                                                                "serviceTier",
		`"tools":[{"brandNew":{}}]`:                                                           "tools[0].brandNew",
		`"systemInstruction":{"parts":[{"inlineData":{"mimeType":"image/png","data":""}}]}`:   "systemInstruction.parts[0]",
	} {
		got, err := Dialect{}.Chat([]byte("{"+hi+","+body+"}"), nil)
		if err != nil || got.Only != want {
			t.Errorf("%s: only %q, %v, want %q", body, got.Only, err, want)
		}
	}
	for part, want := range map[string]string{
		`{"inlineData":{"mimeType":"audio/wav","data":""}}`:                                                          "contents[0].parts[0].inlineData.mimeType",
		`{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a","mimeType":"image/png"}}`: "contents[0].parts[0].fileData.fileUri",
		`{"fileData":{"fileUri":"gs://a/b","mimeType":"image/png"}}`:                                                 "contents[0].parts[0].fileData.fileUri",
		`{"executableCode":{}}`: "contents",
	} {
		got, err := Dialect{}.Chat([]byte(`{"contents":[{"parts":[`+part+`]}]}`), nil)
		if err != nil || got.Only != want {
			t.Errorf("%s: only %q, %v, want %q", part, got.Only, err, want)
		}
	}
	got, err := Dialect{}.Chat([]byte(`{"contents":[{"role":"model","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]}`), nil)
	if err != nil || got.Only != "contents[0].parts[0]" {
		t.Errorf("an image of the model: only %q, %v", got.Only, err)
	}
}

func TestChatRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                                      "body: invalid JSON",
		`[]`:                                    "body: must be a JSON object",
		`{}`:                                    "contents: must hold a content",
		`{"contents":{}}`:                       "contents: must be an array",
		`{"contents":[1]}`:                      "contents[0]: must be a JSON object",
		`{"Contents":[]}`:                       `Contents: unknown field; write "contents"`,
		`{"contents":[],"contents":[]}`:         `body: holds the name "contents" twice`,
		`{"contents":[{"role":"system"}]}`:      "contents[0].role: must be user or model",
		`{"contents":[{"parts":[{"text":1}]}]}`: "contents[0].parts[0].text: has the wrong JSON type",
		`{"contents":[{"parts":[{"functionCall":{"name":"f"}}]}]}`:                                                                                          "contents[0].parts[0].functionCall: is for turns of the model",
		`{"contents":[{"role":"model","parts":[{"functionCall":{}}]}]}`:                                                                                     "contents[0].parts[0].functionCall.name: is required",
		`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":1}}]}]}`:                                                                  "contents[0].parts[0].functionCall.args: must be an object",
		`{"contents":[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"a","name":"f"}}]}]}`:                           "contents[0].parts[1].functionCall.id: a call before it has the same",
		`{"contents":[{"parts":[{"functionResponse":{"name":"f"}}]}]}`:                                                                                      "contents[0].parts[0].functionResponse: no call before it waits",
		`{"contents":[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}}]},{"parts":[{"functionResponse":{"id":"b","name":"f"}}]}]}`:           "contents[1].parts[0].functionResponse: no call before it waits",
		`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","response":[]}}]}]}`:               "contents[1].parts[0].functionResponse.response: must be an object",
		`{"contents":[{"role":"model","parts":[{"functionResponse":{"name":"f"}}]}]}`:                                                                       "contents[0].parts[0].functionResponse: is for turns of the user",
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png;base64,x","data":""}}]}]}`:                                                             "contents[0].parts[0].inlineData.mimeType: must be a media type",
		`{"contents":[{"parts":[{"fileData":{}}]}]}`:                                                                                                        "contents[0].parts[0].fileData.fileUri: is required",
		`{` + hi + `,"generationConfig":{"maxOutputTokens":1e2}}`:                                                                                           "generationConfig.maxOutputTokens: must be a whole number from 1 to 10000000",
		`{` + hi + `,"generationConfig":{"maxOutputTokens":5,"max_output_tokens":9}}`:                                                                       "generationConfig.maxOutputTokens: is there twice",
		`{` + hi + `,"generationConfig":{"MaxOutputTokens":5}}`:                                                                                             `generationConfig.MaxOutputTokens: unknown field; write "maxOutputTokens"`,
		`{` + hi + `,"generationConfig":{"candidateCount":0}}`:                                                                                              "generationConfig.candidateCount: must be a whole number from 1 to 128",
		`{` + hi + `,"generationConfig":{"temperature":"hot"}}`:                                                                                             "generationConfig.temperature: has the wrong JSON type",
		`{` + hi + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":1}}}`:                                                     "generationConfig.thinkingConfig.thinkingLevel: excludes thinkingBudget",
		`{` + hi + `,"generationConfig":{"responseMimeType":"application/json","responseSchema":{},"responseJsonSchema":{}}}`:                               "generationConfig.responseSchema: excludes responseJsonSchema",
		`{` + hi + `,"generationConfig":{"responseMimeType":"application/json","responseSchema":[]}}`:                                                       "generationConfig.responseSchema: holds a schema that is not an object",
		`{` + hi + `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":[]}}`:                                                   "generationConfig.responseJsonSchema: must be an object",
		`{` + hi + `,"tools":[{"functionDeclarations":[{}]}]}`:                                                                                              "tools[0].functionDeclarations[0].name: is required",
		`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"},{"name":"f"}]}]}`:                                                                       "tools[0].functionDeclarations[1].name: appears twice",
		`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"items":{"type":1}}}]}]}`:                                                  "tools[0].functionDeclarations[0].parameters: holds a type that is not a string",
		`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{},"parametersJsonSchema":{}}]}]}`:                                          "tools[0].functionDeclarations[0].parameters: excludes parametersJsonSchema",
		`{` + hi + `,"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}}`:                                                                               "toolConfig.functionCallingConfig.mode: must be AUTO, ANY, NONE or VALIDATED",
		`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}}}`: "toolConfig.functionCallingConfig.allowedFunctionNames[0]: must be one of the functions",
	} {
		_, err := Dialect{}.Chat([]byte(body), nil)
		if err == nil || !strings.HasPrefix(apierr.From(err).Text, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestModelOfThePath(t *testing.T) {
	for _, c := range []struct{ body, path, want string }{
		{`{` + hi + `}`, "a/b", "a/b"}, {`{"model":"models/a",` + hi + `}`, "", "a"}, {`{"model":"models/a",` + hi + `}`, "a", "a"}, {`{"model":"b",` + hi + `}`, "a", ""},
	} {
		got, err := Read([]byte(c.body), Call{Model: c.path})
		if (err != nil) != (c.want == "") || err == nil && got.Model != c.want {
			t.Errorf("%s at %q: %+v, %v, want %q", c.body, c.path, got, err, c.want)
		}
		if err != nil {
			continue
		}
		again, err := Dialect{}.Chat(WithModel([]byte(c.body), c.path), nil)
		if err != nil || again.Model != c.want {
			t.Errorf("%s at %q: %+v, %v when it is read again", c.body, c.path, again, err)
		}
	}
	if got := string(WithModel([]byte(` { } `), `a"b`)); got != `{"model":"a\"b" }` {
		t.Errorf("an empty object became %s", got)
	}
}

func TestLocalize(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: `{"systemInstruction":{"parts":[{"text":"i"}]}}`,
		`{"systemInstruction":{"role":"user","parts":[{"text":"a"}]}}`: `{"systemInstruction":{"parts":[{"text":"i"},{"text":"a"}]}}`,
		`{"system_instruction":{"parts":[ ]}}`:                         `{"system_instruction":{"parts":[{"text":"i"}]}}`,
	} {
		got, err := localize([]byte(body), "i")
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

func TestEmbedding(t *testing.T) {
	for body, want := range map[string]Embedding{
		`{"content":{"parts":[{"text":"a"},{"text":"b"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":8}`:                                 {Model: "m", Texts: []string{"ab"}, Dimensions: 8, Unknown: []string{"taskType"}},
		`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]},"title":"t"}],"switchyard":{}}`: {Model: "m", Texts: []string{"a", "b"}, Unknown: []string{"title"}, Batch: true, Extension: []byte("{}")},
	} {
		got, err := ReadEmbedding([]byte(body), "m")
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	for body, want := range map[string]string{
		`{}`:                       "content: is required",
		`{"requests":[]}`:          "requests: must hold 1 to 2048 requests",
		`{"content":{"parts":[]}}`: "content: must hold a text",
		`{"content":{"parts":[{"inlineData":{}}]}}`:                                                                         "content.parts[0]: must be a text",
		`{"requests":[{"model":"models/x","content":{"parts":[{"text":"a"}]}}]}`:                                            "requests[0].model: must be the model of the path",
		`{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"a"}]},"outputDimensionality":8}]}`: "requests[1].outputDimensionality: must be that of the requests before it",
		`{"content":{"parts":[{"text":"a"}]},"output_dimensionality":0}`:                                                    "outputDimensionality: must be a whole number",
	} {
		if _, err := ReadEmbedding([]byte(body), "m"); err == nil || !strings.HasPrefix(apierr.From(err).Text, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestCount(t *testing.T) {
	for body, ok := range map[string]bool{
		`{` + hi + `}`: true, `{"generateContentRequest":{"model":"models/m",` + hi + `}}`: true,
		`{"generateContentRequest":{` + hi + `},` + hi + `}`: false, `{}`: false, `{"generateContentRequest":{}}`: false,
	} {
		if _, err := ReadCount([]byte(body), "m"); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func FuzzChat(f *testing.F) {
	var seeds []string
	for _, body := range bodies() {
		seeds = append(seeds, body)
	}
	dialecttest.FuzzChat(f, Dialect{}, seeds...)
}

func FuzzEmbedding(f *testing.F) {
	f.Add([]byte(`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}}]}`))
	f.Add([]byte(`{"content":{"parts":[{"text":"a"}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := ReadEmbedding(body, "")
		if err != nil {
			return
		}
		again, err := ReadEmbedding(WithModel(body, e.Model), "")
		if len(e.Texts) == 0 || err != nil || again.Model != e.Model {
			t.Errorf("%q became %+v, then %+v, %v", body, e, again, err)
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"OBJECT","nullable":true,"properties":{"a":{"type":"STRING"}},"anyOf":[{}],"minItems":"1"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		object, err := dialect.Parse(raw)
		if err != nil || object == nil {
			return
		}
		got, err := jsonSchema("p", raw)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Errorf("%q became %q", raw, got)
		}
	})
}

func TestSchema(t *testing.T) {
	for google, want := range map[string]string{
		`{}`:                          `{}`,
		`{"type":"STRING"}`:           `{"type":"string"}`,
		`{"type":"TYPE_UNSPECIFIED"}`: `{}`,
		`{"nullable":true,"type":"NUMBER","format":"double"}`: `{"format":"double","type":["number","null"]}`,
		`{"nullable":false,"type":"string","default":null}`:   `{"default":null,"type":"string"}`,
		`{"type":"OBJECT","properties":{"type":{"type":"STRING"},"nullable":{}},"required":["type"],"propertyOrdering":["type"],"minProperties":"1"}`: `{"properties":{"type":{"type":"string"},"nullable":{}},"required":["type"],"minProperties":1,"type":"object"}`,
		`{"anyOf":[{"type":"STRING"},{"type":"ARRAY","items":{"type":"BOOLEAN"},"max_items":2}]}`:                                                     `{"anyOf":[{"type":"string"},{"items":{"type":"boolean"},"maxItems":2,"type":"array"}]}`,
		`{"ref":"#/defs/a","defs":{"a":{"type":"STRING"}},"additionalProperties":false,"example":{"a":1}}`:                                            `{"$ref":"#/defs/a","$defs":{"a":{"type":"string"}},"additionalProperties":false}`,
	} {
		got, err := jsonSchema("p", json.RawMessage(google))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", google, got, err, want)
		}
	}
}
