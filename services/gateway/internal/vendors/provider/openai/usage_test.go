package openai_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestUsage(t *testing.T) {
	for usage, want := range map[string]*provider.Usage{
		`{}`: nil, `[]`: nil, `null`: nil, `"x"`: nil, `{"total_tokens":5}`: nil, `{"prompt_tokens":null,"completion_tokens":"5"}`: nil,
		`{"prompt_tokens":5}`:     {Input: 5},
		`{"completion_tokens":5}`: {Output: 5},

		// Each detail alone.
		`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":2}}`:             {Input: 7, CacheRead: 2},
		`{"prompt_tokens":9,"prompt_tokens_details":{"cache_write_tokens":2}}`:        {Input: 7, CacheWrite: 2},
		`{"prompt_tokens":9,"prompt_tokens_details":{"audio_tokens":2}}`:              {Input: 7, AudioInput: 2},
		`{"prompt_tokens":9,"prompt_tokens_details":{"image_tokens":2}}`:              {Input: 7, ImageInput: 2},
		`{"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":2}}`:  {Output: 7, Reasoning: 2},
		`{"completion_tokens":9,"completion_tokens_details":{"audio_tokens":2}}`:      {Output: 7, AudioOutput: 2},
		`{"completion_tokens":9,"completion_tokens_details":{"image_tokens":2}}`:      {Output: 7, ImageOutput: 2},
		`{"prompt_tokens_details":{"cached_tokens":2},"prompt_tokens":9}`:             {Input: 7, CacheRead: 2},
		`{"prompt_tokens":9,"prompt_tokens_details":null}`:                            {Input: 9},
		`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":9}`:                  {Input: 1, Output: 2, Reasoning: 6},
		`{"prompt_tokens":9,"completion_tokens_details":{"cached_tokens":2}}`:         {Input: 9},
		`{"prompt_tokens":9,"prompt_tokens_details":{"prompt_cache_hit_tokens":2}}`:   {Input: 9},
		`{"prompt_tokens":9,"prompt_tokens_details":{"completion_tokens_details":2}}`: {Input: 9},

		// The names of cached tokens, in their order.
		`{"prompt_tokens":9,"cached_tokens":1,"prompt_cache_hit_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}`:    {Input: 6, CacheRead: 3},
		`{"prompt_tokens":9,"cached_tokens":1,"prompt_cache_hit_tokens":2}`:                                                {Input: 7, CacheRead: 2},
		`{"prompt_tokens":9,"cached_tokens":1}`:                                                                            {Input: 8, CacheRead: 1},
		`{"prompt_tokens":9,"cached_tokens":1,"prompt_cache_hit_tokens":0}`:                                                {Input: 9},
		`{"prompt_tokens":9,"cached_tokens":1,"prompt_cache_hit_tokens":2,"prompt_tokens_details":{"cached_tokens":null}}`: {Input: 9},

		// Totals that are missing, or zero beside what they contain.
		`{"prompt_tokens":0,"completion_tokens":0}`:                                                    {},
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":9}`:                                   {},
		`{"prompt_tokens":0,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":7}}`:        {CacheRead: 7, Output: 5},
		`{"prompt_tokens":0,"completion_tokens":5,"prompt_cache_hit_tokens":7}`:                        {CacheRead: 7, Output: 5},
		`{"prompt_tokens":3,"completion_tokens":0,"completion_tokens_details":{"reasoning_tokens":7}}`: {Input: 3, Reasoning: 7},
		`{"completion_tokens":5,"total_tokens":9}`:                                                     {Input: 4, Output: 5},
		`{"prompt_tokens":4,"total_tokens":9}`:                                                         {Input: 4, Output: 5},
		`{"prompt_tokens":4,"completion_tokens":0,"total_tokens":9}`:                                   {Input: 4, Reasoning: 5},
		`{"prompt_tokens":4,"completion_tokens":null,"total_tokens":3}`:                                {Input: 4},

		// Duplicate members, which no vendor should send.
		`{"prompt_tokens":1,"prompt_tokens":2}`: {Input: 1},
	} {
		answer, err := answered(t, `{"choices":[{}],"usage":`+usage+`}`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, answer.Usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", usage, diff)
		}
	}
}

// Of several usages in an answer, the first with a count applies.
func TestSeveralUsages(t *testing.T) {
	const one, other, zero = `{"prompt_tokens":1}`, `{"prompt_tokens":2}`, `{"prompt_tokens":0}`
	for members, want := range map[string]int64{
		`"choices":[{}],"usage":` + one + `,"x_groq":{"usage":` + other + `}`:  1,
		`"choices":[{}],"usage":null,"x_groq":{"usage":` + other + `}`:         2,
		`"choices":[{"usage":` + one + `}],"usage":` + other:                   1,
		`"usage":{},"choices":[{"usage":` + one + `},{"usage":` + other + `}]`: 1,
		`"x_groq":{"usage":` + one + `},"choices":[{}],"usage":` + other + ` `: 1,
		`"choices":[{}],"usage":` + zero + `,"x_groq":{"usage":` + one + `}`:   1,
		`"choices":[{}],"usage":` + one + `,"x_groq":{"usage":` + zero + `}`:   1,
	} {
		answer, err := answered(t, `{`+members+`}`)
		if err != nil || answer.Usage == nil || answer.Usage.Input != want {
			t.Errorf("%s: %+v, %v, want %d", members, answer, err, want)
		}
	}
}
