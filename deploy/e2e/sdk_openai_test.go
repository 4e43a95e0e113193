//go:build e2e

package e2e_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"switchyard.dev/deploy/dev/stack"
)

func (d sdkEndpoint) openAIClient() openai.Client {
	options := []option.RequestOption{option.WithBaseURL(d.openAI), option.WithAPIKey(d.key)}
	if d.organization != "" {
		options = append(options, option.WithHeader("X-Organization-Id", d.organization))
	}
	return openai.NewClient(options...)
}

// eachOpenAI runs a test at each endpoint with a model of each dialect.
func eachOpenAI(t *testing.T, test func(t *testing.T, h *harness, client openai.Client, model string)) {
	t.Helper()
	eachEndpoint(t, sdkEndpoint.openAIClient, sdkModels, test)
}

func userSays(text string) []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}
}

func TestOpenAISDKChat(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, _ *harness, client openai.Client, model string) {
		t.Helper()
		var response *http.Response
		got, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: model, Messages: userSays("hello"), MaxCompletionTokens: openai.Int(50), Temperature: openai.Float(0.5),
		}, option.WithResponseInto(&response))
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Choices) != 1 || !strings.HasSuffix(got.Choices[0].Message.Content, "hello") || got.Choices[0].FinishReason != "stop" {
			t.Errorf("answer %s", got.RawJSON())
		}
		if got.Model != model || got.ID == "" || string(got.Object) != "chat.completion" {
			t.Errorf("%s %q of %s, want a chat.completion of %s with an id", got.Object, got.ID, got.Model, model)
		}
		if u := got.Usage; u.TotalTokens < 2 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
			t.Errorf("%d tokens in all, %d and %d", u.TotalTokens, u.PromptTokens, u.CompletionTokens)
		}
		for _, name := range []string{"X-Request-Id", "X-Switchyard-Provider", "X-Switchyard-Cost-Cents", "X-Switchyard-Attempts"} {
			if response.Header.Get(name) == "" {
				t.Errorf("no %s", name)
			}
		}
	})
}

func TestOpenAISDKStream(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, _ *harness, client openai.Client, model string) {
		t.Helper()
		for _, usage := range []bool{false, true} {
			params := openai.ChatCompletionNewParams{Model: model, Messages: userSays("one two three")}
			if usage {
				params.StreamOptions.IncludeUsage = openai.Bool(true)
			}
			stream := client.Chat.Completions.NewStreaming(t.Context(), params)
			var whole openai.ChatCompletionAccumulator
			for stream.Next() {
				if !whole.AddChunk(stream.Current()) {
					t.Fatalf("the accumulator refuses %s", stream.Current().RawJSON())
				}
				if len(stream.Current().Choices) == 0 && !usage {
					t.Errorf("a chunk without choices that the request did not ask for: %s", stream.Current().RawJSON())
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if whole.Model != model || len(whole.Choices) != 1 {
				t.Fatalf("%d choices of %s, want 1 of %s", len(whole.Choices), whole.Model, model)
			}
			if c := whole.Choices[0]; !strings.HasSuffix(c.Message.Content, "one two three") || c.FinishReason != "stop" {
				t.Errorf("%q ends with %q", c.Message.Content, c.FinishReason)
			}
			if (whole.Usage.TotalTokens > 0) != usage {
				t.Errorf("usage %+v, asked for: %v", whole.Usage, usage)
			}
		}
	})
}

func weatherTool() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "weather", Description: openai.String("tells the weather"), Parameters: weatherSchema,
	})}
}

// Parallel tool calls, whole and streamed, and the next turn with their results.
func TestOpenAISDKTools(t *testing.T) {
	eachEndpoint(t, sdkEndpoint.openAIClient, scriptable, func(t *testing.T, h *harness, client openai.Client, model string) {
		t.Helper()
		question, want := h.scripted(t, twoCalls), []string{`{"city":"Paris"}`, `{"city":"Rome"}`}
		params := openai.ChatCompletionNewParams{Model: model, Messages: userSays(question), Tools: weatherTool()}
		whole, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var streamed openai.ChatCompletionAccumulator
		for stream.Next() {
			if !streamed.AddChunk(stream.Current()) {
				t.Fatalf("the accumulator refuses %s", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		for name, choice := range map[string]openai.ChatCompletionChoice{"whole": whole.Choices[0], "streamed": streamed.Choices[0]} {
			var arguments []string
			for _, call := range choice.Message.ToolCalls {
				if call.ID == "" || call.Function.Name != "weather" {
					t.Errorf("%s: call %+v", name, call)
				}
				arguments = append(arguments, call.Function.Arguments)
			}
			if diff := cmp.Diff(want, arguments); diff != "" || choice.FinishReason != "tool_calls" || choice.Message.Content != "I look." {
				t.Errorf("%s: %+v; arguments (-want +got):\n%s", name, choice, diff)
			}
		}
		calls := whole.Choices[0].Message.ToolCalls
		params.Messages = []openai.ChatCompletionMessageParamUnion{
			openai.UserMessage("what now"), whole.Choices[0].Message.ToParam(),
			openai.ToolMessage("sunny", calls[0].ID), openai.ToolMessage("rain", calls[1].ID),
		}
		second, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil || !strings.Contains(second.Choices[0].Message.Content, "rain") {
			t.Errorf("the second turn: %v, %v", second, err)
		}
	})
}

func TestOpenAISDKStructuredOutput(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, h *harness, client openai.Client, model string) {
		t.Helper()
		question := h.scripted(t, object{"text": `{"city":"Paris"}`})
		got, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: model, Messages: userSays(question),
			ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
				JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Schema: weatherSchema, Strict: openai.Bool(true)},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var place struct{ City *string }
		if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &place); err != nil || place.City == nil {
			t.Errorf("content %q doesn't fit the schema: %v", got.Choices[0].Message.Content, err)
		}
	})
}

