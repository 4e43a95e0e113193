package gemini_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

type fields = map[string]any

var finishes = map[provider.FinishReason]string{
	provider.FinishStop: "STOP", provider.FinishLength: "MAX_TOKENS",
	provider.FinishToolCalls: "STOP", provider.FinishContentFilter: "SAFETY",
}

// chunk returns a document of the dialect with some parts of the answer.
func chunk(a *provider.Answer, parts []fields, last bool) fields {
	candidate := fields{"index": 0, "content": fields{"role": "model", "parts": parts}}
	out := fields{"modelVersion": a.Model, "candidates": []fields{candidate}}
	if last {
		candidate["finishReason"] = finishes[a.FinishReason]
	}
	if u := a.Usage; u != nil && last {
		prompt := u.Input + u.CacheRead + u.ImageInput
		out["usageMetadata"] = fields{
			"promptTokenCount": prompt, "cachedContentTokenCount": u.CacheRead, "candidatesTokenCount": u.Output + u.ImageOutput,
			"thoughtsTokenCount": u.Reasoning, "totalTokenCount": prompt + u.Output + u.ImageOutput + u.Reasoning,
			"promptTokensDetails":     []fields{{"modality": "TEXT", "tokenCount": u.Input}, {"modality": "IMAGE", "tokenCount": u.ImageInput}},
			"candidatesTokensDetails": []fields{{"modality": "IMAGE", "tokenCount": u.ImageOutput}},
		}
	}
	return out
}

func callPart(call provider.ToolCall) fields {
	part := fields{"functionCall": fields{"id": call.ID, "name": call.Name, "args": json.RawMessage(call.Arguments)}}
	var state struct {
		Google struct {
			Signature string `json:"thought_signature"`
		} `json:"google"`
	}
	if json.Unmarshal(call.Extra, &state) == nil {
		part["thoughtSignature"] = state.Google.Signature
	}
	return part
}

func whole(a *provider.Answer) string {
	parts := []fields{{"text": a.Reasoning, "thought": true}, {"text": a.Text}}
	for _, call := range a.ToolCalls {
		parts = append(parts, callPart(call))
	}
	text, _ := json.MarshalIndent(chunk(a, parts, true), "", "  ") // as the vendor does
	return string(text)
}

// written returns a stream of an answer, its texts split at random.
func written(t *rapid.T, a *provider.Answer) string {
	var out strings.Builder
	var parts []fields
	send := func(last bool) {
		fmt.Fprintf(&out, "data: %s\n\n", providertest.JSON(chunk(a, parts, last)))
		parts = nil
	}
	add := func(part fields) {
		parts = append(parts, part)
		if rapid.Bool().Draw(t, "send") {
			send(false)
		}
	}
	for _, piece := range providertest.Pieces(t, a.Reasoning) {
		add(fields{"text": piece, "thought": true})
	}
	for _, piece := range providertest.Pieces(t, a.Text) {
		add(fields{"text": piece})
	}
	for _, call := range a.ToolCalls {
		add(callPart(call))
	}
	send(true)
	return out.String()
}

// expressible returns an answer that the dialect can express.
func expressible(t *rapid.T) *provider.Answer {
	a := providertest.Generate(t)
	for i := range a.ToolCalls {
		a.ToolCalls[i].Arguments = providertest.JSON(json.RawMessage(a.ToolCalls[i].Arguments))
	}
	if len(a.ToolCalls) > 0 && rapid.Bool().Draw(t, "signed") {
		a.ToolCalls[0].Extra = json.RawMessage(`{"google":{"thought_signature":"c2ln"}}`)
	}
	if a.Usage != nil {
		a.Usage.CacheWrite = 0
		a.Usage.ImageInput = rapid.Int64Range(0, 1<<30).Draw(t, "image input")
		a.Usage.ImageOutput = rapid.Int64Range(0, 1<<30).Draw(t, "image output")
	}
	return a
}

// A stream, however it is split, means what the whole answer means.
func TestStreamIsTheAnswer(t *testing.T) {
	providertest.Property(t, dialect(), providertest.Vendor{Generate: expressible, Whole: whole, Stream: written})
}

