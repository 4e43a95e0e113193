package openai

import (
	"cmp"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// bill is a usage in the dialect's words. It counts inclusively: prompt holds the
// cached, audio and image tokens, completion the reasoning, audio and image ones.
type bill struct {
	prompt, completion, total figure
	// What the prompt holds; vendors have three names for what was cached.
	cached, cacheHit, cachedApart       figure
	cacheWrite, audioInput, imageInput  figure
	reasoning, audioOutput, imageOutput figure
}

// figure is a number of tokens as a vendor tells it.
type figure struct {
	tokens int64
	// told even where it is no number; that counts as 0.
	told, number bool
}

// tell sets the figure; what is told twice counts as told first.
func (f *figure) tell(value gjson.Result) {
	if !f.told {
		*f = figure{tokens: count(value), told: true, number: value.Type == gjson.Number}
	}
}

func (b *bill) member(name string, value gjson.Result) {
	switch name {
	case "prompt_tokens":
		b.prompt.tell(value)
	case "completion_tokens":
		b.completion.tell(value)
	case "total_tokens":
		b.total.tell(value)
	case "prompt_cache_hit_tokens": // DeepSeek
		b.cacheHit.tell(value)
	case "cached_tokens": // Moonshot
		b.cachedApart.tell(value)
	case "prompt_tokens_details":
		members(value, b.input)
	case "completion_tokens_details":
		members(value, b.output)
	}
}

func (b *bill) input(name string, value gjson.Result) {
	switch name {
	case "cached_tokens":
		b.cached.tell(value)
	case "cache_write_tokens":
		b.cacheWrite.tell(value)
	case "audio_tokens":
		b.audioInput.tell(value)
	case "image_tokens":
		b.imageInput.tell(value)
	}
}

func (b *bill) output(name string, value gjson.Result) {
	switch name {
	case "reasoning_tokens":
		b.reasoning.tell(value)
	case "audio_tokens":
		b.audioOutput.tell(value)
	case "image_tokens":
		b.imageOutput.tell(value)
	}
}

// usageOf splits a vendor's usage into disjoint buckets; nil where there is none.
func usageOf(value gjson.Result) *provider.Usage {
	var b bill
	members(value, b.member)
	if !b.prompt.number && !b.completion.number {
		return nil
	}
	return b.split()
}

// split makes the buckets disjoint. Details beyond their total would make one
// negative; the total is what the vendor bills, so they are cut.
func (b *bill) split() *provider.Usage {
	in, out := split{left: b.prompt.tokens}, split{left: b.completion.tokens}
	reasoning := b.reasoning.tokens
	if hidden := b.total.tokens - in.left - out.left; hidden > 0 && (reasoning == hidden || reasoning == 0) {
		// xAI and Google count reasoning in the total alone.
		out.left, reasoning = out.left+hidden, hidden
	}
	usage := &provider.Usage{
		CacheRead:   in.take(cmp.Or(b.cached, b.cacheHit, b.cachedApart).tokens),
		CacheWrite:  in.take(b.cacheWrite.tokens),
		AudioInput:  in.take(b.audioInput.tokens),
		ImageInput:  in.take(b.imageInput.tokens),
		Reasoning:   out.take(reasoning),
		AudioOutput: out.take(b.audioOutput.tokens),
		ImageOutput: out.take(b.imageOutput.tokens),
	}
	usage.Input, usage.Output = in.left, out.left
	return usage
}

// split hands out parts of a total.
type split struct{ left int64 }

func (s *split) take(n int64) int64 {
	n = min(n, s.left)
	s.left -= n
	return n
}

// count is a number of tokens; what is none is 0.
func count(value gjson.Result) int64 {
	n, _ := wire.Tokens(value)
	return n
}
