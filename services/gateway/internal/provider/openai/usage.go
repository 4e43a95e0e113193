package openai

import (
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/provider"
)

// usageOf splits a vendor's usage into disjoint buckets; nil where there is none.
// The dialect counts inclusively: prompt_tokens holds the cached, audio and image
// ones, completion_tokens the reasoning and audio. Details beyond their total
// would make a bucket negative; the total is what the vendor bills, so they are cut.
func usageOf(u gjson.Result) *provider.Usage {
	prompt, completion := u.Get("prompt_tokens"), u.Get("completion_tokens")
	if prompt.Type != gjson.Number && completion.Type != gjson.Number {
		return nil
	}
	in := split{left: count(prompt)}
	out := split{left: count(completion)}
	reasoning := count(u.Get("completion_tokens_details.reasoning_tokens"))
	if hidden := count(u.Get("total_tokens")) - in.left - out.left; hidden > 0 && (reasoning == hidden || reasoning == 0) {
		// xAI and Google count reasoning in the total alone.
		out.left, reasoning = out.left+hidden, hidden
	}
	cached := u.Get("prompt_tokens_details.cached_tokens")
	for _, name := range []string{"prompt_cache_hit_tokens", "cached_tokens"} { // DeepSeek, Moonshot
		if !cached.Exists() {
			cached = u.Get(name)
		}
	}
	usage := &provider.Usage{
		CacheRead:   in.take(count(cached)),
		CacheWrite:  in.take(count(u.Get("prompt_tokens_details.cache_write_tokens"))),
		AudioInput:  in.take(count(u.Get("prompt_tokens_details.audio_tokens"))),
		ImageInput:  in.take(count(u.Get("prompt_tokens_details.image_tokens"))),
		Reasoning:   out.take(reasoning),
		AudioOutput: out.take(count(u.Get("completion_tokens_details.audio_tokens"))),
		ImageOutput: out.take(count(u.Get("completion_tokens_details.image_tokens"))),
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

// maxCount is beyond any count of tokens, and far from where sums overflow.
const maxCount = 1 << 40

// count is a number of tokens; what is none is 0.
func count(n gjson.Result) int64 {
	if n.Type != gjson.Number || !(n.Num > 0) {
		return 0
	}
	return int64(min(n.Num, maxCount))
}
