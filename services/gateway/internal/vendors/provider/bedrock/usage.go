package bedrock

import (
	"cmp"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// usageOf returns the vendor's counts, which are disjoint already, or nil if nothing was reported. Parts beyond their
// total are reduced: the total is what the vendor bills.
func usageOf(report gjson.Result) *provider.Usage {
	input, hasInput := wire.Tokens(report.Get("inputTokens"))
	output, hasOutput := wire.Tokens(report.Get("outputTokens"))
	if !hasInput && !hasOutput {
		return nil
	}
	read, _ := wire.Tokens(report.Get("cacheReadInputTokens"))
	written, _ := wire.Tokens(report.Get("cacheWriteInputTokens"))
	var long int64
	report.Get("cacheDetails").ForEach(func(_, detail gjson.Result) bool {
		if n, _ := wire.Tokens(detail.Get("inputTokens")); detail.Get("ttl").Str == string(provider.CacheLong) {
			long = min(long+n, wire.MaxTokens)
		}
		return true
	})
	written = cmp.Or(written, long) // A zero total is ignored if a part is not zero.
	long = min(long, written)
	return &provider.Usage{Input: input, CacheRead: read, CacheWrite: written - long, CacheWriteLong: long, Output: output}
}
