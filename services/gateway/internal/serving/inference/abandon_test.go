package inference

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// An attempt that is abandoned after its vendor began to work has an estimated ledger row, which takes the place of its
// reservation, whatever ended the attempt.
func TestAbandonedAttemptsAreBilled(t *testing.T) {
	silent := []step{{wait: time.Hour}}
	thinking := []step{{event: provider.Event{Reasoning: "12345678"}}, {wait: time.Hour}}
	for name, c := range map[string]struct {
		steps   []step
		stream  bool
		outside bool // ended by a revocation
		clock   bool // the caller stays
		outcome string
		output  int64
	}{
		"a whole answer":          {steps: silent, outcome: "cancelled"},
		"a stream":                {steps: silent, stream: true, outcome: "cancelled"},
		"thinking":                {steps: thinking, stream: true, outcome: "cancelled", output: 2},
		"whole, from outside":     {steps: silent, outside: true, outcome: "aborted"},
		"thinking, from outside":  {steps: thinking, stream: true, outside: true, outcome: "aborted", output: 2},
		"whole, out of time":      {steps: silent, clock: true, outcome: "interrupted"},
		"a stream, out of time":   {steps: silent, stream: true, clock: true, outcome: "interrupted"},
		"thinking, and then idle": {steps: thinking, stream: true, clock: true, outcome: "interrupted", output: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, nil, &script{name: "a", steps: c.steps})
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case c.outside:
					time.AfterFunc(500*time.Millisecond, func() { d.end(run.ErrRevoked) })
				case !c.clock:
					time.AfterFunc(500*time.Millisecond, cancel)
				}
				r := request()
				r.Chat.MaxTokens = 100
				if _, err := serveRequest(ctx, b, r, c.stream); err == nil {
					t.Fatal("it is served")
				}
				if got := b.ledger.outcomes(); got != c.outcome {
					t.Fatalf("billed as %q, want %q", got, c.outcome)
				}
				row := b.ledger.entries[0]
				checkBilled(t, b, billedRow{"a", ledger.Outcome(c.outcome), ledger.StateEstimated, provider.Usage{Input: 2, Output: c.output}})
				if row.Cost == 0 {
					t.Error("it costs nothing")
				}
				if reserved, ok := d.reserved[row.ID]; !ok || row.Cost > reserved {
					t.Errorf("billed %d, reserved %d (%t)", row.Cost, reserved, ok)
				}
				if len(d.ended) != 1 || !d.ended[0] || d.inside != 0 {
					t.Errorf("ended with recorded %v, %d inside", d.ended, d.inside)
				}
			})
		})
	}
}

func serveRequest(ctx context.Context, b *bench, r *Request, stream bool) (string, error) {
	if !stream {
		answer, err := b.Chat(ctx, r)
		if err != nil {
			return "", err
		}
		return answer.Text, nil
	}
	s, err := b.StreamChat(ctx, r)
	if err != nil {
		return "", err
	}
	return read(s)
}

// A request that the vendor refused, failed, or was never sent is not billed.
func TestFailedAttemptsAreNotBilled(t *testing.T) {
	for name, a := range map[string]*script{
		"refused":          {name: "a", steps: failing(apierr.ClassServerError, 500)},
		"a broken line":    {name: "a", steps: []step{{err: &provider.Error{Class: apierr.ClassTransient, Text: "reset"}}}},
		"broken, thinking": {name: "a", steps: []step{{event: provider.Event{Reasoning: "12345678"}}, {err: &provider.Error{Class: apierr.ClassTransient, Text: "reset"}}}},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, nil, a, &script{name: "b", answer: good, steps: []step{text("x"), end(nil)}})
				if _, err := serveRequest(t.Context(), b, request(), stream); err != nil {
					t.Fatal(err)
				}
				if got := b.ledger.outcomes(); got != "completed" || b.ledger.entries[0].Provider != "b" {
					t.Errorf("%s, stream %t: billed as %q", name, stream, got)
				}
			})
		}
	}
	// The caller closes the connection before the request is sent.
	b := setup(t, nil, &script{name: "a", answer: good})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Chat(ctx, request()); err == nil || len(b.ledger.entries) != 0 {
		t.Errorf("%v, %d rows", err, len(b.ledger.entries))
	}
}

// A request that moves on to another vendor after a clock ran out has a row for each, with different ids, and each is
// reserved before its call.
func TestAnAttemptAfterAnAbandonedOneIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{{wait: time.Hour}}}, &script{name: "b", answer: good})
		d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		b.Admission = d
		answer, err := b.Chat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if got := b.ledger.outcomes(); got != "interrupted completed" {
			t.Fatalf("billed as %q", got)
		}
		first, second := b.ledger.entries[0], b.ledger.entries[1]
		if first.ID == second.ID || first.RequestID != second.RequestID {
			t.Errorf("ids %s and %s of %s and %s", first.ID, second.ID, first.RequestID, second.RequestID)
		}
		if first.Provider != "a" || second.Provider != "b" || answer.Report.Cost != second.Cost {
			t.Errorf("billed to %s and %s, reported cost %d", first.Provider, second.Provider, answer.Report.Cost)
		}
		if len(d.reserved) != 2 || d.reserved[first.ID] == 0 || d.reserved[second.ID] == 0 {
			t.Errorf("reserved %v, want something for each of %s and %s", d.reserved, first.ID, second.ID)
		}
		if diff := cmp.Diff([]bool{true}, d.ended); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

// full refuses every reservation but the first.
type full struct{ *fakeAdmission }

func (f full) Admit(ctx context.Context, organization, id string, key keyterm.Terms) (admission.Grant, error) {
	g, err := f.fakeAdmission.Admit(ctx, organization, id, key)
	return once{g.(*fakeGrant)}, err //nolint:forcetypeassert // fakeAdmission returns no other type.
}

type once struct{ *fakeGrant }

func (o once) Reserve(ctx context.Context, id uuid.UUID, worst price.Pico) error {
	if len(o.reserved) > 0 {
		return budget.ErrExceeded
	}
	return o.fakeGrant.Reserve(ctx, id, worst)
}

// A second call that the ceiling doesn't cover is not made.
func TestNoCallBeyondTheCeilingAfterAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{{wait: time.Hour}}}, &script{name: "b", answer: good})
		d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		b.Admission = full{d}
		_, err := b.Chat(t.Context(), request())
		if !errors.Is(err, budget.ErrExceeded) {
			t.Errorf("%v", err)
		}
		if calls, _ := b.scripts["b"].count(); calls != 0 || b.ledger.outcomes() != "interrupted" {
			t.Errorf("%d calls of b, billed as %q", calls, b.ledger.outcomes())
		}
	})
}

// Abandoned images and vectors are billed too: the request determines the price of images.
func TestAbandonedImagesAndVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := chain(t, "a", [2]string{"a-1", "a-1"}, &maker{name: "a", waits: true}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := drawRequest("")
		r.ImageRequest.Count = 3
		if _, err := b.MakeImages(ctx, r); err == nil {
			t.Fatal("it is served")
		}
		if got := b.ledger.outcomes(); got != "cancelled" {
			t.Fatalf("images are billed as %q", got)
		}
		if row := b.ledger.entries[0]; row.Usage.Images != 3 || row.State != ledger.StateEstimated || row.Operation != string(provider.OperationImages) {
			t.Errorf("%s %s: %+v", row.Operation, row.State, row.Usage)
		}
	})
}
