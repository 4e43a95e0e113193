package provider

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

type request struct {
	method, path, body string
	header             map[string]string
}

var (
	bearer    = map[string]string{"Authorization": "Bearer sk-s3cret"}
	anthropic = map[string]string{"X-Api-Key": "s3cret", "Anthropic-Version": "2023-06-01"}
	goog      = map[string]string{"X-Goog-Api-Key": "s3cret"}
)

func do(t *testing.T, srv *Server, req request) *httptest.ResponseRecorder {
	t.Helper()
	return fakestest.Send(t, srv, req.method, req.path, req.body, req.header)
}

// TestWireShapes compares whole answers with files that were checked against
// the vendors' own clients. UPDATE_GOLDEN=1 rewrites them.
func TestWireShapes(t *testing.T) {
	const (
		tools          = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
		responsesTools = `"tools":[{"type":"web_search"},{"type":"function","name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}},{"type":"custom","name":"edit"}]`
		geminiPath     = "/v1beta/models/gemini-2.5-flash"
		claudePath     = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0"
		converseTools  = `"toolConfig":{"tools":[{"toolSpec":{"name":"weather","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}}}}}}]}`
		converseUser   = `{"role":"user","content":[{"text":"hello there"}]}`
		converseTool   = `{"role":"user","content":[{"text":"use tool"}]}`
		geminiTools    = `"tools":[{"functionDeclarations":[{"name":"weather","parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}}}}]}]`
		anthropicTools = `"tools":[{"name":"weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	)
	thinking := fault.Action{Answer: json.RawMessage(`{"thinking":"let me see","text":"hm"}`)}
	tests := []struct {
		name   string
		req    request
		script fault.Action
	}{
		{name: "openai_chat", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":"a <b> & c"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, bearer}},
		{name: "openai_tool", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"use tool"}],` + tools + `}`, bearer}},
		{name: "openai_tool_result", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"use tool"},{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","tool_call_id":"a","content":"sunny"},{"role":"tool","tool_call_id":"b","content":"warm"}],` + tools + `}`, bearer}},
		{name: "openai_stream", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello there"}]}`, bearer}},
		{name: "openai_stream_without_usage", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`, bearer}},
		{name: "openai_stream_tool", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"use tool"}],` + tools + `}`, bearer}},
		{name: "openai_scripted", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`, bearer}, script: fault.Action{Answer: json.RawMessage(`{"text":"hm","tool_calls":[{"name":"a"},{"name":"b","arguments":{"x":1}}],"usage":{"input":10,"cache_read":20,"cache_write":5,"output":7,"reasoning":3}}`)}},
		{name: "openai_stream_thinking", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`, bearer}, script: thinking},
		{name: "openai_error", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[]}`, bearer}},
		{name: "openai_rate_limit", req: request{"POST", "/v1/chat/completions", `{}`, bearer}, script: fault.Action{RetryAfter: "3"}},
		{name: "openai_stream_error", req: request{"POST", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`, bearer}, script: fault.Action{ErrorAfterChunks: new(2)}},
		{name: "responses", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","instructions":"be kind","input":[{"role":"user","content":[{"type":"input_text","text":"a <b> & c"},{"type":"input_image","image_url":"https://example.com/a.png"}]}]}`, bearer}},
		{name: "responses_tool", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","input":"use tool",` + responsesTools + `}`, bearer}},
		{name: "responses_tool_result", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","input":[{"role":"user","content":"use tool"},{"type":"function_call","call_id":"a","name":"weather","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"sunny"}],` + responsesTools + `}`, bearer}},
		{name: "responses_stream", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","stream":true,"input":"hello there"}`, bearer}},
		{name: "responses_stream_scripted", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","stream":true,"input":"hello",` + responsesTools + `}`, bearer}, script: fault.Action{Answer: json.RawMessage(`{"text":"hm","tool_calls":[{"name":"weather","arguments":{"city":"Paris"}},{"name":"edit","arguments":{"input":"one line"}}],"usage":{"input":10,"cache_read":20,"cache_write":5,"output":7,"reasoning":3}}`)}},
		{name: "responses_namespace", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","input":"hello","tools":[{"type":"namespace","name":"mcp","tools":[{"type":"function","name":"files__read"}]},{"type":"function","name":"mcp__other"}]}`, bearer}, script: fault.Action{Answer: json.RawMessage(`{"tool_calls":[{"name":"mcp__files__read"},{"name":"mcp__other"}]}`)}},
		{name: "responses_thinking", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","include":["reasoning.encrypted_content"],"input":"hello"}`, bearer}, script: thinking},
		{name: "responses_stream_thinking", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","stream":true,"include":["reasoning.encrypted_content"],"input":"hello"}`, bearer}, script: thinking},
		{name: "responses_compact", req: request{"POST", "/v1/responses/compact", `{"model":"gpt-4o","input":[{"role":"user","content":"hello there"}]}`, bearer}},
		{name: "responses_input_tokens", req: request{"POST", "/v1/responses/input_tokens", `{"model":"gpt-4o","input":"hello there"}`, bearer}},
		{name: "responses_cut", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","max_output_tokens":2,"input":"hello there"}`, bearer}},
		{name: "responses_error", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","input":[{"type":"function_call_output","call_id":"a","output":"sunny"}]}`, bearer}},
		{name: "responses_stream_error", req: request{"POST", "/v1/responses", `{"model":"gpt-4o","stream":true,"input":"hello"}`, bearer}, script: fault.Action{ErrorAfterChunks: new(3), Status: 503}},
		{name: "openai_models", req: request{"GET", "/v1/models", "", bearer}},
		{name: "anthropic_message", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"system":[{"type":"text","text":"be kind"}],"messages":[{"role":"user","content":"a <b> & c"}]}`, anthropic}},
		{name: "anthropic_tool", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"messages":[{"role":"user","content":"use tool"}],` + anthropicTools + `}`, anthropic}},
		{name: "anthropic_tool_result", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"messages":[{"role":"user","content":"use tool"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"weather","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"sunny"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"warm"}]}]}],` + anthropicTools + `}`, anthropic}},
		{name: "anthropic_stream", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hello there"}]}`, anthropic}},
		{name: "anthropic_stream_tool", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"use tool"}],` + anthropicTools + `}`, anthropic}},
		{name: "anthropic_stream_scripted", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, anthropic}, script: fault.Action{Answer: json.RawMessage(`{"text":"hm","tool_calls":[{"name":"a"}],"finish_reason":"content_filter","usage":{"input":10,"cache_read":20,"cache_write":5,"output":7}}`)}},
		{name: "anthropic_thinking", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`, anthropic}, script: thinking},
		{name: "anthropic_stream_thinking", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, anthropic}, script: thinking},
		{name: "anthropic_error", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","messages":[]}`, anthropic}},
		{name: "anthropic_overloaded", req: request{"POST", "/v1/messages", `{}`, anthropic}, script: fault.Action{Status: 529}},
		{name: "anthropic_stream_error", req: request{"POST", "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, anthropic}, script: fault.Action{ErrorAfterChunks: new(4), Status: 529}},
		{name: "anthropic_models", req: request{"GET", "/v1/models", "", anthropic}},
		{name: "gemini_chat", req: request{"POST", geminiPath + ":generateContent", `{"systemInstruction":{"parts":[{"text":"be kind"}]},"contents":[{"role":"user","parts":[{"text":"a <b> & c"},{"inlineData":{"mimeType":"image/png","data":""}}]}]}`, goog}},
		{name: "gemini_tool", req: request{"POST", geminiPath + ":generateContent", `{"contents":[{"role":"user","parts":[{"text":"use tool"}]}],` + geminiTools + `}`, goog}},
		{name: "gemini_tool_result", req: request{"POST", geminiPath + ":generateContent", `{"contents":[{"role":"user","parts":[{"text":"use tool"}]},{"role":"model","parts":[{"functionCall":{"name":"weather","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"weather","response":{"output":"sunny"}}}]}],` + geminiTools + `}`, goog}},
		{name: "gemini_stream", req: request{"POST", geminiPath + ":streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hello there"}]}]}`, goog}},
		{name: "gemini_stream_scripted", req: request{"POST", geminiPath + ":streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, goog}, script: fault.Action{Answer: json.RawMessage(`{"text":"hm","tool_calls":[{"name":"a"},{"name":"b"}],"usage":{"input":10,"cache_read":20,"output":7,"reasoning":3}}`)}},
		{name: "gemini_stream_error", req: request{"POST", geminiPath + ":streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, goog}, script: fault.Action{ErrorAfterChunks: new(1), Status: 503}},
		{name: "gemini_error", req: request{"POST", geminiPath + ":generateContent", `{"contents":[]}`, goog}},
		{name: "gemini_rate_limit", req: request{"POST", geminiPath + ":generateContent", `{}`, goog}, script: fault.Action{RetryAfter: "3"}},
		{name: "gemini_embeddings", req: request{"POST", "/v1beta/models/gemini-embedding-001:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"a"}]},"outputDimensionality":3}]}`, goog}},
		{name: "gemini_image", req: request{"POST", "/v1beta/models/gemini-2.5-flash-image:generateContent", `{"contents":[{"role":"user","parts":[{"text":"a cat"}]}],"generationConfig":{"responseModalities":["TEXT","IMAGE"]}}`, goog}},
		{name: "imagen", req: request{"POST", "/v1beta/models/imagen-4.0-generate-001:predict", `{"instances":[{"prompt":"a cat"}],"parameters":{"sampleCount":2}}`, goog}},
		{name: "bedrock_converse", req: request{"POST", claudePath + "/converse", `{"system":[{"text":"be kind"},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"a <b> & c"},{"image":{"format":"png","source":{"bytes":"aGk="}}},{"document":{"format":"pdf","name":"a","source":{"bytes":"aGk="}}}]}],"inferenceConfig":{"maxTokens":100}}`, bearer}},
		{name: "bedrock_tool", req: request{"POST", claudePath + "/converse", `{"messages":[` + converseTool + `],` + converseTools + `}`, bearer}},
		{name: "bedrock_tool_result", req: request{"POST", claudePath + "/converse", `{"messages":[` + converseTool + `,{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"weather","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"sunny"}]}},{"toolResult":{"toolUseId":"b","content":[{"text":"warm"}]}}]}],` + converseTools + `}`, bearer}},
		{name: "bedrock_thinking", req: request{"POST", claudePath + "/converse", `{"messages":[` + converseUser + `]}`, bearer}, script: thinking},
		{name: "bedrock_stream", req: request{"POST", claudePath + "/converse-stream", `{"messages":[` + converseUser + `]}`, bearer}},
		{name: "bedrock_stream_tool", req: request{"POST", claudePath + "/converse-stream", `{"messages":[` + converseTool + `],` + converseTools + `}`, bearer}},
		{name: "bedrock_stream_thinking", req: request{"POST", claudePath + "/converse-stream", `{"messages":[` + converseUser + `]}`, bearer}, script: thinking},
		{name: "bedrock_stream_scripted", req: request{"POST", claudePath + "/converse-stream", `{"messages":[` + converseUser + `]}`, bearer}, script: fault.Action{Answer: json.RawMessage(`{"text":"hm","tool_calls":[{"name":"a"}],"finish_reason":"content_filter","usage":{"input":10,"cache_read":20,"cache_write":5,"output":7}}`)}},
		{name: "bedrock_stream_error", req: request{"POST", claudePath + "/converse-stream", `{"messages":[` + converseUser + `]}`, bearer}, script: fault.Action{ErrorAfterChunks: new(2), Status: 429}},
		{name: "bedrock_error", req: request{"POST", claudePath + "/converse", `{"messages":[]}`, bearer}},
		{name: "bedrock_rate_limit", req: request{"POST", claudePath + "/converse", `{}`, bearer}, script: fault.Action{Status: 429}},
		{name: "bedrock_invoke", req: request{"POST", claudePath + "/invoke", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"messages":[{"role":"user","content":"hello there"}]}`, bearer}},
		{name: "bedrock_invoke_stream", req: request{"POST", claudePath + "/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"messages":[{"role":"user","content":"use tool"}],` + anthropicTools + `}`, bearer}},
		{name: "bedrock_invoke_stream_error", req: request{"POST", claudePath + "/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`, bearer}, script: fault.Action{ErrorAfterChunks: new(3), Status: 503}},
		{name: "bedrock_count", req: request{"POST", claudePath + "/count-tokens", `{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(`{"anthropic_version":"bedrock-2023-05-31","max_tokens":1,"messages":[{"role":"user","content":"hello there"}]}`)) + `"}}}`, bearer}},
		{name: "bedrock_count_converse", req: request{"POST", claudePath + "/count-tokens", `{"input":{"converse":{"messages":[` + converseUser + `]}}}`, bearer}},
		{name: "bedrock_titan", req: request{"POST", "/model/amazon.titan-embed-text-v2%3A0/invoke", `{"inputText":"hello","dimensions":3}`, bearer}},
		{name: "embeddings", req: request{"POST", "/v1/embeddings", `{"model":"text-embedding-3-small","input":["a","bcdefghi"],"dimensions":3}`, bearer}},
		{name: "image_url", req: request{"POST", "/v1/images/generations", `{"model":"dall-e-3","prompt":"a cat"}`, bearer}},
		{name: "image_base64", req: request{"POST", "/v1/images/generations", `{"model":"gpt-image-1","prompt":"a black cat","n":2}`, bearer}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := New(fault.Script{Rules: []fault.Rule{{Action: tt.script}}})
			resp := do(t, srv, tt.req)
			got := strconv.Itoa(resp.Code) + "\n" + resp.Header().Get("Content-Type") + "\n\n" + shown(t, resp)
			file := filepath.Join("testdata", tt.name+".txt")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if again := shown(t, do(t, srv, tt.req)); !strings.HasSuffix(got, again) {
				t.Errorf("the second answer differs: %s", again)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name   string
		req    request
		status int
		want   string
	}{
		{"openai without a key", request{"POST", "/v1/chat/completions", `{}`, nil}, 401, "didn't provide an API key"},
		{"embeddings without a key", request{"POST", "/v1/embeddings", `{}`, nil}, 401, "invalid_api_key"},
		{"images without a key", request{"POST", "/v1/images/generations", `{}`, nil}, 401, "invalid_api_key"},
		{"models without a key", request{"GET", "/v1/models", ``, nil}, 401, "invalid_api_key"},
		{"anthropic without a key", request{"POST", "/v1/messages", `{}`, nil}, 401, "x-api-key header is required"},
		{"anthropic without a version", request{"POST", "/v1/messages", `{}`, map[string]string{"X-Api-Key": "k"}}, 400, "anthropic-version: header is required"},
		{"anthropic without max_tokens", request{"POST", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, anthropic}, 400, "max_tokens: Field required"},
		{"anthropic system role", request{"POST", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`, anthropic}, 400, "messages.0.role"},
		{"another's previous response", request{"POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"resp_1"}`, bearer}, 400, "resp_1"},
		{"a list of no items", request{"POST", "/v1/responses", `{"model":"m","input":[]}`, bearer}, 400, "'input'"},
		{"a message of an unknown role", request{"POST", "/v1/responses", `{"model":"m","input":[{"role":"wizard","content":"x"}]}`, bearer}, 400, "wizard"},
		{"not JSON", request{"POST", "/v1/chat/completions", `{`, bearer}, 400, "could not parse"},
		{"no model", request{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, bearer}, 400, "model parameter"},
		{"unknown role", request{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"wizard","content":"x"}]}`, bearer}, 400, "wizard"},
		{"bad content", request{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":3}]}`, bearer}, 400, "invalid content"},
		{"no input", request{"POST", "/v1/embeddings", `{"model":"m","input":[]}`, bearer}, 400, "1 to 2048"},
		{"bad input", request{"POST", "/v1/embeddings", `{"model":"m","input":{"a":1}}`, bearer}, 400, "$.input"},
		{"too many dimensions", request{"POST", "/v1/embeddings", `{"model":"m","input":"x","dimensions":99999}`, bearer}, 400, "dimensions"},
		{"no prompt", request{"POST", "/v1/images/generations", `{}`, bearer}, 400, "prompt"},
		{"too many pictures", request{"POST", "/v1/images/generations", `{"prompt":"x","n":11}`, bearer}, 400, "'n'"},
		{"unknown path", request{"POST", "/v1/nothing", `{}`, bearer}, 404, "Invalid URL (POST /v1/nothing)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := do(t, New(fault.Script{}), tt.req)
			if resp.Code != tt.status || !strings.Contains(resp.Body.String(), tt.want) {
				t.Errorf("got %d %s, want %d with %q", resp.Code, resp.Body, tt.status, tt.want)
			}
		})
	}
}

