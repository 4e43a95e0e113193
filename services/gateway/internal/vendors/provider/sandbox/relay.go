package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Relay answers calls of OpenAI's API and of rerankers: a completion repeats its prompt, a moderation flags nothing, a
// text to speak becomes a tone, a recording is described, and documents are ranked by the words of the query in them.
func (p *Provider) Relay(ctx context.Context, _ provider.Credential, call *provider.Relay) (provider.RelayStream, error) {
	if err := begin(ctx, call.Model); err != nil {
		return nil, err
	}
	body := gjson.ParseBytes(call.Body)
	switch call.Operation {
	case provider.OperationCompletions:
		return complete(call, body)
	case provider.OperationModerations:
		return moderate(call, body)
	case provider.OperationSpeech:
		if call.Stream {
			return nil, provider.Unsupported("stream_format", "must be audio for the sandbox")
		}
		return wire.NewWhole("audio/wav", tone(call.Estimate.Characters), &provider.Usage{Characters: call.Estimate.Characters}), nil
	case provider.OperationTranscriptions:
		return transcribe(call)
	case provider.OperationRerank:
		return rank(call, body)
	case provider.OperationImages:
		return p.redraw(ctx, call, body)
	case provider.OperationChat, provider.OperationVision, provider.OperationEmbeddings:
	}
	return nil, provider.Unsupported("model", "the sandbox has no such call")
}

// inJSON returns an answer in JSON.
func inJSON(answer map[string]any, usage *provider.Usage) (provider.RelayStream, error) {
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, wire.Malformed("the answer could not be written", err)
	}
	return wire.NewWhole("application/json", text, usage), nil
}

func complete(call *provider.Relay, body gjson.Result) (provider.RelayStream, error) {
	prompt := body.Get("prompt").String()
	usage := provider.Estimate(len(prompt), len(prompt))
	answer := map[string]any{
		"id": "cmpl-sandbox", "object": "text_completion", "created": 0, "model": call.Model,
		"choices": []map[string]any{{"text": prompt, "index": 0, "logprobs": nil, "finish_reason": "stop"}},
		"usage":   map[string]int64{"prompt_tokens": usage.Input, "completion_tokens": usage.Output, "total_tokens": usage.Input + usage.Output},
	}
	if !call.Stream {
		return inJSON(answer, &usage)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, wire.Malformed("the answer could not be written", err)
	}
	return &script{events: []provider.Event{
		{Native: text, Text: prompt, Usage: &usage}, {Native: []byte("[DONE]")}, {FinishReason: provider.FinishStop},
	}}, nil
}

func moderate(call *provider.Relay, body gjson.Result) (provider.RelayStream, error) {
	inputs := 1
	if list := body.Get("input"); list.IsArray() && list.Get("0").Type == gjson.String {
		inputs = int(list.Get("#").Int())
	}
	results := make([]map[string]any, inputs)
	for i := range results {
		results[i] = map[string]any{"flagged": false, "categories": map[string]bool{}, "category_scores": map[string]float64{}}
	}
	return inJSON(map[string]any{"id": "modr-sandbox", "model": call.Model, "results": results}, &provider.Usage{Input: call.Estimate.Input})
}

func transcribe(call *provider.Relay) (provider.RelayStream, error) {
	size, format := 0, "json"
	for _, p := range call.Parts {
		switch p.Name {
		case "file":
			size = len(p.Data)
		case "response_format":
			format = string(p.Data)
		}
	}
	said := fmt.Sprintf("A recording of %d bytes.", size)
	usage := &provider.Usage{AudioSeconds: call.Estimate.AudioSeconds}
	switch {
	case call.Stream:
		return nil, provider.Unsupported("stream", "must be false for the sandbox")
	case format == "text":
		return wire.NewWhole("text/plain; charset=utf-8", []byte(said+"\n"), usage), nil
	case format == "json", format == "verbose_json":
		return inJSON(map[string]any{"text": said, "usage": map[string]any{"type": "duration", "seconds": usage.AudioSeconds}}, usage)
	}
	return nil, provider.Unsupported("response_format", "must be json, verbose_json or text for the sandbox")
}

// result is a document's place in a ranking.
type result struct {
	Index int     `json:"index"`
	Score float64 `json:"relevance_score"`
}

