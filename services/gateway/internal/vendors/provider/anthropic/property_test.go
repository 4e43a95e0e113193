package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

type fields = map[string]any

// blocks returns an answer's content: thinking, text, calls.
func blocks(a *provider.Answer) []fields {
	list := []fields{}
	if a.Reasoning != "" {
		list = append(list, fields{"type": "thinking", "thinking": a.Reasoning, "signature": "c2ln"})
	}
	if a.Text != "" {
		list = append(list, fields{"type": "text", "text": a.Text})
	}
	for _, call := range a.ToolCalls {
		list = append(list, fields{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)})
	}
	return list
}

var stops = map[provider.FinishReason]string{
	provider.FinishStop: "end_turn", provider.FinishLength: "max_tokens",
	provider.FinishToolCalls: "tool_use", provider.FinishContentFilter: "refusal",
}

func report(u *provider.Usage) fields {
	if u == nil {
		return fields{}
	}
	return fields{
		"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite + u.CacheWriteLong,
		"cache_creation": fields{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": u.CacheWriteLong},
		"output_tokens":  u.Output + u.Reasoning, "output_tokens_details": fields{"thinking_tokens": u.Reasoning},
	}
}

func message(a *provider.Answer, content []fields) fields {
	return fields{
		"type": "message", "model": a.Model, "role": "assistant", "content": content,
		"stop_reason": stops[a.FinishReason], "usage": report(a.Usage),
	}
}

// written returns a stream of an answer, its texts split at random.
func written(t *rapid.T, a *provider.Answer) string {
	var out strings.Builder
	event := func(kind string, more fields) {
		more["type"] = kind
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", kind, providertest.JSON(more))
		if rapid.IntRange(0, 9).Draw(t, "ping") == 0 {
			out.WriteString("event: ping\ndata: {\"type\": \"ping\"}\n\n")
		}
	}
	start := message(a, []fields{})
	if a.Usage != nil {
		start["usage"] = fields{"input_tokens": a.Usage.Input, "output_tokens": 1, "cache_creation": report(a.Usage)["cache_creation"]}
	}
	event("message_start", fields{"message": start})
	for i, block := range blocks(a) {
		begin, deltas := pieces(t, block)
		event("content_block_start", fields{"index": i, "content_block": begin})
		for _, delta := range deltas {
			event("content_block_delta", fields{"index": i, "delta": delta})
		}
		event("content_block_stop", fields{"index": i})
	}
	end := report(a.Usage)
	delete(end, "cache_creation") // The vendor's last report has no split.
	event("message_delta", fields{"delta": fields{"stop_reason": stops[a.FinishReason]}, "usage": end})
	event("message_stop", fields{})
	return out.String()
}

// pieces returns a block's start and its deltas.
func pieces(t *rapid.T, block fields) (begin fields, deltas []fields) {
	cut := func(kind, field, text string) {
		for _, piece := range providertest.Pieces(t, text) {
			deltas = append(deltas, fields{"type": kind, field: piece})
		}
	}
	switch block["type"] {
	case "thinking":
		cut("thinking_delta", "thinking", fmt.Sprint(block["thinking"]))
		cut("signature_delta", "signature", "c2ln")
		return fields{"type": "thinking", "thinking": "", "signature": ""}, deltas
	case "text":
		cut("text_delta", "text", fmt.Sprint(block["text"]))
		return fields{"type": "text", "text": ""}, deltas
	}
	if input := block["input"].(json.RawMessage); string(input) != "{}" {
		cut("input_json_delta", "partial_json", string(input))
	}
	return fields{"type": "tool_use", "id": block["id"], "name": block["name"], "input": fields{}}, deltas
}

// expressible adds what only this dialect has: thinking that must be sent back with a call.
func expressible(t *rapid.T) *provider.Answer {
	a := providertest.Generate(t)
	for i := range a.ToolCalls {
		a.ToolCalls[i].Arguments = providertest.JSON(json.RawMessage(a.ToolCalls[i].Arguments))
	}
	if a.Usage != nil {
		a.Usage.CacheWriteLong = rapid.Int64Range(0, 1<<30).Draw(t, "written for long")
	}
	if a.Reasoning != "" && len(a.ToolCalls) > 0 {
		state := fields{"lead": []any{json.RawMessage(`{"type":"thinking","thinking":` + providertest.JSON(a.Reasoning) + `,"signature":"c2ln"}`)}}
		a.ToolCalls[0].Extra, _ = json.Marshal(fields{"anthropic": state}) // texts always do
	}
	return a
}

// A stream, however it is split, means what the whole answer means.
func TestStreamIsTheAnswer(t *testing.T) {
	providertest.Property(t, dialect(), providertest.Vendor{
		Generate: expressible,
		Whole:    func(a *provider.Answer) string { return providertest.JSON(message(a, blocks(a))) },
		Stream:   written,
	})
}

// Reading any stream ends, with a typed error or with an answer that satisfies provider.Stream, relayed or not.
func FuzzStream(f *testing.F) {
	f.Add(begin + "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n")
	f.Add("data: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"type\":\"content_block_start\",\"index\":1e400,\"content_block\":{\"type\":\"thinking\",\"signature\":5}}\n\ndata: {\"type\":\"content_block_stop\"}\n\n")
	f.Add("data: [5]\n\ndata: {\"type\":\"error\",\"error\":null}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, native := range []*provider.Native{nil, {Dialect: anthropic.DialectName, Body: []byte("{}")}} {
			vendor := providertest.Canned(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, text)
			p, err := anthropic.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
			if err != nil {
				t.Fatal(err)
			}
			stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{Native: native})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, stream)
		}
	})
}

func readAll(t *testing.T, stream provider.Stream) {
	t.Helper()
	defer stream.Close()
	for calls := 0; ; {
		event, err := stream.Next()
		if err != nil {
			return
		}
		for _, call := range event.ToolCalls {
			if call.Index < 0 || call.Index > calls {
				t.Fatalf("call %+v after %d calls", call, calls)
			}
			calls = max(calls, call.Index+1)
		}
		if event.Usage == nil {
			continue
		}
		for _, bucket := range provider.Buckets() {
			if n := *bucket.Of(event.Usage); n < 0 {
				t.Fatalf("%s is negative: %d", bucket.Name(), n)
			}
		}
	}
}

// Any answer of a vendor results in an answer or a typed error.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"content":[{"type":"tool_use","input":[]},{"type":"thinking"},5],"usage":{"input_tokens":-1,"cache_creation":[]}}`)
	f.Add(`{"type":"error","error":{"type":"api_error","message":"x"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		vendor := providertest.Canned(http.StatusOK, nil, text)
		p, err := anthropic.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{})
		if (answer == nil) == (err == nil) {
			t.Errorf("%+v, %v", answer, err)
		}
	})
}
