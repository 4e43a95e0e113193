package gemini

import (
	"cmp"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// usageOf splits the vendor's totals into buckets, or returns nil without a total. promptTokenCount includes the cached
// tokens, but not those of the results of the vendor's own tools. candidatesTokenCount excludes the thoughts, except on
// servers whose total shows that it includes them. Parts beyond their total are reduced: the total is what the vendor
// bills.
func usageOf(metadata gjson.Result) *provider.Usage {
	r := readReport(metadata)
	if !r.prompt.known && !r.candidates.known {
		return nil
	}
	prompt, candidates, thoughts := cmp.Or(r.prompt.n, r.cached.n), r.candidates.n, r.thoughts.n
	if r.total.known && r.total.n == prompt+r.tools.n+candidates {
		thoughts = min(thoughts, candidates)
		candidates -= thoughts
	}
	u := &provider.Usage{CacheRead: min(r.cached.n, prompt), Reasoning: thoughts}
	fresh := prompt - u.CacheRead
	u.ImageInput = min(max(0, modality(r.in, "IMAGE")-modality(r.cachedIn, "IMAGE")), fresh)
	u.AudioInput = min(max(0, modality(r.in, "AUDIO")-modality(r.cachedIn, "AUDIO")), fresh-u.ImageInput)
	u.Input = fresh - u.ImageInput - u.AudioInput + r.tools.n
	u.ImageOutput = min(modality(r.out, "IMAGE"), candidates)
	u.AudioOutput = min(modality(r.out, "AUDIO"), candidates-u.ImageOutput)
	u.Output = candidates - u.ImageOutput - u.AudioOutput
	return u
}

// report is usageMetadata, parsed in one pass: every chunk has one.
type report struct {
	prompt, cached, tools, candidates, thoughts, total count
	in, cachedIn, out                                  gjson.Result
}

type count struct {
	n     int64
	known bool
}

func readReport(metadata gjson.Result) (r report) {
	if !metadata.IsObject() {
		return r
	}
	metadata.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "promptTokenCount":
			r.prompt = counted(value)
		case "cachedContentTokenCount":
			r.cached = counted(value)
		case "toolUsePromptTokenCount":
			r.tools = counted(value)
		case "candidatesTokenCount":
			r.candidates = counted(value)
		case "thoughtsTokenCount":
			r.thoughts = counted(value)
		case "totalTokenCount":
			r.total = counted(value)
		case "promptTokensDetails":
			r.in = value
		case "cacheTokensDetails":
			r.cachedIn = value
		case "candidatesTokensDetails":
			r.out = value
		}
		return true
	})
	return r
}

func counted(value gjson.Result) count {
	n, ok := wire.Tokens(value)
	return count{n, ok}
}

// modality returns the sum of the tokens of one kind.
func modality(details gjson.Result, kind string) int64 {
	var sum int64
	details.ForEach(func(_, detail gjson.Result) bool {
		if detail.Get("modality").Str == kind {
			sum = min(sum+counted(detail.Get("tokenCount")).n, wire.MaxTokens)
		}
		return true
	})
	return sum
}
