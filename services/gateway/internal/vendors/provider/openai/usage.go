package openai

import (
	"cmp"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// bill is a usage as the dialect reports it. Its counts are inclusive: prompt includes the cached, audio and image
// tokens, completion the reasoning, audio and image ones.
type bill struct {
	prompt, completion, total figure
	// Parts of the prompt; vendors have three names for cached tokens.
	cached, cacheHit, cachedApart       figure
	cacheWrite, audioInput, imageInput  figure
	reasoning, audioOutput, imageOutput figure
}

// figure is a number of tokens as a vendor reported it.
type figure struct {
	tokens int64
	// reported even if it is not a number; then it counts as 0.
	reported, number bool
}

// record sets the figure; of several reports the first counts.
func (f *figure) record(value gjson.Result) {
	if !f.reported {
		*f = figure{tokens: count(value), reported: true, number: value.Type == gjson.Number}
	}
}

func (b *bill) member(name string, value gjson.Result) {
	switch name {
	case "prompt_tokens":
		b.prompt.record(value)
	case "completion_tokens":
		b.completion.record(value)
	case "total_tokens":
		b.total.record(value)
	case "prompt_cache_hit_tokens": // DeepSeek
		b.cacheHit.record(value)
	case "cached_tokens": // Moonshot
		b.cachedApart.record(value)
	case "prompt_tokens_details":
		members(value, b.input)
	case "completion_tokens_details":
		members(value, b.output)
	}
}

func (b *bill) input(name string, value gjson.Result) {
	switch name {
	case "cached_tokens":
		b.cached.record(value)
	case "cache_write_tokens":
		b.cacheWrite.record(value)
	case "audio_tokens":
		b.audioInput.record(value)
	case "image_tokens":
		b.imageInput.record(value)
	}
}

func (b *bill) output(name string, value gjson.Result) {
	switch name {
	case "reasoning_tokens":
		b.reasoning.record(value)
	case "audio_tokens":
		b.audioOutput.record(value)
	case "image_tokens":
		b.imageOutput.record(value)
	}
}

// usageOf splits a vendor's usage into disjoint buckets, or returns nil if there is none.
func usageOf(value gjson.Result) *provider.Usage {
	var b bill
	members(value, b.member)
	if !b.prompt.number && !b.completion.number {
		return nil
	}
	return b.split()
}

// split makes the buckets disjoint. Details beyond their total would make a bucket negative; the total is what the
// vendor bills, so the details are reduced. A zero total is ignored if its details are not zero.
func (b *bill) split() *provider.Usage {
	b.infer()
	in, out := split{left: b.prompt.tokens}, split{left: b.completion.tokens}
	reasoning := b.reasoning.tokens
	hidden := b.total.tokens - in.left - out.left
	if in.left > 0 && hidden > 0 && (reasoning == hidden || reasoning == 0) {
		// xAI and Google include reasoning only in the total.
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

// infer sets a total that the vendor left out, or reported as zero, from its details or from the total of both sides.
func (b *bill) infer() {
	if b.prompt.tokens == 0 {
		b.prompt.tokens = cmp.Or(b.cached, b.cacheHit, b.cachedApart).tokens + b.cacheWrite.tokens + b.audioInput.tokens + b.imageInput.tokens
	}
	if b.completion.tokens == 0 {
		b.completion.tokens = b.reasoning.tokens + b.audioOutput.tokens + b.imageOutput.tokens
	}
	switch {
	case b.prompt.tokens == 0 && b.completion.tokens > 0:
		b.prompt.tokens = max(b.total.tokens-b.completion.tokens, 0)
	case b.completion.tokens == 0 && b.prompt.tokens > 0 && !b.completion.number:
		b.completion.tokens = max(b.total.tokens-b.prompt.tokens, 0)
	}
}

// split divides a total into parts.
type split struct{ left int64 }

func (s *split) take(n int64) int64 {
	n = min(n, s.left)
	s.left -= n
	return n
}

// count returns a number of tokens, or 0 if the value is not a number.
func count(value gjson.Result) int64 {
	n, _ := wire.Tokens(value)
	return n
}
