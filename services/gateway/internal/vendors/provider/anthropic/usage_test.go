package anthropic

import (
	"math"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A total of zero is ignored if its parts are not zero. Tokens that are counted separately stay.
func TestZeroTotals(t *testing.T) {
	for report, want := range map[string]provider.Usage{
		`{"input_tokens":0,"output_tokens":0}`:                                                                                              {},
		`{"input_tokens":0,"cache_read_input_tokens":9,"output_tokens":4}`:                                                                  {CacheRead: 9, Output: 4},
		`{"output_tokens":0,"output_tokens_details":{"thinking_tokens":4}}`:                                                                 {Reasoning: 4},
		`{"input_tokens":1,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3}}`: {Input: 1, CacheWrite: 2, CacheWriteLong: 3},
	} {
		var u usage
		u.update(gjson.Parse(report))
		if got := u.disjoint(); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", report, got, want)
		}
	}
}

// Absurd counts neither overflow nor become negative, and details beyond their total are reduced.
func TestAbsurdCounts(t *testing.T) {
	const most = "9223372036854775807"
	for _, report := range []string{
		`{"input_tokens":` + most + `,"output_tokens":` + most + `,"cache_read_input_tokens":` + most + `,"cache_creation_input_tokens":` + most + `}`,
		`{"input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":` + most + `,"ephemeral_5m_input_tokens":` + most + `}}`,
		`{"input_tokens":1e400,"output_tokens":-1e400,"output_tokens_details":{"thinking_tokens":1e400}}`,
		`{"input_tokens":-5,"output_tokens":-5,"cache_creation_input_tokens":-5,"cache_creation":{"ephemeral_1h_input_tokens":7}}`,
	} {
		var u usage
		u.update(gjson.Parse(report))
		got := u.disjoint()
		if got == nil {
			t.Errorf("%s: no usage", report)
			continue
		}
		for name, n := range map[string]int64{
			"input": got.Input, "cache read": got.CacheRead, "cache write": got.CacheWrite, "long cache write": got.CacheWriteLong,
			"output": got.Output, "reasoning": got.Reasoning, "prompt": got.Prompt(), "completion": got.Completion(),
		} {
			if n < 0 || n > math.MaxInt64/1024 {
				t.Errorf("%s: %s is %d", report, name, n)
			}
		}
	}
}
