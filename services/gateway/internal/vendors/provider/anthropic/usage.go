package anthropic

import (
	"cmp"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// usage holds the vendor's counts, which are disjoint already: input_tokens excludes what was read from the cache or
// written to it. Each event of a stream carries some of the counts, and an absent count is not zero.
type usage struct {
	input, output, reasoning          count
	cacheRead, cacheWrite, cache1Hour count
	cache5Minutes                     count
}

type count struct {
	n     int64
	known bool
}

func (c *count) update(value gjson.Result) {
	if n, ok := wire.Tokens(value); ok {
		c.n, c.known = n, true
	}
}

// update replaces the counts by those of a later event: they are cumulative.
func (u *usage) update(report gjson.Result) {
	if !report.IsObject() {
		return
	}
	report.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "input_tokens":
			u.input.update(value)
		case "output_tokens":
			u.output.update(value)
		case "output_tokens_details":
			u.reasoning.update(value.Get("thinking_tokens"))
		case "cache_read_input_tokens":
			u.cacheRead.update(value)
		case "cache_creation_input_tokens":
			u.cacheWrite.update(value)
		case "cache_creation":
			u.cache1Hour.update(value.Get("ephemeral_1h_input_tokens"))
			u.cache5Minutes.update(value.Get("ephemeral_5m_input_tokens"))
		}
		return true
	})
}

// disjoint returns the usage, or nil if nothing was reported. Parts beyond their total are reduced: the total is what
// the vendor bills.
func (u *usage) disjoint() *provider.Usage {
	if !u.input.known && !u.output.known {
		return nil
	}
	written := cmp.Or(u.cacheWrite.n, u.cache5Minutes.n+u.cache1Hour.n)
	output := cmp.Or(u.output.n, u.reasoning.n) // A zero total is ignored if a part is not zero.
	long, reasoning := min(u.cache1Hour.n, written), min(u.reasoning.n, output)
	return &provider.Usage{
		Input: u.input.n, CacheRead: u.cacheRead.n, CacheWrite: written - long, CacheWriteLong: long,
		Output: output - reasoning, Reasoning: reasoning,
	}
}
