package inference

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// fakeAdmission is an Admission whose decisions a test sets.
type fakeAdmission struct {
	terms   admission.Terms
	refuses error // admission
	full    error // reservation

	mu       sync.Mutex
	inside   int
	cancel   context.CancelCauseFunc
	reserved map[uuid.UUID]price.Pico
	settled  map[uuid.UUID]bool // the argument recorded of each Settle
	ended    []bool             // the argument recorded of each End
}

type fakeGrant struct {
	*fakeAdmission

	ctx context.Context
	out bool
}

func (d *fakeAdmission) Admit(ctx context.Context, organization, id string, key keyterm.Terms) (admission.Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses != nil {
		return nil, d.refuses
	}
	d.inside++
	p := &fakeGrant{fakeAdmission: d}
	p.ctx, d.cancel = context.WithCancelCause(ctx)
	return p, nil
}

// end ends the requests in flight, as the gateway does.
func (d *fakeAdmission) end(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel(cause)
}

func (p *fakeGrant) Context() context.Context { return p.ctx }
func (p *fakeGrant) Terms() admission.Terms   { return p.terms }

func (p *fakeGrant) Reserve(_ context.Context, id uuid.UUID, worst price.Pico) error {
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

func (p *fakeGrant) ReserveTool(ctx context.Context, id uuid.UUID, cost price.Pico, _ budget.Tool) error {
	return p.Reserve(ctx, id, cost)
}

func (p *fakeGrant) Settle(id uuid.UUID, recorded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled == nil {
		p.settled = make(map[uuid.UUID]bool)
	}
	p.settled[id] = recorded
}

func (p *fakeGrant) End(recorded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out {
		return
	}
	p.out = true
	p.inside--
	p.ended = append(p.ended, recorded)
	p.cancel(nil)
}

// authority returns a run that may use models; none is any.
func authority(models ...string) *run.Run {
	return &run.Run{Status: run.Active, Limits: run.Limits{Models: models, ExpiresAt: time.Now().Add(time.Hour)}, ApprovalRef: "ap_1"}
}

// every has each operation of the engine, by name.
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

// A request that isn't admitted reaches no provider, by any operation. The grant of one that is admitted is released,
// whatever its outcome.
func TestEveryOperationIsAdmitted(t *testing.T) {
	for name, call := range every {
		t.Run(name, func(t *testing.T) {
			refused := apierr.New(apierr.KindForbidden, "organization_suspended", "no")
			b := setup(t, nil, fine())
			d := &fakeAdmission{refuses: refused}
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
			if d.inside != 0 || len(d.ended) != 2 || d.ended[1] != (err == nil) {
				t.Errorf("%d inside, ended with recorded %v, %v", d.inside, d.ended, err)
			}
			for _, entry := range b.ledger.entries {
				if _, ok := d.reserved[entry.ID]; !ok {
					t.Error("the ledger row is not of the reservation's id")
				}
			}
		})
	}
}

// The grant of a request that fails at every provider is released, and no row is recorded.
func TestFailedRequestReleasesItsGrant(t *testing.T) {
	for _, call := range []string{"chat", "stream"} {
		b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)})
		d := &fakeAdmission{terms: admission.Terms{Reserves: true}}
		b.Admission = d
		if err := every[call](t.Context(), b, request()); err == nil {
			t.Fatal("it is served")
		}
		if d.inside != 0 || len(d.ended) != 1 || d.ended[0] {
			t.Errorf("%s: %d inside, ended with recorded %v", call, d.inside, d.ended)
		}
	}
}

// A request that the gateway ends stops at once: a stream ends with an error in its band, the call upstream is closed,
// and what arrived is billed as aborted.
func TestEndedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &script{name: "a", steps: []step{text("12345678"), {wait: 900 * time.Millisecond, event: provider.Event{Text: "late"}}, end(used)}}
		b := setup(t, nil, slow)
		d := &fakeAdmission{}
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

// A whole answer that the gateway ends is refused with that cause, not with a vendor's failure, and no other vendor is
// called.
func TestAWholeAnswerIsEndedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{{wait: time.Second}}}, fine())
		d := &fakeAdmission{}
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

// A stream that ends before its next event is read is cancelled where its caller closed the connection, and aborted
// where the gateway ended it.
func TestOutcomeOfAClosedStream(t *testing.T) {
	for _, outside := range []bool{false, true} {
		b := setup(t, nil, fine())
		d := &fakeAdmission{}
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
		{[]string{"b-1"}, ""}, // A model that only stands in for the one that was asked for.
		{[]string{"x"}, ""},
	} {
		b := setup(t, nil, &script{name: "a", answer: good}, &script{name: "b", answer: good})
		b.Admission = &fakeAdmission{terms: admission.Terms{Run: authority(c.models...)}}
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

// Failover never uses a model that the run may not use.
func TestFailoverKeepsToTheRunsModels(t *testing.T) {
	b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)}, &script{name: "b", answer: good})
	b.Admission = &fakeAdmission{terms: admission.Terms{Run: authority("a-1")}}
	if _, err := b.Chat(t.Context(), request()); err == nil {
		t.Error("served by a model that the run may not use")
	}
	if calls, _ := b.scripts["b"].count(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

// endsWhileReserving ends a request, as the gateway does, while its reservation is made.
type endsWhileReserving struct{ *fakeAdmission }

func (e endsWhileReserving) Admit(ctx context.Context, organization, id string, key keyterm.Terms) (admission.Grant, error) {
	g, err := e.fakeAdmission.Admit(ctx, organization, id, key)
	p := g.(*fakeGrant) //nolint:forcetypeassert // fakeAdmission returns no other type.
	p.terms.Reserves, p.full = true, context.Canceled
	e.end(run.ErrRevoked)
	return g, err
}

// A request that the gateway ends before its first attempt fails with that cause.
func TestRequestEndedBeforeItsCallFailsWithTheCause(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: good})
	b.Admission = endsWhileReserving{&fakeAdmission{}}
	if _, err := b.Chat(t.Context(), request()); !errors.Is(err, run.ErrRevoked) {
		t.Errorf("%v", err)
	}
	if calls, _ := b.scripts["a"].count(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}