// For any report of a vendor, the buckets are disjoint and add up to its total.
func TestUsageSumsToTheTotal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := func(name string) int64 { return rapid.Int64Range(-5, 1000).Draw(r, name) }
		report := fields{
			"promptTokenCount": n("prompt"), "cachedContentTokenCount": n("cached"), "candidatesTokenCount": n("candidates"),
			"thoughtsTokenCount": n("thoughts"), "toolUsePromptTokenCount": n("tools"),
			"promptTokensDetails":     []fields{{"modality": "IMAGE", "tokenCount": n("image in")}, {"modality": "AUDIO", "tokenCount": n("audio in")}},
			"cacheTokensDetails":      []fields{{"modality": "IMAGE", "tokenCount": n("image cached")}},
			"candidatesTokensDetails": []fields{{"modality": "IMAGE", "tokenCount": n("image out")}, {"modality": "AUDIO", "tokenCount": n("audio out")}},
		}
		body := providertest.JSON(fields{"candidates": []fields{{"finishReason": "STOP"}}, "usageMetadata": report})
		answer, err := over(t, 200, "application/json", body).Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: flash})
		if err != nil {
			r.Fatal(err)
		}
		at := func(name string) int64 { return max(0, report[name].(int64)) }
		u := *answer.Usage
		prompt := cmp.Or(at("promptTokenCount"), at("cachedContentTokenCount"))
		if u.Prompt() != prompt+at("toolUsePromptTokenCount") || u.Completion() != at("candidatesTokenCount")+at("thoughtsTokenCount") {
			r.Errorf("%s: %+v", body, u)
		}
		for _, bucket := range []int64{u.Input, u.CacheRead, u.ImageInput, u.AudioInput, u.Output, u.Reasoning, u.ImageOutput, u.AudioOutput} {
			if bucket < 0 {
				r.Errorf("%s: %+v", body, u)
			}
		}
	})
}

// Reading any stream ends, with a typed error or with an answer that satisfies provider.Stream.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"},{\"functionCall\":{\"args\":[]}}]},\"finishReason\":\"STOP\"}]}\n\n")
	f.Add("data: [{\"error\":{\"code\":\"x\"}}]\n\ndata: {\"candidates\":{\"0\":1}}\n\n")
	f.Add("data: {\"candidates\":[{\"content\":{\"parts\":{\"text\":5}}}],\"usageMetadata\":{\"promptTokenCount\":1e300,\"promptTokensDetails\":[{\"modality\":\"IMAGE\",\"tokenCount\":9e18}]}}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		stream, err := over(t, 200, "text/event-stream", text).StreamChat(t.Context(), provider.Credential{}, &provider.Chat{Model: flash})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for calls := 0; ; {
			event, err := stream.Next()
			if err != nil {
				return
			}
			for _, call := range event.ToolCalls {
				if call.Index != calls || call.ID == "" || !json.Valid([]byte(call.Arguments)) {
					t.Fatalf("call %+v after %d calls", call, calls)
				}
				calls++
			}
			if u := event.Usage; u != nil && min(u.Input, u.CacheRead, u.ImageInput, u.AudioInput, u.Output, u.Reasoning, u.ImageOutput, u.AudioOutput) < 0 {
				t.Fatalf("usage %+v", u)
			}
		}
	})
}

// Any answer of a vendor results in an answer or a typed error.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"candidates":[{"content":{"parts":[{"functionCall":{}},5,{"inlineData":{}}]}}],"usageMetadata":{"candidatesTokenCount":-1}}`)
	f.Add(`[{"error":{"details":[{"retryDelay":"1e9s","reason":"X"}]}}]`)
	f.Add(`{"embeddings":[{"values":[1,"a"]}],"predictions":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p := over(t, 200, "application/json", text)
		answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{})
		if (answer == nil) == (err == nil) {
			t.Errorf("chat: %+v, %v", answer, err)
		}
		vectors, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Input: []string{"a"}})
		if (vectors == nil) == (err == nil) || (err == nil && len(vectors.Vectors) != 1) {
			t.Errorf("vectors: %+v, %v", vectors, err)
		}
		for _, model := range []string{"imagen-4.0", flash} {
			images, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: model, Count: 1})
			if (images == nil) == (err == nil) {
				t.Errorf("images: %+v, %v", images, err)
			}
			if err == nil && (len(images.Images) != 1 || images.Usage.Images != 1) {
				t.Errorf("%d images, %d billed, want one", len(images.Images), images.Usage.Images)
			}
		}
	})
}

// For any schema, either valid JSON is sent, or nothing.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"const":1}},"anyOf":[{}],"additionalProperties":{}}`)
	f.Add(`{"items":{"items":{"items":[]}}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		chat := &provider.Chat{Tools: []provider.Tool{{Name: "a", Strict: true, Parameters: json.RawMessage(schema)}}}
		_, err := over(t, 200, "application/json", `{"candidates":[{}]}`).Chat(t.Context(), provider.Credential{}, chat)
		if err == nil && schema != "" && !json.Valid([]byte(schema)) {
			t.Errorf("%s is sent", schema)
		}
		if err != nil && strings.Contains(err.Error(), "can't be encoded as JSON") {
			t.Errorf("%s became no JSON: %v", schema, err)
		}
	})
}
