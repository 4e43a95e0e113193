package inference

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Models without a price are not used under a ceiling, unless the policy allows it.
func TestUnpriced(t *testing.T) {
	for _, allow := range []bool{false, true} {
		b := setup(t, nil, &script{name: "nobody", answer: good})
		b.Fleet().ServesUnpriced = allow
		b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		if _, err := b.Chat(t.Context(), request()); errors.Is(err, budget.ErrUnpriced) == allow {
			t.Errorf("allowed %v: %v", allow, err)
		}
	}
}

// An answer of a model whose limit is unknown is cut once it exceeds the reservation.
func TestAnOutgrownStreamIsCut(t *testing.T) {
	flood := step{event: provider.Event{Text: strings.Repeat("x", assumedOutput)}}
	b := setup(t, nil, &script{name: "a", steps: []step{flood, flood, flood, flood, flood, flood, end(used)}})
	d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
	b.Admission = d
	s, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(s)
	if !errors.Is(err, budget.ErrOutgrown) {
		t.Errorf("ended with %v, want %v", err, budget.ErrOutgrown)
	}
	if len(got) != 4*assumedOutput {
		t.Errorf("%d bytes, want %d", len(got), 4*assumedOutput)
	}
	if outcomes := b.ledger.outcomes(); outcomes != string(ledger.OutcomeAborted) {
		t.Errorf("billed as %q, want %q", outcomes, ledger.OutcomeAborted)
	}
}

// No usage that a vendor reports within the bounds of the request costs more than the reservation.
func TestReservationCoversEveryReport(t *testing.T) {
	b := setup(t, nil, &script{name: "a"}, &script{name: "b"})
	rapid.Check(t, func(t *rapid.T) {
		r := request()
		r.Chat.Messages[0].Content[0].Text = strings.Repeat("x", rapid.IntRange(0, 5000).Draw(t, "bytes"))
		r.Chat.MaxTokens = rapid.IntRange(1, 5000).Draw(t, "max_tokens")
		n := rapid.Int64Range(1, 4).Draw(t, "n")
		r.Bounds.Choices = n
		x := b.newExecution(context.Background(), r)
		var err error
		if x.selection, err = b.plan(context.Background(), &x.admitted); err != nil {
			t.Fatal(err)
		}
		worst, err := x.worst(&x.admitted, true)
		if err != nil {
			t.Fatal(err)
		}
		input := rapid.Int64Range(0, int64(len(r.Chat.Messages[0].Text()))).Draw(t, "input")
		cached := rapid.Int64Range(0, input).Draw(t, "cached")
		output := rapid.Int64Range(0, int64(r.Chat.MaxTokens)*n).Draw(t, "output")
		thought := rapid.Int64Range(0, output).Draw(t, "thought")
		usage := provider.Usage{Input: input - cached, CacheWriteLong: cached, Output: output - thought, Reasoning: thought}
		for _, name := range []string{"a", "b"} {
			if cost := b.Fleet().Prices.Cost(name, name+"-1", time.Now(), usage); cost.Amount > worst {
				t.Fatalf("%+v costs %d at %s, more than %d", usage, cost.Amount, name, worst)
			}
		}
	})
}
