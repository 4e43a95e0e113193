package bedrock_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
)

type fields = map[string]any

// blocks returns an answer's content: thinking, text, calls.
func blocks(a *provider.Answer) []fields {
	list := []fields{}
	if a.Reasoning != "" {
		list = append(list, fields{"reasoningContent": fields{"reasoningText": fields{"text": a.Reasoning, "signature": "c2ln"}}})
	}
	if a.Text != "" {
		list = append(list, fields{"text": a.Text})
	}
	for _, call := range a.ToolCalls {
		list = append(list, fields{"toolUse": fields{"toolUseId": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)}})
	}
	return list
}

var stops = map[provider.FinishReason]string{
	provider.FinishStop: "end_turn", provider.FinishLength: "max_tokens",
	provider.FinishToolCalls: "tool_use", provider.FinishContentFilter: "guardrail_intervened",
}

func report(u *provider.Usage) fields {
	if u == nil {
		return fields{}
	}
	return fields{
		"inputTokens": u.Input, "outputTokens": u.Output, "totalTokens": u.Input + u.Output, "cacheReadInputTokens": u.CacheRead,
		"cacheWriteInputTokens": u.CacheWrite + u.CacheWriteLong,
		"cacheDetails":          []fields{{"ttl": "1h", "inputTokens": u.CacheWriteLong}, {"ttl": "5m", "inputTokens": u.CacheWrite}},
	}
}

func whole(a *provider.Answer) string {
	return providertest.JSON(fields{
		"output": fields{"message": fields{"role": "assistant", "content": blocks(a)}}, "stopReason": stops[a.FinishReason], "usage": report(a.Usage),
	})
}

// written returns a stream of an answer, its texts split at random.
func written(t *rapid.T, a *provider.Answer) string {
	var out strings.Builder
	event := func(kind string, more fields) {
		more["p"] = strings.Repeat("a", rapid.IntRange(0, 30).Draw(t, "padding"))
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", kind, providertest.JSON(more))
	}
	event("messageStart", fields{"role": "assistant"})
	for i, block := range blocks(a) {
		begin, deltas := pieces(t, block)
		if begin != nil {
			event("contentBlockStart", fields{"contentBlockIndex": i, "start": begin})
		}
		for _, delta := range deltas {
			event("contentBlockDelta", fields{"contentBlockIndex": i, "delta": delta})
		}
		event("contentBlockStop", fields{"contentBlockIndex": i})
	}
	event("messageStop", fields{"stopReason": stops[a.FinishReason]})
	event("metadata", fields{"usage": report(a.Usage)})
	return out.String()
}

// pieces returns a block's start, if it has one, and its deltas.
func pieces(t *rapid.T, block fields) (begin fields, deltas []fields) {
	cut := func(text string, delta func(piece string) fields) {
		for _, piece := range providertest.Pieces(t, text) {
			deltas = append(deltas, delta(piece))
		}
	}
	switch {
	case block["reasoningContent"] != nil:
		thought := block["reasoningContent"].(fields)["reasoningText"].(fields)
		cut(fmt.Sprint(thought["text"]), func(piece string) fields { return fields{"reasoningContent": fields{"text": piece}} })
		cut("c2ln", func(piece string) fields { return fields{"reasoningContent": fields{"signature": piece}} })
	case block["text"] != nil:
		cut(fmt.Sprint(block["text"]), func(piece string) fields { return fields{"text": piece} })
	default:
		use := block["toolUse"].(fields)
		begin = fields{"toolUse": fields{"toolUseId": use["toolUseId"], "name": use["name"]}}
		if input := use["input"].(json.RawMessage); string(input) != "{}" {
			cut(string(input), func(piece string) fields { return fields{"toolUse": fields{"input": piece}} })
		}
	}
	return begin, deltas
}

// expressible returns an answer without what this dialect can't say, and with thinking that must be sent back with a
// call.
func expressible(t *rapid.T) *provider.Answer {
	a := providertest.Generate(t)
	a.Model = ""
	for i := range a.ToolCalls {
		a.ToolCalls[i].Arguments = providertest.JSON(json.RawMessage(a.ToolCalls[i].Arguments))
	}
	if a.Usage != nil {
		a.Usage.Reasoning = 0
		a.Usage.CacheWriteLong = rapid.Int64Range(0, 1<<30).Draw(t, "written for long")
	}
	if a.Reasoning != "" && len(a.ToolCalls) > 0 {
		thought, _ := json.Marshal(struct { // texts always do
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{"thinking", a.Reasoning, "c2ln"})
		a.ToolCalls[0].Extra, _ = json.Marshal(fields{"anthropic": fields{"lead": []any{json.RawMessage(thought)}}})
	}
	return a
}

// A stream, however it is split, means what the whole answer means.
func TestStreamIsTheAnswer(t *testing.T) {
	providertest.Property(t, dialect(), providertest.Vendor{Generate: expressible, Whole: whole, Stream: written})
}

// Reading any stream ends, with a typed error or with an answer that satisfies provider.Stream, relayed or not. A line of
// the text is the payload of an event, whose name is before the first space.
func FuzzStream(f *testing.F) {
	f.Add("contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"a\"}}\nmessageStop {\"stopReason\":\"end_turn\"}\nmetadata {\"usage\":{\"inputTokens\":-1}}")
	f.Add("contentBlockStart {\"contentBlockIndex\":1e400,\"start\":{\"toolUse\":{\"toolUseId\":5}}}\ncontentBlockStop {\"contentBlockIndex\":[]}")
	f.Add("contentBlockDelta {\"delta\":{\"reasoningContent\":{\"signature\":\"s\",\"redactedContent\":\"r\"}}}\ncontentBlockStop {}\ncontentBlockStart {\"start\":{\"toolUse\":{}}}")
	f.Add("chunk {\"bytes\":\"e30=\"}\nchunk {\"bytes\":5}")
	f.Fuzz(func(t *testing.T, text string) {
		var frames strings.Builder
		for line := range strings.Lines(text) {
			name, payload, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			frames.WriteString(converseFrame(sse.Event{Name: strings.ToValidUTF8(name[:min(len(name), 99)], ""), Data: []byte(payload)}))
		}
		for _, stream := range []string{frames.String(), text} {
			for _, native := range [][]byte{nil, []byte("{}")} {
				vendor := providertest.Canned(http.StatusOK, http.Header{"Content-Type": {eventstream.MediaType}}, stream)
				p, err := newAs(claude, native)("http://vendor.example", vendor)
				if err != nil {
					t.Fatal(err)
				}
				stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{})
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, stream)
			}
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
	f.Add(`{"output":{"message":{"content":[{"toolUse":{"input":[]}},{"reasoningContent":5},5,{"text":"a","toolUse":{}}]}},"usage":{"inputTokens":-1,"cacheDetails":{}}}`)
	f.Add(`{"embedding":[1],"inputTextTokenCount":-5}`)
	f.Add(`{"embeddings":{"float":[[1]]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example", Transport: providertest.Canned(http.StatusOK, nil, text)})
		if err != nil {
			t.Fatal(err)
		}
		for _, model := range []string{claude, llama} {
			answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: model})
			if (answer == nil) == (err == nil) {
				t.Errorf("%+v, %v", answer, err)
			}
		}
		for _, model := range []string{titan, cohere} {
			made, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: model, Input: []string{"a"}})
			if (made == nil) == (err == nil) || made != nil && len(made.Vectors) != 1 {
				t.Errorf("%+v, %v", made, err)
			}
		}
	})
}
