package inference

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// door is an admission that a test holds.
type door struct {
	terms   admission.Terms
	refuses error // admission
	full    error // reservation

	mu       sync.Mutex
	inside   int
	cancel   context.CancelCauseFunc
	reserved map[uuid.UUID]price.Pico
	left     []bool // recorded, of each that left
}

type pass struct {
	*door

	ctx context.Context
	out bool
}

func (d *door) Admit(ctx context.Context, organization, id string) (admission.Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses != nil {
		return nil, d.refuses
	}
	d.inside++
	p := &pass{door: d}
	p.ctx, d.cancel = context.WithCancelCause(ctx)
	return p, nil
}

// end ends what is inside, from outside.
func (d *door) end(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel(cause)
}

func (p *pass) Context() context.Context { return p.ctx }
func (p *pass) Terms() admission.Terms   { return p.terms }

func (p *pass) Reserve(_ context.Context, id uuid.UUID, worst price.Pico) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full != nil {
		return p.full
	}
	if p.reserved == nil {
		p.reserved = make(map[uuid.UUID]price.Pico)
	}
	p.reserved[id] = worst
	return nil
}

func (p *pass) Leave(recorded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out {
		return
	}
	p.out = true
	p.inside--
	p.left = append(p.left, recorded)
	p.cancel(nil)
}

// authority allows models; none is any.
func authority(models ...string) *run.Run {
	return &run.Run{Status: run.Active, Limits: run.Limits{Models: models, ExpiresAt: time.Now().Add(time.Hour)}, ApprovalRef: "ap_1"}
}

// every is each operation of the engine, by name.
var every = map[string]func(ctx context.Context, b *bench, r *Request) error{
	"chat": func(ctx context.Context, b *bench, r *Request) error {
		_, err := b.Chat(ctx, r)
		return err
	},
	"stream": func(ctx context.Context, b *bench, r *Request) error {
		s, err := b.StreamChat(ctx, r)
		if err != nil {
			return err
		}
		_, err = read(s)
		return err
	},
	"embed": func(ctx context.Context, b *bench, r *Request) error {
		r.Route.Operation, r.Embedding.Input = provider.OperationEmbeddings, []string{"x"}
		_, err := b.Embed(ctx, r)
		return err
	},
	"images": func(ctx context.Context, b *bench, r *Request) error {
		r.Route.Operation, r.ImageRequest.Prompt = provider.OperationImages, "x"
		_, err := b.MakeImages(ctx, r)
		return err
	},
}

// A request that isn't admitted reaches no provider, by any operation, and one that is
// admitted leaves again, whatever its outcome.
func TestEveryOperationIsAdmitted(t *testing.T) {
	for name, call := range every {
		t.Run(name, func(t *testing.T) {
			refused := apierr.New(apierr.KindForbidden, "organization_suspended", "no")
			b := setup(t, nil, fine())
			d := &door{refuses: refused}
			b.Admission = d
			if err := call(t.Context(), b, request()); !errors.Is(err, refused) {
				t.Errorf("refused: %v", err)
			}
			d.refuses, d.full, d.terms.Reserves = nil, budget.ErrExceeded, true
			if err := call(t.Context(), b, request()); !errors.Is(err, budget.ErrExceeded) {
				t.Errorf("beyond the budget: %v", err)
			}
			if calls, _ := b.scripts["b"].count(); calls != 0 || len(b.ledger.entries) != 0 {
				t.Errorf("%d calls, %d entries", calls, len(b.ledger.entries))
			}
			d.full = nil
			err := call(t.Context(), b, request())
			if d.inside != 0 || len(d.left) != 2 || d.left[1] != (err == nil) {
				t.Errorf("%d inside, left %v, %v", d.inside, d.left, err)
			}
			for _, entry := range b.ledger.entries {
				if _, ok := d.reserved[entry.ID]; !ok {
					t.Error("the ledger row is not of the reservation's id")
				}
			}
		})
	}
}

// A request that fails everywhere leaves, and nothing of it is recorded.
func TestAFailedRequestLeaves(t *testing.T) {
	for _, call := range []string{"chat", "stream"} {
		b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)})
		d := &door{terms: admission.Terms{Reserves: true}}
		b.Admission = d
		if err := every[call](t.Context(), b, request()); err == nil {
			t.Fatal("it is served")
		}
		if d.inside != 0 || len(d.left) != 1 || d.left[0] {
			t.Errorf("%s: %d inside, left %v", call, d.inside, d.left)
		}
	}
}

// What is ended from outside ends at once: a stream with an error in its band, the
// call upstream closed and what came billed as aborted.
func TestEndedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &script{name: "a", steps: []step{text("12345678"), {wait: 900 * time.Millisecond, event: provider.Event{Text: "late"}}, end(used)}}
		b := setup(t, nil, slow)
		d := &door{}
		b.Admission = d
		s, err := b.StreamChat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { d.end(run.ErrRevoked) })
		start := time.Now()
		if _, err := s.Next(); !errors.Is(err, run.ErrRevoked) || time.Since(start) > 200*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		if _, closed := slow.count(); closed != 1 || d.inside != 0 {
			t.Errorf("%d streams closed, %d inside", closed, d.inside)
		}
		s.Close()
		entry := b.ledger.entries[0]
		if len(b.ledger.entries) != 1 || entry.Outcome != ledger.OutcomeAborted || entry.Usage.Output != 2 {
			t.Errorf("%d entries, %+v", len(b.ledger.entries), entry)
		}
	})
}

