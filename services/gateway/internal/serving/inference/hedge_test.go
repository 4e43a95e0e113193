package inference

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Every way in which the two calls of a hedged request can end, as a stream and as a whole answer.
func TestHedge(t *testing.T) {
	for name, c := range map[string]struct {
		a, b     []step
		want     string // the answer
		err      bool
		took     time.Duration
		attempts int
		hedged   string
		rows     string // provider, outcome and state, in any order
		calls    int    // of b
	}{
		"answers before the hedge":     {a: after(quick, "a"), b: after(quick, "b"), want: "a", took: quick, attempts: 1, rows: "a completed reported"},
		"the first wins":               {a: after(tardy, "a"), b: after(hanging, "b"), want: "a", took: tardy, attempts: 2, hedged: "b/m", rows: "a completed reported, b interrupted estimated", calls: 1},
		"the second wins":              {a: after(hanging, "a"), b: after(quick, "b"), want: "b", took: tardy, attempts: 2, hedged: "a/m", rows: "a interrupted estimated, b completed reported", calls: 1},
		"both fail":                    {a: failingAfter(tardy, apierr.ClassServerError, 500), b: failingAfter(tardy, apierr.ClassServerError, 500), want: "c", took: 250 * time.Millisecond, attempts: 3, rows: "c completed reported", calls: 1},
		"the first fails":              {a: failingAfter(tardy, apierr.ClassServerError, 500), b: after(time.Second, "b"), want: "b", took: 1100 * time.Millisecond, attempts: 2, rows: "b completed reported", calls: 1},
		"the first fails before":       {a: failingAfter(quick, apierr.ClassServerError, 500), b: after(time.Second, "b"), want: "b", took: 1050 * time.Millisecond, attempts: 2, rows: "b completed reported", calls: 1},
		"the second fails":             {a: after(time.Second, "a"), b: failingAfter(quick, apierr.ClassServerError, 500), want: "a", took: time.Second, attempts: 2, rows: "a completed reported", calls: 1},
		"the second is refused":        {a: after(time.Second, "a"), b: failing(apierr.ClassRateLimit, 429), want: "a", took: time.Second, attempts: 2, rows: "a completed reported", calls: 1},
		"the request is at fault":      {a: failingAfter(tardy, apierr.ClassContentPolicy, 400), b: after(hanging, "b"), err: true, took: tardy, rows: "b interrupted estimated", calls: 1},
		"the first one's clock ends":   {a: after(hanging, "a"), b: failingAfter(hanging, apierr.ClassServerError, 500), want: "c", rows: "a interrupted estimated, b interrupted estimated, c completed reported", calls: 1},
		"the second fails, then first": {a: failingAfter(time.Second, apierr.ClassServerError, 500), b: failingAfter(quick, apierr.ClassServerError, 500), want: "c", took: time.Second, attempts: 3, rows: "c completed reported", calls: 1},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := setupHedged(t, vendorOf("a", c.a), vendorOf("b", c.b), vendorOf("c", after(0, "c")))
					d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
					b.Admission = d
					began := time.Now()
					got, route, err := serveHedged(t.Context(), b, request(), stream)
					took := time.Since(began)
					if got != c.want || (err != nil) != c.err {
						t.Fatalf("%q, %v, want %q", got, err, c.want)
					}
					if c.took > 0 && took != c.took {
						t.Errorf("took %s, want %s", took, c.took)
					}
					if c.attempts > 0 && route.Attempts != c.attempts {
						t.Errorf("%d attempts, want %d", route.Attempts, c.attempts)
					}
					hedged := ""
					if route.Hedged != (provider.Target{}) {
						hedged = route.Hedged.String()
					}
					if hedged != c.hedged {
						t.Errorf("hedged %q, want %q", hedged, c.hedged)
					}
					if calls, _ := b.scripts["b"].count(); calls != c.calls && c.calls > 0 {
						t.Errorf("%d calls of b, want %d", calls, c.calls)
					}
					checkRows(t, b, c.rows)
					checkSettled(t, b, d)
				})
			})
		}
	}
}

// A caller who leaves while both calls are in flight ends both at once, and pays for both; so does a request that the
// gateway ends.
func TestHedgeEndsWithItsRequest(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for cause, rows := range map[error]string{
			nil:            "a cancelled estimated, b cancelled estimated",
			run.ErrRevoked: "a aborted estimated, b aborted estimated",
		} {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", after(hanging, "a")), vendorOf("b", after(hanging, "b")))
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(tardy, func() {
					if cause == nil {
						cancel()
						return
					}
					d.end(cause)
				})
				began := time.Now()
				_, _, err := serveHedged(ctx, b, request(), stream)
				if err == nil || cause != nil && !errors.Is(err, cause) {
					t.Errorf("%v, want %v", err, cause)
				}
				if took := time.Since(began); took != tardy {
					t.Errorf("it took %s", took)
				}
				checkRows(t, b, rows)
				checkSettled(t, b, d)
			})
		}
	}
}