// By default the SDK decodes floats; with EncodingFormat base64 the answer has the same vectors packed.
func TestOpenAISDKEmbeddings(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.openAIClient()
			params := openai.EmbeddingNewParams{
				Model: embedding.model, Dimensions: openai.Int(8),
				Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
			}
			floats, err := client.Embeddings.New(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if floats.Model != embedding.model || len(floats.Data) != 2 {
				t.Fatalf("%d vectors of %s, want 2 of %s", len(floats.Data), floats.Model, embedding.model)
			}
			if second := floats.Data[1]; len(second.Embedding) != 8 || second.Index != 1 {
				t.Errorf("vector %d has %d dimensions, want 1 with 8", second.Index, len(second.Embedding))
			}
			if n := floats.Usage.TotalTokens; n < 1 {
				t.Errorf("%d tokens in all", n)
			}
			params.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
			var body []byte
			_, err = client.Embeddings.New(t.Context(), params, option.WithResponseBodyInto(&body))
			if err != nil {
				t.Fatal(err)
			}
			var packed struct {
				Data []struct {
					Embedding []byte `json:"embedding"`
				} `json:"data"`
			}
			if err := json.Unmarshal(body, &packed); err != nil || len(packed.Data) != 2 || len(packed.Data[1].Embedding) != 8*4 {
				t.Fatalf("packed vectors: %v: %s", err, body)
			}
			for i, want := range floats.Data[1].Embedding {
				got := math.Float32frombits(binary.LittleEndian.Uint32(packed.Data[1].Embedding[4*i:]))
				if got != float32(want) {
					t.Errorf("number %d: %v packed, %v plain", i, got, want)
				}
			}
		})
	}
}

// Calls by SDKs are billed: each completion once, lists of models not at all.
func TestSDKCallsAreCounted(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	edge := h.URL(string(stack.Edge)) + "/product/v1/ai"
	d := sdkEndpoint{name: "edge", openAI: edge + "/openai/v1", anthropic: edge + "/anthropic", key: h.key(t, organization, "ai", "read").Key}
	client, other := d.openAIClient(), d.anthropicClient()
	if _, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "sandbox", Messages: userSays("x")}); err != nil {
		t.Error(err)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "sandbox", Messages: userSays("x")})
	for stream.Next() {
	}
	if _, err := other.Messages.New(t.Context(), message("sandbox", "x")); err != nil || stream.Err() != nil {
		t.Error(err, stream.Err())
	}
	if _, err := client.Models.List(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "none", Messages: userSays("x")}); err == nil {
		t.Error("there is no such model")
	}
	h.awaitCount(t, organization, "llm_requests", 3)
}

func TestOpenAISDKModels(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.openAIClient()
			page, err := client.Models.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, m := range page.Data {
				names = append(names, m.ID)
			}
			for _, name := range []string{sdkOpenAI.model, sdkAnthropic.model, "sandbox"} {
				if !slices.Contains(names, name) {
					t.Errorf("%s is not listed: %v", name, names)
				}
			}
			for _, name := range []string{sdkOpenAI.model, "sdk-openai/" + sdkOpenAI.model} {
				if m, err := client.Models.Get(t.Context(), name); err != nil || m.ID != name || m.OwnedBy != "sdk-openai" {
					t.Errorf("model %s: %+v, %v", name, m, err)
				}
			}
			for _, name := range []string{"no-such-model", "catalog", "liveness"} {
				if d.name == "gateway" && name != "no-such-model" {
					continue // At the gateway these are paths of the contract.
				}
				_, err := client.Models.Get(t.Context(), name)
				wantOpenAIError(t, err, http.StatusNotFound, "model_not_found")
			}
		})
	}
}