func rank(call *provider.Relay, body gjson.Result) (provider.RelayStream, error) {
	words := make(map[string]bool)
	for word := range strings.FieldsSeq(strings.ToLower(body.Get("query").String())) {
		words[word] = true
	}
	var results []result
	body.Get("documents").ForEach(func(_, document gjson.Result) bool {
		text := document.String()
		if document.IsObject() {
			text = document.Get("text").String()
		}
		found := make(map[string]bool)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			found[word] = words[word]
		}
		n := 0
		for _, has := range found {
			if has {
				n++
			}
		}
		results = append(results, result{len(results), float64(n) / float64(max(len(words), 1))})
		return true
	})
	slices.SortStableFunc(results, func(a, b result) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	if top := body.Get("top_n").Int(); top > 0 && top < int64(len(results)) {
		results = results[:top]
	}
	answer := map[string]any{"id": "rerank-sandbox", "model": call.Model, "results": results}
	if call.API == "cohere" {
		answer["meta"] = map[string]any{"billed_units": map[string]int64{"search_units": call.Estimate.Searches}}
		return inJSON(answer, &provider.Usage{Searches: call.Estimate.Searches})
	}
	answer["usage"] = map[string]int64{"total_tokens": call.Estimate.Input}
	return inJSON(answer, &provider.Usage{Input: call.Estimate.Input})
}

// redraw makes the images of a call with fields of OpenAI's own, which it ignores.
func (p *Provider) redraw(ctx context.Context, call *provider.Relay, body gjson.Result) (provider.RelayStream, error) {
	if call.Stream {
		return nil, provider.Unsupported("stream", "must be false for the sandbox")
	}
	prompt := body.Get("prompt").String()
	for _, part := range call.Parts {
		if part.Name == "prompt" {
			prompt = string(part.Data)
		}
	}
	made, err := p.MakeImages(ctx, provider.Credential{}, &provider.ImageRequest{
		Model: call.Model, Prompt: prompt, Count: int(call.Estimate.Images), Delivery: "b64_json",
	})
	if err != nil {
		return nil, err
	}
	data := make([]map[string]string, len(made.Images))
	for i, image := range made.Images {
		data[i] = map[string]string{"b64_json": image.Base64}
	}
	return inJSON(map[string]any{"created": 0, "data": data}, made.Usage)
}

// The tone: PCM of 8 bits, so many samples a second, and so many for each character of the text.
const (
	sampleRate = 8000
	perLetter  = 400
	maxSamples = 60 * sampleRate
	pitch      = 440 // Hz
)

// tone returns a WAVE file as long as the text would take to speak, at most a minute.
func tone(characters int64) []byte {
	n := min(uint32(min(characters, maxSamples))*perLetter, maxSamples)
	var file bytes.Buffer
	file.WriteString("RIFF")
	_ = binary.Write(&file, binary.LittleEndian, 36+n)
	file.WriteString("WAVEfmt ")
	for _, field := range []any{uint32(16), uint16(1), uint16(1), uint32(sampleRate), uint32(sampleRate), uint16(1), uint16(8)} {
		_ = binary.Write(&file, binary.LittleEndian, field)
	}
	file.WriteString("data")
	_ = binary.Write(&file, binary.LittleEndian, n)
	for i := range n {
		file.WriteByte(byte(128 + 40*math.Sin(2*math.Pi*pitch*float64(i)/sampleRate)))
	}
	return file.Bytes()
}

// script is an answer of events that are there already.
type script struct {
	events []provider.Event
	size   int
}

// Next implements provider.Stream.
func (s *script) Next() (provider.Event, error) {
	if len(s.events) == 0 {
		return provider.Event{}, io.EOF
	}
	event := s.events[0]
	s.events = s.events[1:]
	s.size += len(event.Native)
	return event, nil
}

// Buffered implements provider.Stream.
func (s *script) Buffered() bool { return true }

// Size implements provider.Stream.
func (s *script) Size() int { return s.size }

// Close implements provider.Stream.
func (s *script) Close() error { return nil }

// ContentType implements provider.RelayStream.
func (s *script) ContentType() string { return "text/event-stream" }

// Whole implements provider.RelayStream.
func (s *script) Whole() bool { return false }