// There is no hedge where there is no money, no room, no reservation, or no second call that could do no harm.
func TestNoHedge(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(b *bench, r *Request)
		refuses bool
	}{
		"no budget": {change: func(b *bench, _ *Request) { b.hedges.latency.Settle(0, 1e15) }},
		"off": {change: func(b *bench, _ *Request) {
			b.Fleet().Hedge = func(policy.Goal) policy.Hedge { return policy.Hedge{} }
		}},
		"unknown latency": {change: func(b *bench, _ *Request) {
			b.Fleet().Hedge = func(policy.Goal) policy.Hedge { return policy.Hedge{BudgetPercent: 2, Goal: policy.GoalLatency} }
		}},
		"no reservation":  {refuses: true},
		"another model":   {change: func(b *bench, _ *Request) { b.Fleet().Planner = twins{names: []string{"a", "b*"}} }},
		"a pin":           {change: func(b *bench, _ *Request) { b.Fleet().Planner = twins{names: []string{"a", "b"}, pinned: true} }},
		"a canary":        {change: func(b *bench, _ *Request) { b.Fleet().Planner = twins{names: []string{"a", "b"}, canary: 1} }},
		"another payer":   {change: func(b *bench, _ *Request) { b.Fleet().Keys = byokAt("b") }},
		"no substitution": {change: func(_ *bench, r *Request) { r.Route.Substitution = false }},
		"a probe":         {change: func(_ *bench, r *Request) { r.Probe = true }},
		"stored":          {change: func(_ *bench, r *Request) { r.Stored = true }},
		"a vendor stores": {change: func(_ *bench, r *Request) { r.Hints = []provider.HintField{{Name: "store"}} }},
		"an approval":     {change: func(_ *bench, r *Request) { r.ApprovalRef = "ap_1" }},
		"a vendor's tool": {change: func(_ *bench, r *Request) { r.Bounds.Offered = "tools[0].type: web_search" }},
		"open input":      {change: func(_ *bench, r *Request) { r.Bounds.OpenInput = true }},
		"surcharged":      {change: func(_ *bench, r *Request) { r.Bounds.Surcharged = true }},
		"no room at the first": {change: func(b *bench, _ *Request) {
			for range concurrency*3/4 - 1 { // With the request's own call it is three quarters.
				b.Health.Acquire(context.Background(), health.Call{Target: provider.Target{Provider: "a", Model: "m"}})
			}
		}},
		"no room at the second": {change: func(b *bench, _ *Request) {
			for range concurrency * 3 / 4 {
				b.Health.Acquire(context.Background(), health.Call{Target: provider.Target{Provider: "b", Model: "m"}})
			}
		}},
		"an open circuit": {change: func(b *bench, _ *Request) {
			for range 20 {
				if p, refused := b.Health.Acquire(context.Background(), health.Call{Target: provider.Target{Provider: "b", Model: "m"}}); refused == nil {
					p.End(context.Background(), health.Verdict{Outcome: health.Bad})
				}
			}
		}},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(quick, "b")))
				r := request()
				if c.change != nil {
					c.change(b, r)
				}
				d := &fakeAdmission{terms: admission.Terms{Reserves: true}}
				b.Admission = d
				if c.refuses {
					b.Admission = full{d}
				}
				got, route, err := serveHedged(t.Context(), b, r, stream)
				if err != nil || got != "a" || route.Attempts != 1 || route.Hedged != (provider.Target{}) {
					t.Errorf("%s, stream %t: %q with %+v, %v", name, stream, got, route, err)
				}
				if calls, _ := b.scripts["b"].count(); calls != 0 {
					t.Errorf("%s, stream %t: b was called %d times", name, stream, calls)
				}
				if len(b.ledger.entries) != 1 || len(d.ended) != 1 || !d.ended[0] {
					t.Errorf("%s, stream %t: %d rows, ended %v", name, stream, len(b.ledger.entries), d.ended)
				}
			})
		}
	}
}

// A hedge that found no reservation leaves the budget of hedges as it was.
func TestHedgeWithoutReservationCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(quick, "b")))
		b.Admission = full{&fakeAdmission{terms: admission.Terms{Reserves: true}}}
		if _, err := b.Chat(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if !b.hedges.latency.Take(1.99e13, 2, time.Now()) {
			t.Error("the budget is smaller than before")
		}
	})
}

// brokenLater is a provider whose adapter panics after a while.
type brokenLater struct {
	*script
	wait time.Duration
}

func (p brokenLater) Chat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	p.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	if err := (step{wait: p.wait}).take(ctx); err != nil {
		return nil, err
	}
	panic("a bug in the adapter")
}

func (p brokenLater) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	_, err := p.Chat(ctx, c, chat)
	return nil, err
}

// A panic in one adapter costs only its own call.
func TestPanicInOneCallOfAHedge(t *testing.T) {
	for broken, want := range map[string]string{"a": "b", "b": "a"} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(time.Second, "b")))
				b.Fleet().Providers[broken] = brokenLater{b.scripts[broken], tardy}
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				got, _, err := serveHedged(t.Context(), b, request(), stream)
				if err != nil || got != want {
					t.Errorf("%q, %v, want the answer of %s", got, err, want)
				}
				checkRows(t, b, want+" completed reported")
				checkSettled(t, b, d)
			})
		}
	}
}

// A second credential of the same pool takes the hedge where no other provider has the model.
func TestHedgeInAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", nil))
		b.Fleet().Keys = poolOf(2)
		vendor := &slowFirst{script: b.scripts["a"]}
		b.Fleet().Providers["a"] = vendor
		got, route, err := serveHedged(t.Context(), b, request(), true)
		if err != nil || route.Attempts != 2 || route.Hedged.String() != "a/m" {
			t.Errorf("%+v, %v", route, err)
		}
		if len(vendor.names) != 2 || vendor.names[0] == vendor.names[1] || got != vendor.names[1] {
			t.Errorf("called with %v, answered by %q", vendor.names, got)
		}
		checkRows(t, b, "a completed reported, a interrupted estimated")
	})
}

// slowFirst is a provider that answers with the name of the credential, except the first call, which hangs.
type slowFirst struct {
	*script
	names []string
}

func (p *slowFirst) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	p.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := quick
	if len(p.names) == 0 {
		wait = hanging
	}
	p.names = append(p.names, c.Name)
	return &scriptStream{ctx: ctx, of: p.script, steps: after(wait, c.Name)}, nil
}