func TestStreamSaysWhatTheWholeAnswerSays(t *testing.T) {
	const ask = `"model":"m","messages":[{"role":"user","content":"  tell me  more "}]`
	srv := New(fault.Script{})
	whole := do(t, srv, request{"POST", "/v1/chat/completions", "{" + ask + "}", bearer})
	var completion chatCompletion
	if err := json.Unmarshal(whole.Body.Bytes(), &completion); err != nil {
		t.Fatal(err)
	}
	var streamed strings.Builder
	stream := do(t, srv, request{"POST", "/v1/chat/completions", `{"stream":true,` + ask + `}`, bearer})
	for line := range strings.Lines(stream.Body.String()) {
		data, found := strings.CutPrefix(strings.TrimSpace(line), "data: {")
		if !found {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		streamed.WriteString(chunk.Choices[0].Delta.Content)
	}
	if want := *completion.Choices[0].Message.Content; streamed.String() != want || want != "You said:   tell me  more " {
		t.Errorf("streamed %q, whole %q", streamed.String(), want)
	}
}

func TestEmbeddingForms(t *testing.T) {
	srv := New(fault.Script{})
	ask := func(body string) (list struct {
		Data  []struct{ Embedding json.RawMessage }
		Usage embeddingUsage
	},
	) {
		t.Helper()
		if err := json.Unmarshal(do(t, srv, request{"POST", "/v1/embeddings", body, bearer}).Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	var floats []float32
	if err := json.Unmarshal(ask(`{"model":"m","input":"hi"}`).Data[0].Embedding, &floats); err != nil {
		t.Fatal(err)
	}
	var packed string
	if err := json.Unmarshal(ask(`{"model":"m","input":["hi"],"encoding_format":"base64"}`).Data[0].Embedding, &packed); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil || len(raw) != 4*1536 {
		t.Fatalf("%d bytes, error %v", len(raw), err)
	}
	var norm float64
	for i, v := range floats {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != v {
			t.Fatalf("value %d: %v packed, %v as a number", i, got, v)
		}
		norm += float64(v) * float64(v)
	}
	if math.Abs(norm-1) > 1e-5 {
		t.Errorf("squared length %v, want 1", norm)
	}
	if cmp.Equal(floats, Vector("m", "ho", 1536)) || cmp.Equal(floats, Vector("n", "hi", 1536)) {
		t.Error("another text or model has the same vector")
	}
	if got := ask(`{"model":"m","input":[[1,2,3],[4]],"dimensions":2}`); len(got.Data) != 2 || got.Usage.TotalTokens != 4 {
		t.Errorf("token arrays: %d vectors, %d tokens; want 2, 4", len(got.Data), got.Usage.TotalTokens)
	}
	if got := ask(`{"model":"m","input":[1,2,3],"dimensions":2}`); len(got.Data) != 1 || got.Usage.TotalTokens != 3 {
		t.Errorf("one token array: %d vectors, %d tokens; want 1, 3", len(got.Data), got.Usage.TotalTokens)
	}
}

func TestImageAddressServesThePicture(t *testing.T) {
	srv := New(fault.Script{})
	var list imageList
	made := do(t, srv, request{"POST", "/v1/images/generations", `{"model":"dall-e-2","prompt":"cat"}`, bearer})
	if err := json.Unmarshal(made.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	path, found := strings.CutPrefix(list.Data[0].URL, "http://example.com")
	if !found {
		t.Fatalf("address %q is not on this server", list.Data[0].URL)
	}
	if _, err := png.Decode(do(t, srv, request{"GET", path, "", nil}).Body); err != nil {
		t.Errorf("not a picture: %v", err)
	}
	if resp := do(t, srv, request{"GET", "/images/nope.png", "", nil}); resp.Code != http.StatusNotFound {
		t.Errorf("an unknown picture: %d", resp.Code)
	}
}

func TestKeysAreRecordedHashed(t *testing.T) {
	srv := New(fault.Script{})
	for _, header := range []map[string]string{bearer, anthropic, {"Api-Key": "s3cret"}} {
		do(t, srv, request{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, header})
	}
	calls := do(t, srv, request{"GET", "/_calls", "", nil}).Body.String()
	if strings.Contains(calls, "s3cret") {
		t.Errorf("a key shows in %s", calls)
	}
	for _, want := range []string{"Bearer " + fault.HashSecret("sk-s3cret"), fault.HashSecret("s3cret")} {
		if !strings.Contains(calls, want) {
			t.Errorf("%q is not in %s", want, calls)
		}
	}
}
