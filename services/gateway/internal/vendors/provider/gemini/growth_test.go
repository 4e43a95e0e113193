package gemini_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

func hostile() providertest.Hostile {
	frame := func(parts string) string {
		return `data: {"candidates":[{"content":{"parts":[` + parts + `]}}]}` + "\n\n"
	}
	var answers []growth.Input
	for _, before := range []string{
		`{"candidates":`, `{"candidates":[{"content":`, `{"candidates":[{"content":{"parts":`, `{"candidates":[{"content":{"parts":[{"text":`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":`, `{"usageMetadata":`, `{"usageMetadata":{"promptTokensDetails":`,
		`{"promptFeedback":`, `{"embeddings":[{"values":`, `{"predictions":`,
	} {
		answers = append(answers, growth.Around(before, growth.ValidJSON, closing(before))...)
	}
	answers = append(answers,
		growth.Repeat("parts of text", `{"candidates":[{"content":{"parts":[{}`, `,{"text":"abcd"}`, "]}}]}"),
		growth.Repeat("parts of thought", `{"candidates":[{"content":{"parts":[{}`, `,{"text":"abcd","thought":true}`, "]}}]}"),
		growth.Repeat("calls", `{"candidates":[{"content":{"parts":[{}`, `,{"functionCall":{"name":"f","args":{"a": 1}},"thoughtSignature":"abcd"}`, "]}}]}"),
		growth.Number("sources", `{"candidates":[{"groundingMetadata":{"groundingChunks":[{}`, `,{"web":{"uri":"u#","title":"t"}}`, "]}}]}"),
		growth.Repeat("parts of one source", `{"candidates":[{"groundingMetadata":{"groundingChunks":[{"web":{"uri":"u"}}],"groundingSupports":[{"groundingChunkIndices":[0`, `,0`, "]}]}}]}"),
		growth.Repeat("recitations", `{"candidates":[{"citationMetadata":{"citationSources":[{}`, `,{"startIndex":1,"endIndex":2,"uri":"u"}`, "]}}]}"),
		growth.Repeat("candidates", `{"candidates":[{}`, `,{"content":{"parts":[{"text":"abcd"}]}}`, "]}"),
		growth.Repeat("kinds of tokens", `{"usageMetadata":{"promptTokensDetails":[{}`, `,{"modality":"IMAGE","tokenCount":1}`, "]}}"),
		growth.Repeat("embeddings", `{"embeddings":[{"values":[1]}`, `,{"values":[1]}`, "]}"),
		growth.Repeat("images", `{"candidates":[{"content":{"parts":[{}`, `,{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}`, "]}}]}"),
	)
	return providertest.Hostile{
		New: func(vendor http.RoundTripper) (provider.Provider, error) {
			return gemini.New(provider.Settings{Name: "gemini", BaseURL: "http://vendor.example", Transport: vendor})
		},
		Answers: answers, Events: answers,
		Streams: []growth.Input{
			growth.Repeat("deltas of text", "", frame(`{"text":"abcd"}`), ""), growth.Repeat("deltas of thought", "", frame(`{"text":"abcd","thought":true}`), ""),
			growth.Repeat("calls", "", frame(`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"a"}`), ""),
			growth.Repeat("images", "", frame(`{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}`), ""),
			growth.Repeat("sources", "", `data: {"candidates":[{"groundingMetadata":{"groundingChunks":[{"web":{"uri":"u"}}]}}]}`+"\n\n", ""),
			growth.Repeat("usage", "", `data: {"usageMetadata":{"promptTokenCount":1}}`+"\n\n", ""),
		},
		Errors: append(growth.Around(`{"error":{"details":`, growth.ValidJSON, "}}"),
			growth.Repeat("details", `{"error":{"details":[{}`, `,{"reason":"X","retryDelay":"1s"}`, "]}}"),
			growth.Repeat("a long delay", `{"error":{"details":[{"retryDelay":"`, "9", `s"}]}}`)),
	}
}

// closing returns the brackets that close the open ones.
func closing(before string) string {
	var after strings.Builder
	for i := len(before) - 1; i >= 0; i-- {
		switch before[i] {
		case '{':
			after.WriteByte('}')
		case '[':
			after.WriteByte(']')
		}
	}
	return after.String()
}

func TestAnswerGrowsLinearly(t *testing.T) { hostile().RunAnswersGrowth(t) }

func TestStreamGrowsLinearly(t *testing.T) { hostile().RunStreamGrowth(t) }

func TestRequestGrowsLinearly(t *testing.T) { hostile().RunRequestGrowth(t) }

func TestSchemaGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"type":"object","properties":`, growth.JSON, "}"),
		growth.Nest("items of items", `{"type":"array","items":`, "{}", "}"), growth.Nest("properties of properties", `{"properties":{"a":`, "{}", "}}"),
		growth.Number("properties", `{"properties":{"a":{}`, `,"a#":{"type":"string"}`, "}}"),
		growth.Repeat("choices", `{"anyOf":[{}`, `,{"const":1}`, "]}"), growth.Repeat("values", `{"enum":["a"`, `,"a"`, "]}"),
	)
	growth.Linear(t, growth.Each(inputs, func(schema []byte) {
		chat := &provider.Chat{Model: flash, Tools: []provider.Tool{{Name: "a", Strict: true, Parameters: json.RawMessage(schema)}}}
		_, _ = over(t, 200, "application/json", `{"candidates":[{}]}`).Chat(t.Context(), provider.Credential{}, chat)
	})...)
}
