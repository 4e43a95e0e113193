package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

type object = map[string]any

func TestStreamMeansTheWhole(t *testing.T) {
	providertest.Property(t, dialect(provider.Settings{Name: "openai"}), providertest.Vendor{
		Generate: generate, Whole: whole, Stream: streamed,
	})
}

// generate returns an answer whose first call has the answer's reasoning as its state.
func generate(t *rapid.T) *provider.Answer {
	a := providertest.Generate(t)
	if a.Reasoning != "" && len(a.ToolCalls) > 0 {
		thought, err := jsontext.Marshal(openai.Thought{Provider: "openai", Member: "reasoning_content", Text: a.Reasoning})
		if err != nil {
			t.Fatal(err)
		}
		a.ToolCalls[0].Extra = json.RawMessage(`{"openai":` + string(thought) + `}`)
	}
	return a
}

func marshal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func whole(a *provider.Answer) string {
	message := object{"role": "assistant", "content": a.Text, "reasoning_content": a.Reasoning}
	var calls []object
	for _, call := range a.ToolCalls {
		calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": call.Arguments}})
	}
	message["tool_calls"] = calls
	answer := object{"model": a.Model, "choices": []object{{"index": 0, "message": message, "finish_reason": a.FinishReason}}}
	if a.Usage != nil {
		answer["usage"] = inclusive(a.Usage)
	}
	return marshal(answer)
}

func inclusive(u *provider.Usage) object {
	return object{
		"prompt_tokens": u.Prompt(), "completion_tokens": u.Completion(), "total_tokens": u.Prompt() + u.Completion(),
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func streamed(t *rapid.T, a *provider.Answer) string {
	var frames strings.Builder
	end := rapid.SampledFrom([]string{"\n\n", "\r\n\r\n"}).Draw(t, "line end")
	chunk := func(delta object, finish any) {
		frames.WriteString("data: " + marshal(object{
			"model": a.Model, "choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}, "usage": nil,
		}) + end)
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range providertest.Pieces(t, a.Reasoning) {
		chunk(object{"reasoning_content": piece}, nil)
	}
	for _, piece := range providertest.Pieces(t, a.Text) {
		chunk(object{"content": piece}, nil)
	}
	// Calls may come one after the other, or in turn a piece of each.
	left := make([][]string, len(a.ToolCalls))
	for i, call := range a.ToolCalls {
		chunk(object{"tool_calls": []object{{"index": i, "id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": ""}}}}, nil)
		left[i] = providertest.Pieces(t, call.Arguments)
		if rapid.Bool().Draw(t, "at once") {
			for _, piece := range left[i] {
				chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": piece}}}}, nil)
			}
			left[i] = nil
		}
	}
	for more := true; more; {
		more = false
		for i := range left {
			if len(left[i]) > 0 {
				chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": left[i][0]}}}}, nil)
				left[i], more = left[i][1:], true
			}
		}
	}
	chunk(object{}, a.FinishReason)
	if a.Usage != nil {
		frames.WriteString("data: " + marshal(object{"model": a.Model, "choices": []object{}, "usage": inclusive(a.Usage)}) + end)
	}
	return frames.String() + "data: [DONE]" + end
}

func answering(tb testing.TB, kind, text string) *openai.Provider {
	tb.Helper()
	vendor := providertest.Canned(http.StatusOK, http.Header{"Content-Type": {kind}}, text)
	p, err := openai.New(provider.Settings{Name: "openai", BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// typed fails the test on an error that is not a *provider.Error.
func typed(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*provider.Error](err); err != nil && (!ok || errors.Is(err, io.EOF)) {
		t.Errorf("err = %v (%T), want an *provider.Error", err, err)
	}
}

// Any bytes as a stream end with a typed error or io.EOF, and a native stream means the same as the parsed one.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"a\\n\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}},{\"index\":-3}]}}]}\n\n")
	f.Add("data: {\"choices\":[{\"index\":1e99,\"delta\":{\"content\":[{\"text\":\"a\"},{\"thinking\":[{\"text\":\"\\ud83d\"}]}]}}],\"usage\":{\"prompt_tokens\":-1}}\n\n")
	f.Add("data:\n\ndata: {\"choices\":[{\"delta\":{\"refusal\":\"no\"},\"finish_reason\":\"stop\"}]}\n\ndata:  [DONE] \n\n")
	f.Add("event: error\ndata: {\"error\":\"x\"}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		p := answering(t, "text/event-stream", text)
		var parsed, native string
		for _, into := range []*string{&parsed, &native} {
			chat := &provider.Chat{Model: "m"}
			if into == &native {
				chat.Native = &provider.Native{Dialect: openai.DialectName, Body: []byte("{}")}
			}
			stream, err := p.StreamChat(context.Background(), provider.Credential{}, chat)
			if err != nil {
				t.Fatal(err)
			}
			*into = drain(t, stream)
		}
		if parsed != native {
			t.Errorf("parsed %s, native %s", parsed, native)
		}
	})
}

// drain returns the content of a stream's events, and checks each event.
func drain(t *testing.T, stream provider.Stream) string {
	t.Helper()
	defer stream.Close()
	var parts []string
	for {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(parts, "|")
		}
		if err != nil {
			typed(t, err)
			return strings.Join(append(parts, err.Error()), "|")
		}
		if u := event.Usage; u != nil && min(u.Input, u.Output, u.CacheRead, u.Reasoning) < 0 {
			t.Errorf("a bucket is negative: %+v", u)
		}
		for i := range event.ToolCalls {
			if strings.HasPrefix(event.ToolCalls[i].ID, "call_") {
				event.ToolCalls[i].ID = "" // May be generated, and random.
			}
		}
		native := event.Native
		event.Native, event.NativeType = nil, ""
		if text := marshal(event); native == nil || text != marshal(provider.Event{}) {
			parts = append(parts, text)
		}
	}
}

// Any bytes as an answer result in an answer or a typed error.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"message":{"content":"a"}}]}`, `{"error":{"code":429,"message":{}}}`, `[{"error":"x"}]`, `{"object":"error","message":null}`,
		`{"data":[{"index":0,"embedding":"AACAPw=="},{"index":1,"embedding":[0.5]}],"usage":{"prompt_tokens":1e300}}`,
		`{"data":[{"b64_json":"iVBORw0KGgo="},{"url":"https://a"}],"usage":{"input_tokens":1}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := answering(t, "application/json", text)
		_, err := p.Chat(context.Background(), provider.Credential{}, &provider.Chat{Model: "m"})
		typed(t, err)
		vectors, err := p.Embed(context.Background(), provider.Credential{}, &provider.Embedding{Model: "m", Input: []string{"a", "b"}})
		typed(t, err)
		if err == nil && len(vectors.Vectors) != 2 {
			t.Errorf("%d vectors", len(vectors.Vectors))
		}
		images, err := p.MakeImages(context.Background(), provider.Credential{}, &provider.ImageRequest{Model: "m", Prompt: "p", Count: 2})
		typed(t, err)
		if err == nil && len(images.Images) != 2 {
			t.Errorf("%d images", len(images.Images))
		}
	})
}

// refusing answers every request with a status and a body.
func refusing(tb testing.TB, status int, body string) *openai.Provider {
	tb.Helper()
	vendor := providertest.Canned(status, http.Header{}, body)
	p, err := openai.New(provider.Settings{Name: "openai", BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
