package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Members of an answer have the specification's order, and texts no escapes that JSON doesn't need.
func TestAnswerJSON(t *testing.T) {
	report := ledger.Report{Provider: "p", Model: "m", Prompt: 1 << 40, Completion: 9, Cost: 25e7, RequestedGoal: "cost"}
	const usage = `{"prompt_tokens":2147483647,"completion_tokens":9,"provider_used":"p","cost_cents":0.025,"estimated":false,"requested_goal":"cost","substituted":false,"cache_hit":false,"model_used":"m"}`
	for _, c := range []struct {
		name       string
		completion inference.Completion
		want       string
	}{
		{
			"text",
			inference.Completion{Text: "<a&b>\n\xff", FinishReason: provider.FinishStop, Report: report},
			`{"content":"<a&b>\n\ufffd","tool_calls":null,"usage":` + usage + `,"finish_reason":"stop","model":"m","request_id":"r1"}`,
		},
		{
			"calls",
			inference.Completion{
				FinishReason: provider.FinishToolCalls, Report: report,
				ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: `{"k":1}`, Extra: []byte(`{"x":[1]}`)}},
			},
			`{"content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"k\":1}"},"extra_content":{"x":[1]}}],"usage":` +
				usage + `,"finish_reason":"tool_calls","model":"m","request_id":"r1"}`,
		},
	} {
		got, err := answerJSON(&c.completion, "r1")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func BenchmarkAnswerJSON(b *testing.B) {
	c := &inference.Completion{
		Text: strings.Repeat("carriage ", 100), FinishReason: "stop",
		Report: ledger.Report{Provider: "load", Model: "load", Prompt: 200, Completion: 100, Cost: 1e9},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := answerJSON(c, "r1"); err != nil {
			b.Fatal(err)
		}
	}
}
