package inference

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// The model's limit applies to each input by itself, so that the reservation grows with their number.
func TestMostOfAnEmbedding(t *testing.T) {
	long := strings.Repeat("a", 500)
	for _, c := range []struct {
		name   string
		asked  provider.Embedding
		limits policy.Limits
		want   int64
	}{
		{"a text", provider.Embedding{Input: []string{"hello"}}, policy.Limits{}, 5 + messageInput},
		{"texts within the limit", provider.Embedding{Input: []string{"a", "bc"}}, policy.Limits{Input: 100}, 3 + 2*messageInput},
		{"texts beyond it", provider.Embedding{Input: []string{long, long, "a"}}, policy.Limits{Input: 100}, 200 + 1 + messageInput},
		{"the context is the limit", provider.Embedding{Input: []string{long, long}}, policy.Limits{Context: 100}, 200},
		{"tokens", provider.Embedding{Tokens: [][]int32{{1, 2}, {3}}}, policy.Limits{Input: 100}, 3 + 2*messageInput},
		{"tokens without a limit", provider.Embedding{Tokens: [][]int32{make([]int32, 9000)}}, policy.Limits{}, 9000 + messageInput},
	} {
		r := &Request{Embedding: c.asked}
		got := mostUsage(r, &candidate{Candidate: routing.Candidate{Limits: c.limits}}, true)
		if (got.Usage != provider.Usage{Input: c.want}) || got.assumed {
			t.Errorf("%s: %+v, want an input of %d", c.name, got, c.want)
		}
	}
}
