package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/vendors/adapter"
)

// answersPolicy has a provider for each dialect in answersOf, and providers that differ in how they take reasoning
// back.
const answersPolicy = `
default_model: openai/m
providers:
  - {name: openai, dialect: openai, base_url: %[1]s, key_file: first.key, models: [m]}
  - {name: thinker, dialect: openai, base_url: %[1]s, key_file: first.key, models: [m], reasoning_style: thinking}
  - {name: router, dialect: openai, base_url: %[1]s, key_file: first.key, models: [m], reasoning_style: nested}
  - {name: plain, dialect: openai, base_url: %[1]s, key_file: first.key, models: [m]}
  - {name: anthropic, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [m]}
  - {name: gemini, dialect: gemini, base_url: %[1]s, key_file: first.key, models: [m]}
`

// Kinds of answers in the matrix.
const (
	kindCall     = "a forced call"
	kindNoCall   = "a finish reason of calls without a call"
	kindCitation = "citations"
	kindImage    = "an image"
)

// vendorAnswer is an answer in a vendor's form: whole, and as the data of stream events.
type vendorAnswer struct {
	whole  string
	events []string
}

const (
	picture = "iVBORw0KGgo="
	usageOA = `"usage":{"prompt_tokens":5,"completion_tokens":7}`
	usageGM = `"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7}`
)

// answersOf holds the answers of each chat dialect by kind. A kind is missing if the dialect has no form for it.
var answersOf = map[string]map[string]vendorAnswer{
	"openai": {
		kindCall: {
			`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_a","type":"function","function":{"name":"Read","arguments":"{}"}}]},"finish_reason":"stop"}],` + usageOA + `}`,
			[]string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"Read","arguments":"{}"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + usageOA + `}`, `[DONE]`,
			},
		},
		kindNoCall: {
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"tool_calls"}],` + usageOA + `}`,
			[]string{
				`{"choices":[{"index":0,"delta":{"content":"hello there"}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],` + usageOA + `}`, `[DONE]`,
			},
		},
		kindCitation: {
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"It is true.","annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":11,"url":"https://source.example/a","title":"The source"}}]},"finish_reason":"stop"}],` + usageOA + `}`,
			[]string{
				`{"choices":[{"index":0,"delta":{"content":"It is true."}}]}`,
				`{"choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":11,"url":"https://source.example/a","title":"The source"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + usageOA + `}`, `[DONE]`,
			},
		},
		kindImage: {
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]},"finish_reason":"stop"}],` + usageOA + `}`,
			[]string{
				`{"choices":[{"index":0,"delta":{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + usageOA + `}`, `[DONE]`,
			},
		},
	},
	"anthropic": {
		kindCall: {
			`{"type":"message","content":[{"type":"tool_use","id":"call_a","name":"Read","input":{}}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":7}}`,
			[]string{
				`{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"call_a","name":"Read","input":{}}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`,
			},
		},
		kindNoCall: {
			`{"type":"message","content":[{"type":"text","text":"hello there"}],"stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":7}}`,
			[]string{
				`{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello there"}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`,
			},
		},
		kindCitation: {
			`{"type":"message","content":[{"type":"text","text":"It is true.","citations":[{"type":"web_search_result_location","url":"https://source.example/a","title":"The source","encrypted_index":"E","cited_text":"true"}]}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":7}}`,
			[]string{
				`{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://source.example/a","title":"The source","encrypted_index":"E","cited_text":"true"}}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It is true."}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`,
			},
		},
	},
	"gemini": {
		kindCall: {
			`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"call_a","name":"Read","args":{}}}]},"finishReason":"STOP"}],` + usageGM + `}`,
			[]string{`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"call_a","name":"Read","args":{}}}]},"finishReason":"STOP"}],` + usageGM + `}`, ``},
		},
		kindCitation: {
			`{"candidates":[{"content":{"parts":[{"text":"It is true."}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://source.example/a","title":"The source"}}],"groundingSupports":[{"segment":{"endIndex":11},"groundingChunkIndices":[0]}]}}],` + usageGM + `}`,
			[]string{
				`{"candidates":[{"content":{"parts":[{"text":"It is true."}]}}]}`,
				`{"candidates":[{"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://source.example/a","title":"The source"}}],"groundingSupports":[{"segment":{"endIndex":11},"groundingChunkIndices":[0]}]}}],` + usageGM + `}`,
			},
		},
		kindImage: {
			`{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + picture + `"}}]},"finishReason":"STOP"}],` + usageGM + `}`,
			[]string{
				`{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + picture + `"}}]}}]}`,
				`{"candidates":[{"finishReason":"STOP"}],` + usageGM + `}`,
			},
		},
	},
}

