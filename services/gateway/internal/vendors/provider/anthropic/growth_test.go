package anthropic_test

import (
	"net/http"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

func hostile() providertest.Hostile {
	frame := func(data string) string { return "data: " + data + "\n\n" }
	delta := func(of string) string { return `{"type":"content_block_delta","index":0,"delta":{` + of + `}}` }
	start := func(block string) string {
		return frame(`{"type":"content_block_start","index":0,"content_block":{` + block + `}}`)
	}
	stop := frame(`{"type":"content_block_stop","index":0}`)
	use := `{"type":"tool_use","id":"call!#","name":"f","input":{},"extra_content":{"other":1}}`
	thought := start(`"type":"thinking","thinking":"","signature":""`)
	var fields []growth.Input
	for before, inputs := range map[string][]growth.Input{
		`{"content":`: growth.ValidJSON, `{"content":[{"type":"tool_use","id":"1","name":"f","input":`: growth.ValidJSON,
		`{"content":[{"type":"thinking","thinking":`: growth.ValidJSON[3:8], `{"content":[{"type":"text","text":`: growth.ValidJSON[3:8],
		`{"usage":`: growth.ValidJSON,
	} {
		after := "}"
		if len(before) > len(`{"content":`) {
			after = "}]}"
		}
		fields = append(fields, growth.Around(before, inputs, after)...)
	}
	var events []growth.Input
	for _, before := range []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`, `{"type":"message_delta","index":0,"usage":{"output_tokens":`,
	} {
		events = append(events, growth.Around(before, growth.ValidJSON, "}}")...)
	}
	return providertest.Hostile{
		New: func(vendor http.RoundTripper) (provider.Provider, error) {
			return anthropic.New(provider.Settings{Name: "anthropic", BaseURL: "http://vendor.example", Transport: vendor})
		},
		Answers: append(fields,
			growth.Repeat("blocks of text", `{"content":[{}`, `,{"type":"text","text":"abcd"}`, "]}"),
			growth.Repeat("citations", `{"content":[{"type":"text","text":"a","citations":[{}`, `,{"type":"char_location","document_title":"a","cited_text":"b"}`, "]}]}"),
			growth.Repeat("blocks of thinking", `{"content":[{}`, `,{"type":"thinking","thinking":"abcd","signature":"s"}`, "]}"),
			growth.Repeat("blocks of thinking before a call", `{"content":[{}`, `,{"type":"thinking","thinking":"abcd","signature":"s"}`, `,{"type":"tool_use","id":"1","name":"f","input":{}}]}`),
			growth.Number("calls", `{"content":[{}`, `,{"type":"tool_use","id":"c#","name":"f","input":{"a":1}}`, "]}"),
			growth.Number("thoughts and calls", `{"content":[{}`, `,{"type":"thinking","thinking":"a","signature":"s"},{"type":"tool_use","id":"c#","name":"f","input":{}}`, "]}"),
		),
		Events: events,
		Streams: []growth.Input{
			growth.Repeat("deltas of text", start(`"type":"text","text":""`), frame(delta(`"type":"text_delta","text":"abcd"`)), stop),
			growth.Repeat("deltas of citations", start(`"type":"text","text":"a"`), frame(delta(`"type":"citations_delta","citation":{"url":"u","cited_text":"b"}`)), stop),
			growth.Repeat("deltas of thinking", thought, frame(delta(`"type":"thinking_delta","thinking":"abcd"`)), stop),
			growth.Repeat("deltas of a signature", thought, frame(delta(`"type":"signature_delta","signature":"abcd"`)), stop),
			growth.Repeat("deltas of arguments", start(`"type":"tool_use","id":"1","name":"f","input":{}`), frame(delta(`"type":"input_json_delta","partial_json":"abcd"`)), stop),
			growth.Repeat("blocks of thinking", "", thought+stop, start(`"type":"tool_use","id":"1","name":"f","input":{}`)+stop),
			growth.Number("calls", "", frame(`{"type":"content_block_start","index":#,"content_block":{"type":"tool_use","id":"c#","name":"f","input":{"a":1}}}`)+frame(`{"type":"content_block_stop","index":#}`), ""),
			growth.Repeat("starts", "", frame(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`), ""),
			growth.Repeat("usage", "", frame(`{"type":"message_delta","delta":{},"usage":{"output_tokens":1}}`), ""),
		},
		Dialect: anthropic.DialectName,
		Requests: []growth.Input{
			growth.Number("blocks to be repaired", `{"messages":[{"role":"assistant","content":[{}`, ","+use, "]}]}"),
			growth.Number("turns to be repaired", `{"messages":[{"role":"user","content":"a"}`, `,{"role":"assistant","content":[`+use+`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call!#"}]}`, "]}"),
			growth.Repeat("citations to be repaired", `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a","citations":[{}`, `,{"type":"char_location","file_id":"switchyard"}`, "]}]}]}"),
			growth.Repeat("members", `{"messages":[]`, `,"temperature":1`, "}"),
			growth.Number("unknown members", `{"messages":[]`, `,"x#":1`, "}"),
		},
		Errors: growth.Around(`{"type":"error","error":{"type":"invalid_request_error","message":`, growth.ValidJSON, "}}"),
	}
}

func TestAnswerGrowsLinearly(t *testing.T) { hostile().RunAnswersGrowth(t) }

func TestStreamGrowsLinearly(t *testing.T) { hostile().RunStreamGrowth(t) }

func TestRequestGrowsLinearly(t *testing.T) { hostile().RunRequestGrowth(t) }
