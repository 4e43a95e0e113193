package inference

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Sources of a completion's usage. Absent is not zero, and zero is absent if there was something to count.
func TestUsageState(t *testing.T) {
	prompt := provider.Estimate(8, 0).Input // of what request() sends
	cases := map[string]struct {
		steps   []step
		outcome ledger.Outcome
		state   ledger.State
		want    provider.Usage
	}{
		"reported": {
			[]step{text("abcdefgh"), end(&provider.Usage{Input: 7, CacheRead: 2, Output: 3, Reasoning: 1})},
			ledger.OutcomeCompleted, ledger.StateReported,
			provider.Usage{Input: 7, CacheRead: 2, Output: 3, Reasoning: 1},
		},
		"an explicit zero": {
			[]step{text("abcdefgh"), end(&provider.Usage{})}, ledger.OutcomeCompleted, ledger.StateEstimated, provider.Usage{Input: prompt, Output: 2},
		},
		"nothing": {
			[]step{text("abcdefgh"), end(nil)}, ledger.OutcomeCompleted, ledger.StateEstimated, provider.Usage{Input: prompt, Output: 2},
		},
		"a report that is negative": {
			[]step{text("a"), end(&provider.Usage{Input: -5, Output: 3})}, ledger.OutcomeCompleted, ledger.StateEstimated, provider.Usage{Input: prompt, Output: 3},
		},
		"the input alone, then cut off": {
			[]step{{event: provider.Event{Text: "abcdefgh", Usage: &provider.Usage{Input: 9}}}, {err: errors.New("reset")}},
			ledger.OutcomeInterrupted, ledger.StatePartial,
			provider.Usage{Input: 9, Output: 2},
		},
		"nothing, then cut off": {
			[]step{text("abcd"), {err: errors.New("reset")}}, ledger.OutcomeInterrupted, ledger.StateEstimated, provider.Usage{Input: prompt, Output: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a", steps: c.steps})
			s, err := b.StreamChat(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = read(s)
			row := b.ledger.entries[0]
			checkBilled(t, b, billedRow{"a", c.outcome, c.state, c.want})
			if estimated := c.state != ledger.StateReported; s.Report().Estimated != estimated || row.Estimated() != estimated {
				t.Errorf("estimated %v and %v, want %v", s.Report().Estimated, row.Estimated(), estimated)
			}
		})
	}
}

// A caller who closes a stream pays for what arrived, once, also when the stream is closed twice.
func TestCancelledStreamIsBilledOnce(t *testing.T) {
	b := setup(t, nil, &script{name: "a", steps: []step{text("abcd"), text("efgh"), end(nil)}})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := b.StreamChat(ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	cancel()
	s.Close()
	s.Close()
	row := b.ledger.entries[0]
	if n := len(b.ledger.entries); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
	if row.Outcome != ledger.OutcomeCancelled || row.State != ledger.StateEstimated {
		t.Errorf("billed %s and %s, want %s and %s", row.Outcome, row.State, ledger.OutcomeCancelled, ledger.StateEstimated)
	}
	if row.Usage.Output != 1 || row.Cost == 0 {
		t.Errorf("%d tokens of output for %d, want 1 for more than nothing", row.Usage.Output, row.Cost)
	}
}

// A whole answer and a stream of the same usage cost the same.
func TestStreamCostsWhatTheAnswerCosts(t *testing.T) {
	usage := provider.Usage{Input: 11, CacheRead: 5, CacheWrite: 3, CacheWriteLong: 2, ImageInput: 7, AudioInput: 1, Output: 13, Reasoning: 4, ImageOutput: 6, AudioOutput: 9}
	b := setup(t, nil, &script{
		name: "a", answer: provider.Answer{Text: "x", FinishReason: provider.FinishStop, Usage: &usage}, steps: []step{text("x"), end(&usage)},
	})
	c, err := b.Chat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Report, s.Report()); diff != "" {
		t.Errorf("report (-whole +streamed):\n%s", diff)
	}
	if c.Report.Prompt != usage.Prompt() || c.Report.Completion != usage.Completion() {
		t.Errorf("%d tokens of prompt, %d of completion; want %d and %d", c.Report.Prompt, c.Report.Completion, usage.Prompt(), usage.Completion())
	}
	if c.Report.Cost == 0 {
		t.Error("it costs nothing")
	}
}

// Where a vendor reports no usage, an image counts too, and so does thinking that was shown.
func TestEstimateCountsImagesAndReasoning(t *testing.T) {
	steps := []step{{event: provider.Event{Reasoning: "12345678"}}, text("abcd"), end(nil)}
	b := setup(t, nil, &script{name: "a", steps: steps, answer: provider.Answer{Text: "abcd", Reasoning: "12345678", FinishReason: provider.FinishStop}})
	r := request()
	const pixel = "data:image/png;base64,iVBORw0KGgo="
	r.Chat.Messages[0].Content = append(r.Chat.Messages[0].Content, provider.Part{ImageURL: pixel}, provider.Part{ImageURL: pixel})
	want := provider.Usage{Input: 2, ImageInput: 2 * imageTokens, Output: 3}
	if _, err := b.Chat(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s, err := b.StreamChat(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(s); err != nil {
		t.Fatal(err)
	}
	for i, row := range b.ledger.entries {
		if row.Usage != want || row.State != ledger.StateEstimated || row.Cost == 0 {
			t.Errorf("row %d: %+v, want %+v", i, row, want)
		}
	}
}

// Usage that leaves out other parts of the vendor's bill is marked as estimated.
func TestSurchargedIsEstimated(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: good})
	for _, surcharged := range []bool{false, true} {
		r := request()
		r.Bounds.Surcharged = surcharged
		got, err := b.Chat(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		row := b.ledger.entries[len(b.ledger.entries)-1]
		if got.Report.Estimated != surcharged || row.Estimated() != surcharged || row.Cost == 0 {
			t.Errorf("surcharged %v: estimated %v, row %+v", surcharged, got.Report.Estimated, row)
		}
	}
}