// A whole answer that is ended from outside is refused by the cause, not by a
// vendor's failure, and no other vendor is asked.
func TestAWholeAnswerIsEndedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{{wait: time.Second}}}, fine())
		d := &door{}
		b.Admission = d
		time.AfterFunc(100*time.Millisecond, func() { d.end(run.ErrAborted) })
		_, err := b.Chat(t.Context(), request())
		if !errors.Is(err, run.ErrAborted) {
			t.Errorf("%v", err)
		}
		if calls, _ := b.scripts["b"].count(); calls != 0 {
			t.Errorf("%d calls of another", calls)
		}
		if got, want := b.ledger.outcomes(), "aborted"; got != want {
			t.Errorf("billed as %q, want %q", got, want)
		}
	})
}

// A stream that ends before its next event is read, because its caller left, is
// cancelled; where it was ended from outside, aborted.
func TestCloseSaysWhoEndedIt(t *testing.T) {
	for _, outside := range []bool{false, true} {
		b := setup(t, nil, fine())
		d := &door{}
		b.Admission = d
		s, err := b.StreamChat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if outside {
			d.end(run.ErrRevoked)
		}
		s.Close()
		want := map[bool]ledger.Outcome{false: ledger.OutcomeCancelled, true: ledger.OutcomeAborted}[outside]
		if got := b.ledger.entries[0].Outcome; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestModelsOfARun(t *testing.T) {
	for _, c := range []struct {
		models []string
		served string // empty: refused
	}{
		{nil, "a"},
		{[]string{"a-1"}, "a"},
		{[]string{"a/a-1"}, "a"},
		{[]string{"a-up"}, "a"},
		{[]string{"b-1"}, ""}, // It only stands in for what was asked for.
		{[]string{"x"}, ""},
	} {
		b := setup(t, nil, &script{name: "a", answer: good}, &script{name: "b", answer: good})
		b.Admission = &door{terms: admission.Terms{Run: authority(c.models...)}}
		r := request()
		got, err := b.Chat(t.Context(), r)
		switch {
		case c.served == "" && !errors.Is(err, errModelNotAllowed):
			t.Errorf("%v: %v", c.models, err)
		case c.served != "" && (err != nil || got.Report.Provider != c.served):
			t.Errorf("%v: %+v %v", c.models, got, err)
		}
		if r.ApprovalRef != "ap_1" {
			t.Errorf("the run's approval is %q", r.ApprovalRef)
		}
	}
}

// No failover leads to a model that the run may not use.
func TestFailoverKeepsToTheRunsModels(t *testing.T) {
	b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)}, &script{name: "b", answer: good})
	b.Admission = &door{terms: admission.Terms{Run: authority("a-1")}}
	if _, err := b.Chat(t.Context(), request()); err == nil {
		t.Error("served by a model that the run may not use")
	}
	if calls, _ := b.scripts["b"].count(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

// Models without a price are left out under a ceiling, unless the policy says
// otherwise.
func TestUnpriced(t *testing.T) {
	for _, allow := range []bool{false, true} {
		b := setup(t, nil, &script{name: "nobody", answer: good})
		b.Fleet().ServesUnpriced = allow
		b.Admission = &door{terms: admission.Terms{Reserves: true, Priced: true}}
		if _, err := b.Chat(t.Context(), request()); errors.Is(err, budget.ErrUnpriced) == allow {
			t.Errorf("allowed %v: %v", allow, err)
		}
	}
}

// An answer of a model whose limit is unknown is cut once it exceeds what was set aside.
func TestAnOutgrownStreamIsCut(t *testing.T) {
	flood := step{event: provider.Event{Text: strings.Repeat("x", assumedOutput)}}
	b := setup(t, nil, &script{name: "a", steps: []step{flood, flood, flood, flood, flood, flood, end(used)}})
	d := &door{terms: admission.Terms{Reserves: true, Priced: true}}
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

// Whatever a vendor reports within the bounds of the request costs no more than
// what was set aside.
func TestTheWorstIsTheWorst(t *testing.T) {
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

// endsWhileReserving ends a request from outside while its reserve is made.
type endsWhileReserving struct{ *door }

func (e endsWhileReserving) Admit(ctx context.Context, organization, id string) (admission.Grant, error) {
	g, err := e.door.Admit(ctx, organization, id)
	p := g.(*pass) //nolint:forcetypeassert // The door gives no other.
	p.terms.Reserves, p.full = true, context.Canceled
	e.end(run.ErrRevoked)
	return g, err
}

// What ends a request before its first attempt is what it is told.
func TestARequestEndedBeforeItsCallSaysWhy(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: good})
	b.Admission = endsWhileReserving{&door{}}
	if _, err := b.Chat(t.Context(), request()); !errors.Is(err, run.ErrRevoked) {
		t.Errorf("%v", err)
	}
	if calls, _ := b.scripts["a"].count(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}
