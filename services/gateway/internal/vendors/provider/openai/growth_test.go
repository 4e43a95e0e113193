package openai_test

import (
	"net/http"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

// hostile is a vendor at a base URL, which decides what it accepts.
func hostile(base string) providertest.Hostile {
	call := `{"id":"call!#","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"other":1}}`
	delta := func(of string) string { return `{"choices":[{"index":0,"delta":` + of + `}]}` }
	frame := func(of string) string { return "data: " + delta(of) + "\n\n" }
	return providertest.Hostile{
		New: func(vendor http.RoundTripper) (provider.Provider, error) {
			return openai.New(provider.Settings{Name: "openai", BaseURL: base, Transport: vendor})
		},
		Answers: append(events(`{"choices":[{"message":`, `}]}`),
			growth.Repeat("choices", `{"choices":[{}`, `,{"message":{"content":"a"}}`, "]}"),
			growth.Number("embeddings", `{"data":[{"index":0,"embedding":[1]}`, `,{"index":#,"embedding":[1]}`, "]}"),
			growth.Repeat("numbers of an embedding", `{"data":[{"index":0,"embedding":[1`, `,0.5`, "]}]}"),
			growth.Repeat("base64 of an embedding", `{"data":[{"index":0,"embedding":"`, `AACAPw==`, `"}]}`),
			growth.Repeat("images", `{"data":[{"url":"u"}`, `,{"b64_json":"iVBORw0KGgo="}`, "]}"),
		),
		Events: events(`{"choices":[{"delta":`, `}]}`),
		Streams: []growth.Input{
			growth.Repeat("deltas of text", "", frame(`{"content":"abcd"}`), "data: [DONE]\n\n"),
			growth.Repeat("deltas of reasoning", "", frame(`{"reasoning_content":"abcd"}`), "data: [DONE]\n\n"),
			growth.Repeat("deltas of details", "", frame(`{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"abcd"}]}`), frame(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f"}}]}`)),
			growth.Number("details", "", frame(`{"reasoning_details":[{"type":"reasoning.encrypted","index":#,"data":"abcd"}]}`), frame(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f"}}]}`)),
			growth.Repeat("reasoning before a call", "", frame(`{"reasoning":"abcd"}`), frame(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f"}}]}`)),
			growth.Repeat("deltas of annotations", "", frame(`{"annotations":[{"type":"url_citation","url":"u"}]}`), "data: [DONE]\n\n"),
			growth.Repeat("deltas of arguments", frame(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":""}}]}`), frame(`{"tool_calls":[{"index":0,"function":{"arguments":"abcd"}}]}`), "data: [DONE]\n\n"),
			growth.Number("calls by index", "", frame(`{"tool_calls":[{"index":#,"id":"c#","function":{"name":"f","arguments":"{}"}}]}`), "data: [DONE]\n\n"),
			growth.Number("calls by id", "", frame(`{"tool_calls":[{"id":"c#","function":{"name":"f","arguments":"{}"}}]}`), "data: [DONE]\n\n"),
			growth.Repeat("calls without a name", "", frame(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`), "data: [DONE]\n\n"),
			growth.Number("choices of a stream", "", `data: {"choices":[{"index":#,"delta":{"tool_calls":[{"index":0,"id":"c#","function":{"name":"f"}}]}}]}`+"\n\n", "data: [DONE]\n\n"),
			growth.Repeat("usage", "", `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\n", "data: [DONE]\n\n"),
		},
		Dialect: openai.DialectName,
		Requests: []growth.Input{
			growth.Number("calls to be repaired", `{"messages":[{"role":"assistant","tool_calls":[`+`{"id":"x"}`, ","+call, "]}]}"),
			growth.Number("turns to be repaired", `{"messages":[{"role":"user"}`, `,{"role":"assistant","tool_calls":[`+call+`]},{"role":"tool","tool_call_id":"call!#","content":"1"}`, "]}"),
			growth.Repeat("reasoning to be repaired", `{"messages":[{"role":"user"}`, `,{"role":"assistant","reasoning_content":"a","content":"b"}`, "]}"),
			growth.Repeat("members", `{"messages":[]`, `,"temperature":1`, "}"),
			growth.Number("unknown members", `{"messages":[]`, `,"x#":1`, "}"),
		},
		Errors: documents(),
	}
}

// events are possible members of a message or a delta.
func events(before, after string) []growth.Input {
	inputs := []growth.Input{
		growth.Repeat("parts of content", `{"content":[{"text":"a"}`, `,{"type":"text","text":"abcd"}`, "]}"),
		growth.Repeat("parts of thinking", `{"content":[{"thinking":[{"text":"a"}`, `,{"text":"abcd"}`, "]}]}"),
		growth.Repeat("details of reasoning", `{"tool_calls":[{"id":"c"}],"reasoning_details":[{}`, `,{"type":"reasoning.text","text":"abcd"}`, "]}"),
		growth.Repeat("annotations", `{"annotations":[{}`, `,{"type":"url_citation","url_citation":{"url":"u","title":"t"}}`, "]}"),
		growth.Repeat("images of an answer", `{"images":[{}`, `,{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`, "]}"),
		growth.Repeat("refusals", `{"refusal":"a"`, `,"refusal":"abcd"`, "}"),
		growth.Repeat("contents", `{"content":"a"`, `,"content":"abcd"`, "}"),
		growth.Repeat("a long content", `{"content":"`, `\u0041`, `"}`),
		growth.Number("calls", `{"tool_calls":[{"index":0}`, `,{"index":#,"id":"c#","function":{"name":"f","arguments":"{}"}}`, "]}"),
		growth.Repeat("calls with one id", `{"tool_calls":[{"index":0}`, `,{"id":"c","function":{"name":"f","arguments":"{}"}}`, "]}"),
	}
	for _, field := range []string{"content", "refusal", "tool_calls", "reasoning", "extra"} {
		for _, input := range growth.Around(`{"`+field+`":`, []growth.Input{growth.JSON[0], growth.JSON[6], growth.JSON[7]}, "}") {
			input.Name = field + " of " + input.Name
			inputs = append(inputs, input)
		}
	}
	deep := growth.Nest("arguments", `{"a":`, "1", "}")
	inputs = append(inputs, deep.In(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":`, "}}]}"), growth.JSON[6].In(`{"tool_calls":[{"index":0,"id":"c","extra_content":`, "}]}"))
	return growth.Around(before, inputs, after)
}

func documents() []growth.Input {
	inputs := growth.Around(`{"error":{"message":`, growth.ValidJSON, "}}")
	for _, text := range growth.Around(`{"error":{"message":"`, growth.Text[:20], `"}}`) {
		text.Name = "message of " + text.Name
		inputs = append(inputs, text)
	}
	return append(inputs, growth.Repeat("waits", `{"error":{"message":"Please try again in `, `1h2m`, `"}}`), growth.Repeat("waits that begin", `{"error":{"message":"`, `try again in `, `"}}`))
}

func TestAnswerGrowsLinearly(t *testing.T) { hostile("http://vendor.example").RunAnswersGrowth(t) }

func TestStreamGrowsLinearly(t *testing.T) { hostile("http://vendor.example").RunStreamGrowth(t) }

func TestRequestGrowsLinearly(t *testing.T) {
	for name, base := range map[string]string{"openai": "http://vendor.example", "mistral": "https://api.mistral.ai/v1"} {
		t.Run(name, hostile(base).RunRequestGrowth)
	}
}