// elsewhere lists the dialects that their own packages test instead, because they need cloud credentials or don't chat.
var elsewhere = []string{"bedrock", "vertex", "cohere", "sandbox"}

// answers makes the vendor answer in the dialect of the called path.
func (b *bench) answers(kind string) {
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, streams := "openai", gjson.GetBytes(body, "stream").Bool()
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/messages"):
			form = "anthropic"
		case strings.Contains(path, ":"):
			form, streams = "gemini", strings.HasSuffix(path, ":streamGenerateContent")
		}
		answer, ok := answersOf[form][kind]
		if !ok {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if !streams {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer.whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range answer.events {
			if event != "" {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
			}
		}
	}
}

// chatFace is a face that serves chats. signs holds, by kind, texts that its answers must contain, whole and streamed;
// images have none if the face has no form for them. native is the dialect that the face relays.
type chatFace struct {
	native string
	ask    func(t *testing.T, b *bench, model string, stream bool) answer
	signs  map[string][]string
}

// overGRPC sends the request over gRPC and returns the messages as JSON.
func overGRPC(t *testing.T, b *bench, model string, stream bool) answer {
	t.Helper()
	client, md := b.client()
	ctx, request := metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{Model: model, Messages: user("hi")}
	marshal := protojson.MarshalOptions{UseProtoNames: true}
	if !stream {
		reply, err := client.Chat(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := marshal.Marshal(reply)
		return answer{status: http.StatusOK, body: compacted(text)}
	}
	chunks, err := client.ChatStream(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for {
		chunk, err := chunks.Recv()
		if errors.Is(err, io.EOF) {
			return answer{status: http.StatusOK, body: all.String()}
		}
		if err != nil {
			t.Fatal(err)
		}
		text, _ := marshal.Marshal(chunk)
		all.WriteString(compacted(text) + "\n")
	}
}

// compacted removes the spaces that protojson adds at random.
func compacted(text []byte) string { return gjson.GetBytes(text, "@ugly").Raw }

func posts(path, rest string) func(t *testing.T, b *bench, model string, stream bool) answer {
	return func(t *testing.T, b *bench, model string, stream bool) answer {
		t.Helper()
		return b.say(t, "POST", path, fmt.Sprintf(`{"model":%q,"stream":%v,%s}`, model, stream, rest))
	}
}

var chatFaces = map[string]chatFace{
	"gRPC": {ask: overGRPC, signs: map[string][]string{
		kindCall:     {`"finish_reason":"tool_calls"`, `"name":"Read"`},
		kindNoCall:   {`"finish_reason":"stop"`, "hello there"},
		kindCitation: {`"url":"https://source.example/a"`, `"title":"The source"`, `"end":11`, "It is true."},
		kindImage:    {`"url":"data:image/png;base64,` + picture + `"`},
	}},
	"JSON": {ask: posts(chatPath, messages), signs: map[string][]string{
		kindCall:     {`"finish_reason":"tool_calls"`, `"name":"Read"`},
		kindNoCall:   {`"finish_reason":"stop"`, "hello there"},
		kindCitation: {`"url":"https://source.example/a"`, `"title":"The source"`, `"end":11`, "It is true."},
		kindImage:    {`"url":"data:image/png;base64,` + picture + `"`},
	}},
	"chat completions": {native: "openai", ask: posts(completions, messages), signs: map[string][]string{
		kindCall:     {`"finish_reason":"tool_calls"`, `"name":"Read"`},
		kindNoCall:   {`"finish_reason":"stop"`, "hello there"},
		kindCitation: {`"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":11,"url":"https://source.example/a","title":"The source"`},
		kindImage:    {`"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}`},
	}},
	"messages": {native: "anthropic", ask: posts(messagesPath, anthropicMsg), signs: map[string][]string{
		kindCall:     {`"stop_reason":"tool_use"`, `"name":"Read"`},
		kindNoCall:   {`"stop_reason":"end_turn"`, "hello there"},
		kindCitation: {`{"type":"web_search_result_location",`, `"url":"https://source.example/a","title":"The source"`, `"encrypted_index":"switchyard"`, "It is true."},
	}},
	"responses": {ask: posts(responsesPath, hello), signs: map[string][]string{
		kindCall:     {`"status":"completed"`, `"type":"function_call"`, `"name":"Read"`},
		kindNoCall:   {`"status":"completed"`, "hello there"},
		kindCitation: {`"annotations":[{"type":"url_citation","start_index":0,"end_index":11,"url":"https://source.example/a","title":"The source"}]`},
		kindImage:    {`"type":"image_generation_call","status":"completed","result":"` + picture + `","output_format":"png"`},
	}},
	"generateContent": {native: "gemini", ask: func(t *testing.T, b *bench, model string, stream bool) answer {
		t.Helper()
		method := ":generateContent"
		if stream {
			method = ":streamGenerateContent?alt=sse"
		}
		return b.say(t, "POST", models+model+method, `{`+contents+`}`)
	}, signs: map[string][]string{
		kindCall:     {`"finishReason":"STOP"`, `"name":"Read"`},
		kindNoCall:   {`"finishReason":"STOP"`, "hello there"},
		kindCitation: {`"groundingChunks":[{"web":{"uri":"https://source.example/a","title":"The source"}}]`, "It is true."},
		kindImage:    {`"inlineData":{"mimeType":"image/png","data":"` + picture + `"}`},
	}},
}

// Every face returns everything that a vendor of any dialect answered and is paid for, whole and streamed. A face
// without a form for it returns an error.
func TestAnswersOnEveryFace(t *testing.T) {
	for _, name := range strings.FieldsFunc(adapter.Names(), func(c rune) bool { return c == ',' || c == ' ' }) {
		if _, ok := answersOf[name]; !ok && name != "or" && !slices.Contains(elsewhere, name) {
			t.Errorf("the dialect %s has no answers in this test", name)
		}
	}
	b := setupWith(t, answersPolicy)
	for _, kind := range []string{kindCall, kindNoCall, kindCitation, kindImage} {
		b.answers(kind)
		for form, answers := range answersOf {
			if _, ok := answers[kind]; !ok {
				continue
			}
			for name, face := range chatFaces {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprint(kind, "/", form, "/", name, "/", stream), func(t *testing.T) {
						face.check(t, b, form, kind, stream)
					})
				}
			}
		}
	}
}

func (f chatFace) check(t *testing.T, b *bench, form, kind string, stream bool) {
	t.Helper()
	got := f.ask(t, b, form+"/m", stream)
	switch signs := f.signs[kind]; {
	case f.native == form: // The vendor's answer is relayed.
		answer := answersOf[form][kind]
		if !stream && got.body != "" && !strings.Contains(got.body, answer.whole[1:40]) {
			t.Errorf("relayed %s", got.body)
		}
	case signs == nil:
		if !strings.Contains(got.body, "answered with an image") || !stream && got.status != http.StatusUnprocessableEntity {
			t.Errorf("%d %s, want an error", got.status, got.body)
		}
	default:
		if got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		for _, sign := range signs {
			if !strings.Contains(strings.ReplaceAll(got.body, `": `, `":`), sign) {
				t.Errorf("%s is not in %s", sign, got.body)
			}
		}
	}
	if ended := b.vendor.count(); ended == 0 {
		t.Error("no vendor was called")
	}
}
