package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A hand-written answer equals what encoding/json writes of its fields.
func TestAnswerJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<a&b>", "\"\\\n", "\xff"})).Draw(t, name)
		}
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		c := &inference.Completion{
			Text: text("content"), FinishReason: provider.FinishReason(text("finish")),
			Report: ledger.Report{
				Provider: text("provider"), Model: text("model"), Prompt: rapid.Int64Range(0, 1<<40).Draw(t, "prompt"), Completion: rapid.Int64Range(0, 9).Draw(t, "completion"),
				Cost: price.Pico(rapid.Int64Range(0, 1<<60).Draw(t, "cost")), Estimated: flag("estimated"), RequestedProvider: text("requested provider"),
				RequestedGoal: text("goal"), Substituted: flag("substituted"), CacheHit: flag("cache hit"),
			},
		}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			c.ToolCalls = append(c.ToolCalls, provider.ToolCall{ID: text("id"), Name: text("name"), Arguments: text("arguments"), Extra: json.RawMessage(`{"k":[1]}`)})
		}
		got, err := answerJSON(c, "r1")
		if err != nil {
			t.Fatal(err)
		}
		marshalled, err := json.Marshal(answerOf(c))
		if err != nil {
			t.Fatal(err)
		}
		var read, expected any
		if err := json.Unmarshal(got, &read); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if err := json.Unmarshal(marshalled, &expected); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, read); diff != "" {
			t.Fatal(diff)
		}
	})
}

// BenchmarkAnswerJSON writes an answer by hand and by encoding/json.
func BenchmarkAnswerJSON(b *testing.B) {
	c := &inference.Completion{
		Text: strings.Repeat("carriage ", 100), FinishReason: "stop",
		Report: ledger.Report{Provider: "load", Model: "load", Prompt: 200, Completion: 100, Cost: 1e9},
	}
	b.Run("written", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := answerJSON(c, "r1"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(answerOf(c)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
