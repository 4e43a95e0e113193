package inference

import (
	"errors"
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A side of a report that counts nothing although there was something is estimated, by the vocabulary where that is
// known: "hello world" has 2 tokens there, and 3 by its bytes. Zeros that can be true are believed.
func TestZerosInReports(t *testing.T) {
	type usage = provider.Usage
	said := provider.Event{Text: "hello world"}
	for name, c := range map[string]struct {
		upstream string
		event    provider.Event
		finish   provider.FinishReason
		reported usage
		want     usage
		state    ledger.State
	}{
		"zeros":                    {"llama-3", said, "", usage{}, usage{Input: 3, Output: 3}, ledger.StateEstimated},
		"zeros, known vocabulary":  {"gpt-4o", said, "", usage{}, usage{Input: 9, Output: 2}, ledger.StateEstimated},
		"no output":                {"llama-3", said, "", usage{Input: 40}, usage{Input: 40, Output: 3}, ledger.StateEstimated},
		"no output, vocabulary":    {"gpt-4o", said, "", usage{Input: 40}, usage{Input: 40, Output: 2}, ledger.StateEstimated},
		"no input":                 {"llama-3", said, "", usage{Output: 7}, usage{Input: 3, Output: 7}, ledger.StateEstimated},
		"no input, vocabulary":     {"gpt-4o", said, "", usage{Output: 7}, usage{Input: 9, Output: 7}, ledger.StateEstimated},
		"zeros for a call":         {"llama-3", provider.Event{ToolCalls: []provider.ToolCall{{ID: "c", Name: "find", Arguments: "{}"}}}, "", usage{}, usage{Input: 3, Output: 2}, ledger.StateEstimated},
		"zeros for thinking":       {"llama-3", provider.Event{Reasoning: "hello", Text: "world"}, "", usage{}, usage{Input: 3, Output: 3}, ledger.StateEstimated},
		"zeros for an image":       {"llama-3", provider.Event{Images: []string{"data:image/png;base64,"}}, "", usage{}, usage{Input: 3, ImageOutput: imageTokens}, ledger.StateEstimated},
		"no text":                  {"llama-3", provider.Event{}, "", usage{Input: 40}, usage{Input: 40}, ledger.StateReported},
		"all input from the cache": {"llama-3", said, "", usage{CacheRead: 40, Output: 7}, usage{CacheRead: 40, Output: 7}, ledger.StateReported},
		"all input to the cache":   {"llama-3", said, "", usage{CacheWriteLong: 40, Output: 7}, usage{CacheWriteLong: 40, Output: 7}, ledger.StateReported},
		"hidden output":            {"llama-3", said, "", usage{Input: 40, Reasoning: 7}, usage{Input: 40, Reasoning: 7}, ledger.StateReported},
		"a filter's words":         {"llama-3", said, provider.FinishContentFilter, usage{}, usage{}, ledger.StateReported},
		"a filter at the end":      {"llama-3", said, provider.FinishContentFilter, usage{Input: 40}, usage{Input: 40, Output: 3}, ledger.StateEstimated},
	} {
		if c.finish == "" {
			c.finish = provider.FinishStop
		}
		for _, stream := range []bool{false, true} {
			ending := provider.Event{FinishReason: c.finish, Usage: &c.reported}
			b := named(t, c.upstream, &script{
				answer: provider.Answer{
					Text: c.event.Text, Reasoning: c.event.Reasoning, ToolCalls: c.event.ToolCalls, Images: c.event.Images,
					FinishReason: c.finish, Usage: &c.reported,
				},
				steps: []step{{event: c.event}, {event: ending}},
			})
			r := saying("hello world")
			r.ShowsImages = true
			if _, err := serve(t, b, r, stream); err != nil {
				t.Fatal(err)
			}
			row := b.ledger.entries[0]
			if row.State != c.state || row.Usage != c.want || row.Reported != nil || (row.Cost == 0) != (c.want == usage{}) {
				t.Errorf("%s, stream %t: %s, %+v for %d, want %s, %+v", name, stream, row.State, row.Usage, row.Cost, c.state, c.want)
			}
		}
	}
}

// A later report of a stream replaces an earlier one, but not with zeros.
func TestLaterZerosReplaceNothing(t *testing.T) {
	reports := func(u provider.Usage) step { return step{event: provider.Event{Usage: &u}} }
	for name, c := range map[string]struct {
		reports []step
		want    provider.Usage
	}{
		"zeros at the end":  {[]step{reports(provider.Usage{Input: 40, Output: 3}), end(&provider.Usage{})}, provider.Usage{Input: 40, Output: 3}},
		"one side each":     {[]step{reports(provider.Usage{CacheRead: 40}), end(&provider.Usage{Output: 3})}, provider.Usage{CacheRead: 40, Output: 3}},
		"a smaller report":  {[]step{reports(provider.Usage{Input: 40, Output: 9}), end(&provider.Usage{Input: 30, Output: 3})}, provider.Usage{Input: 30, Output: 3}},
		"another of a side": {[]step{reports(provider.Usage{Input: 40, Output: 3}), end(&provider.Usage{CacheRead: 40, Output: 3})}, provider.Usage{CacheRead: 40, Output: 3}},
	} {
		b := named(t, "llama-3", &script{steps: append([]step{text("hello world")}, c.reports...)})
		if _, err := serve(t, b, saying("hello world"), true); err != nil {
			t.Fatal(err)
		}
		if row := b.ledger.entries[0]; row.State != ledger.StateReported || row.Usage != c.want {
			t.Errorf("%s: %s, %+v, want %+v", name, row.State, row.Usage, c.want)
		}
	}
}

// The input of a stream that was cut is estimated if the vendor had reported zero, and its output by what arrived.
func TestZerosBeforeACut(t *testing.T) {
	b := named(t, "llama-3", &script{steps: []step{
		{event: provider.Event{Text: "hello world", Usage: &provider.Usage{Output: 1}}}, {err: errors.New("reset")},
	}})
	if _, err := serve(t, b, saying("hello world"), true); err == nil {
		t.Fatal("it is served")
	}
	checkBilled(t, b, billedRow{"a", ledger.OutcomeInterrupted, ledger.StateEstimated, provider.Usage{Input: 3, Output: 3}})
}

// imagePrices prices a-1 by the image.
const imagePrices = `providers: [{provider: a, models: [{model: a-1, effective_from: 2020-01-01, per_image_usd: 1, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}]`

// Images of a model that is priced by the piece need no tokens. The policy can say how many an image has at another.
func TestZerosForImages(t *testing.T) {
	draw := func(prices string, tokens int) ledger.Entry {
		b := chain(t, "a", [2]string{"a-1", "a-1"}, &maker{name: "a", images: provider.Images{
			Images: []provider.Image{{URL: goodURL}}, Usage: &provider.Usage{Images: 1},
		}}, nil)
		b.Fleet().Prices = pricetest.Table(t, prices)
		b.Fleet().Planner = candidates{"a", []routing.Candidate{{Target: provider.Target{Provider: "a", Model: "a-1"}, ImageTokens: tokens}}}
		if _, err := b.MakeImages(t.Context(), drawRequest("")); err != nil {
			t.Fatal(err)
		}
		return b.ledger.entries[0]
	}
	if row := draw(imagePrices, 0); row.State != ledger.StateReported || row.Usage != (provider.Usage{Images: 1}) || row.Cost == 0 {
		t.Errorf("priced by the piece: %s, %+v for %d", row.State, row.Usage, row.Cost)
	}
	if row := draw(testPrices, 300); row.State != ledger.StateEstimated || row.Usage != (provider.Usage{Input: 2, ImageOutput: 300, Images: 1}) || row.Cost == 0 {
		t.Errorf("priced by tokens: %s, %+v for %d", row.State, row.Usage, row.Cost)
	}
}
